"""Reproduce a paper's tables: train, predict, score, test, and write a page with published beside measured figures.

    python tools/reproduce.py PLAN.toml --output OUTPUT [--home HOME] [--only RUN,...] [--seeds 0,1]
                              [--include TASK.toml] [--page docs/reproductions/NAME.md] [--board SITE]
                              [--page-only] [--device cpu] [--records reproductions/NAME]

PLAN.toml lists the runs; examples/training/jmt/plan.toml is one. OUTPUT/runs/RUN-seed-N is a run of `decabench train`,
OUTPUT/submissions/RUN-seed-N its answers and their results. What is done is not done again, and what was broken off
goes on: start the same command as often as it takes, and several times at once, as a process passes over what another
one trains. RECORDS/RUN-seed-N.zip is what is left of a run that is done: its answers, results, configuration and
validation scores. A run with a record is not trained again, here or anywhere, unless another one starts from its
weights. The page has what is done so far, and so has the board of each suite, SITE/SUITE/index.html: there, the
answers of all runs of a row with one seed are one submission (OUTPUT/boards). Beside NAME.md, the page, NAME.json has
what became of its contrasts; tools/claims.py makes the page of all papers' claims of these. In a plan:

- `title`, `paper`, `link` (its address), `suite`, `split`, `seeds`, `summary` (a list: what the runs say), `notes`
  (paragraphs: what to know first), `before` (commands to give before the first run), `config` (a training
  configuration beside the plan) and `settings` (a table) for all runs;
- `[measures]`: name of a column to `task` and `score` (its headline if left out) and `split` (the plan's if left out),
  or to `suite`, whose tasks' headlines are combined as the suite says; `digits`; `remark`: what to know of the
  published figures (`recalled`, other data);
- `[[runs]]`: `name`, `tasks` (all of the suite, but for `omit`, if left out), and optionally `row` (its row of the
  tables; several runs may fill one), `settings`, `seeds`, `config`, `suite`, `init` (a run of the plan to start from,
  with the same seed), `checkpoint` (a folder of published weights beside the plan to start from; with `init`, those of
  that run with the first seed, so that only further seeds train it), `like` (an earlier run, from which it takes all
  but name and row, and whose settings it adds to);
- `[[baselines]]`: `row` and `submission`, a folder beside the plan: a row that is not trained;
- `[[tables]]`: `title`, `measures`, and optionally `rows`, `text` and `transposed`;
- `[published.ROW]`: measure to figure, and `[parameters]`: row to the number of weights without embeddings;
- `[[contrasts]]`: `row`, `baseline` (several: their mean), `measures`, and optionally `claimed`, the difference that
  the text has (less than 0 where an error falls), and `remark`, what to know of the published difference;
- `costs`: a measure that is set beside weights and minutes of training, as table and picture; `unplotted`: rows that
  the picture leaves out;
- `[[counts]]`: `name`, `printed`, `modules` and `remark`: a worked example of numbers of parameters, counted anew;
- `overlap`: splits such as train; suites are also scored without the texts that stand in them, word for word, or, with
  `overlap_by = "normalised"`, but for case, spaces and punctuation;
- `[lists]`: names of lists. `each = "NAME"` (or a list) in a run or a measure makes one for each member, in place of
  `{}`; `measures` of a table or a contrast may name a list too.

A contrast is tested by the harness's own inference for pairs of systems, that of a suite by its inference for totals.
"""

from __future__ import annotations

import argparse
import faulthandler
import math
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from filelock import FileLock, Timeout
from reproduction.boards import build_boards, score
from reproduction.page import write_page
from reproduction.plan import Place, Plan, Run, measured_tasks, read_plan, task_of
from reproduction.records import (
    has_changed,
    has_ended,
    has_record,
    has_same_weights,
    keep_record,
    mark_ended,
    record_file,
    record_has_more,
    refuse_other_record,
    restore_run,
)

import decabench
from decabench.errors import DecabenchError, SubmissionError, near_matches
from decabench.files import storage_errors
from decabench.predictors import ModelOptions
from decabench.scoring import find_metric, read_results_file
from decabench.tasks import Store, home_folder


def train(plan: Plan, run: Run, seed: int, place: Place) -> None:
    """Train a run to its end, and before it the one that it starts from if there is only a record of that."""
    if has_ended(place, run, seed):
        return
    if (first := plan.first_of(run, seed)) is not None:
        with FileLock(place.lock(first.name, seed)):  # another process may train it: wait for that
            if not has_ended(place, first, seed):
                print(f"{first.name}, seed {seed}, for its weights", flush=True)
                train(plan, first, seed, place)
    config = run.config or plan.config
    decabench.train(
        place.run(run.name, seed),
        run.tasks,
        settings={**plan.settings, **run.settings, "seed": seed},
        config=place.plan.parent / config if config else None,
        init=_origin(plan, run, seed, place),
        home=place.home,
        device=place.device,
        resume=True,
        include=place.include,
        report=lambda text: print(f"  {text}", flush=True),
    )
    mark_ended(plan, run, seed, place)


def _origin(plan: Plan, run: Run, seed: int, place: Place) -> Path | str:
    """Return the checkpoint, or the folder of a run, whose weights a run starts from; nothing for random ones."""
    if published := plan.checkpoint_of(run, seed):
        return (place.plan.parent / published).resolve()
    return place.run(run.init, seed) if run.init else ""


def left_to_answer(plan: Plan, run: Run, seed: int, place: Place) -> list[str]:
    """Return the splits that a run has no results of, if the weights are here that it was answered with before.

    A measure of another split may have joined the plan after the run was recorded: without its weights, it stays empty.
    """
    if not has_ended(place, run, seed):
        return []
    splits = plan.splits_of(run)
    left = [split for split in splits if not place.results(plan, run, seed, split).exists()]
    return left if left and has_same_weights(place, run, seed) else []


def answer(plan: Plan, run: Run, seed: int, place: Place) -> None:
    """Answer what a run's tasks are measured by, and score what is left of it.

    New answers take older results with them, so all is answered before any is scored (what has been answered already
    is not asked again), the plan's split last: its results say that a run is done.
    """
    for split in plan.splits_of(run):
        measured = measured_tasks(plan, split, place.include)
        decabench.predict(
            f"trained:{place.run(run.name, seed)}",
            place.submission(run.name, seed),
            [task for task in run.tasks if task in measured],
            split,
            place.home,
            place.include,
            options=ModelOptions(device=place.device),
        )
    for split in reversed(left_to_answer(plan, run, seed, place)):
        score(plan, run.suite or plan.suite, place.submission(run.name, seed), place, split)


def describe_scores(results: Path) -> str:
    """Return a run's headline scores and the file that they are from; small errors with three decimals."""
    tasks = read_results_file(results).tasks
    scores = [
        f"{name} {task.headline} {task.score:.3f}"
        if math.isinf(find_metric(task.metric).range[1])
        else f"{name} {task.headline} {task.score:.2f}"
        for name, task in tasks.items()
        if task.score is not None
    ]
    return f"{', '.join(scores) or 'no scores'} ({results})"


def is_done(plan: Plan, run: Run, seed: int, place: Place) -> bool:
    """Whether a run has been answered and scored, or has a record of these settings."""
    try:
        if place.results(plan, run, seed).exists():
            return not left_to_answer(plan, run, seed, place)
        return has_record(plan, run, seed, place)
    except SubmissionError:  # a damaged record, which `complete` tells of
        return False


def complete(plan: Plan, run: Run, seed: int, place: Place, train_it: bool = True) -> None:
    """Train, answer and score one run, unless another process trains it, or it is done or recorded; record it."""
    if (
        place.results(plan, run, seed).exists()
        and (place.records is None or has_record(plan, run, seed, place))
        and not record_has_more(plan, run, seed, place)
        and not left_to_answer(plan, run, seed, place)
    ):
        return
    try:
        with FileLock(place.lock(run.name, seed), timeout=0):
            known = place.results(plan, run, seed).exists()
            if not known or record_has_more(plan, run, seed, place):
                known = restore_run(plan, run, seed, place)
            if not known:
                refuse_other_record(plan, run, seed, place)
                if not train_it:
                    return
                print(f"{run.name}, seed {seed}", flush=True)
                train(plan, run, seed, place)
            told = bool(train_it and left_to_answer(plan, run, seed, place))
            if told:
                answer(plan, run, seed, place)
            keep_record(plan, run, seed, place)
            for split in plan.splits_of(run) if told else ():
                scores = describe_scores(place.results(plan, run, seed, split))
                print(f"  {run.name}, seed {seed}: {scores}", flush=True)
    except Timeout:
        if train_it:
            print(f"{run.name}, seed {seed}: another process trains it", flush=True)


def faults(plan: Plan, runs: Sequence[Run], place: Place) -> Iterator[str]:
    """Yield what would end a run after others were trained: settings, tasks, data and vectors that are not there."""
    from decabench.models import Checkpoint, join_vectors, pick_device
    from decabench.training.config import TrainConfig, combine_settings

    opened, store = dict[tuple[str, ...], str](), Store(home_folder(place.home))
    measured = measured_tasks(plan, plan.split, place.include)
    try:
        pick_device(place.device)
    except DecabenchError as error:
        yield str(error)
    for run in runs:
        if not measured & set(run.tasks):
            yield f"{run.name}: none of its tasks has a measure of the {plan.split} split"
        config = run.config or plan.config
        try:
            path = place.plan.parent / config if config else None
            settings = {**plan.settings, **run.settings, "seed": 0}
            made, _ = combine_settings(TrainConfig(), path, settings, tasks=run.tasks)
            if run.checkpoint:
                Checkpoint.open((place.plan.parent / run.checkpoint).resolve())
            for task in made.tasks:
                task_of(task, place.include)
            for split in dict.fromkeys(["train", *plan.splits_of(run)]):
                needed = made.tasks if split == "train" else measured_tasks(plan, split, place.include)
                store.require([task for task in made.tasks if task in needed], split)
        except DecabenchError as error:
            yield f"{run.name}: {error}"
            continue
        if made.vectors not in opened:
            opened[made.vectors] = ""
            try:
                join_vectors(made.vectors)
            except DecabenchError as error:
                opened[made.vectors] = str(error)
        if fault := opened[made.vectors]:
            yield f"{run.name}: {fault}"


def changes(plan: Plan, seeds: Sequence[int], place: Place) -> Iterator[str]:
    """Yield what to delete of runs that are done, but had other settings than the plan's of today."""
    for run in plan.runs:
        for seed in chosen_seeds(plan, run, seeds):
            if has_changed(plan, run, seed, place):
                folders = place.submission(run.name, seed), place.run(run.name, seed)
                yield "{}, seed {}: delete {} and {}".format(run.name, seed, *folders)


def chosen_seeds(plan: Plan, run: Run, seeds: Sequence[int]) -> list[int]:
    """Return the seeds of a run, or those of them that were asked for."""
    return [seed for seed in plan.seeds_of(run) if not seeds or seed in seeds]


def read_seeds(text: str) -> list[int]:
    """Read seeds, separated by commas."""
    try:
        return [int(seed) for seed in text.split(",") if seed]
    except ValueError:
        wrong = [seed for seed in text.split(",") if not seed.strip().isdecimal()]
        message = f"not a seed: {', '.join(map(repr, wrong))}; give whole numbers, separated by commas"
        raise argparse.ArgumentTypeError(message) from None


def advise(plan: Plan, name: str) -> str:
    """Say that a plan has no run of a name, and which may have been meant: a row's runs, or runs with similar names."""
    if own := [run.name for run in plan.runs if run.title == name]:
        return f"{name!r} is a row, not a run; its runs are {_some(own)}"
    names = [run.name for run in plan.runs]
    if close := near_matches(name, names):
        return f"there is no run {name!r}. Did you mean {' or '.join(close)}?"
    return f"there is no run {name!r}; the runs are {_some(names)}"


MOST = 200
"""How many names an error lists."""


def _some(names: Sequence[str]) -> str:
    """List names, of very many the first ones."""
    return (
        ", ".join(names) if len(names) <= MOST else f"{', '.join(names[:MOST])} and {len(names) - MOST} more"
    )


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("plan", type=Path, help="the plan, a TOML file")
    parser.add_argument("--output", type=Path, required=True, help="folder of runs and submissions")
    parser.add_argument("--home", type=Path, help="folder of prepared data")
    parser.add_argument("--only", default="", help="names of runs, separated by commas")
    parser.add_argument(
        "--seeds", type=read_seeds, default=[], help="some of the plan's seeds, separated by commas"
    )
    parser.add_argument(
        "--include", type=Path, action="append", default=[], help="file that defines a task or a suite"
    )
    parser.add_argument("--device", default="cpu", help="cpu, cuda, ...")
    parser.add_argument("--records", type=Path, help="folder of the records of runs that are done")
    parser.add_argument("--page", type=Path, help="file for the page, Markdown")
    parser.add_argument("--board", type=Path, help="folder for the boards of what is done")
    parser.add_argument(
        "--page-only", action="store_true", help="train nothing: only read what is done, and records"
    )
    given = parser.parse_args(arguments)
    plan = read_plan(given.plan, given.include)
    place = Place(given.plan, given.output, given.home, tuple(given.include), given.device, given.records)
    only = [name.strip() for name in given.only.split(",") if name.strip()]
    if given.only in {run.title for run in plan.runs} - {run.name for run in plan.runs}:
        only = [given.only]  # a row, whose name may have commas
    if unknown := sorted(set(only) - {run.name for run in plan.runs}):
        parser.error("--only: " + "; ".join(advise(plan, name) for name in unknown))
    seeds = sorted({seed for run in plan.runs for seed in plan.seeds_of(run)})
    if strange := set(given.seeds) - set(seeds):
        parser.error(
            f"the plan has no seed {', '.join(map(str, sorted(strange)))}; its seeds are {', '.join(map(str, seeds))}"
        )
    if given.page_only and place.records is not None and not place.records.exists():
        parser.error(f"--records: there is no folder {place.records}")
    chosen = [run for run in plan.runs if not only or run.name in only]
    asked = [(run, seed) for run in chosen for seed in chosen_seeds(plan, run, given.seeds)]
    if not asked:
        own = {run.name: ", ".join(map(str, plan.seeds_of(run))) for run in chosen}
        parser.error("--seeds: " + "; ".join(f"{name} has the seeds {them}" for name, them in own.items()))
    try:
        changed = list(changes(plan, given.seeds, place))
    except DecabenchError as error:
        sys.exit(str(error))
    if changed:
        sys.exit(
            f"{given.plan}: nothing was done, as {given.output} has runs of other settings than the plan's. Give "
            "another --output, or, to train them anew:\n" + "\n".join(changed)
        )
    left = [
        run
        for run in chosen
        if not given.page_only
        and not all(is_done(plan, run, seed, place) for own, seed in asked if own is run)
    ]
    if wrong := list(faults(plan, left, place)) if left else []:
        sys.exit("\n".join([f"{given.plan}: nothing was trained, as some runs could not be.", *wrong]))
    if place.records is not None and (left or given.page_only):
        records = [record_file(place, run.name, seed) for run, seed in asked]
        if not place.records.exists():
            print(
                f"{place.records} does not exist as yet: records will be written to it, and there are none to use."
            )
        elif not any(path and path.exists() for path in records):
            print(f"{place.records} has no record of the runs that were asked for.")
    try:
        with storage_errors(given.output):
            place.lock("page").open("ab").close()  # before hours of training
    except DecabenchError as error:
        sys.exit(str(error))
    failed = dict[tuple[str, int], str]()
    for run, seed in asked:
        try:
            complete(plan, run, seed, place, train_it=not given.page_only)
        except DecabenchError as error:  # the others can still be trained, and the page written
            failed[run.name, seed] = f"{run.name}, seed {seed}: {error}"
            print(failed[run.name, seed], file=sys.stderr, flush=True)
        except KeyboardInterrupt:
            print(
                "\n".join(["", *failed.values(), "Interrupted: the same command goes on where it was."]),
                file=sys.stderr,
            )
            sys.exit(130)
    done = sum(is_done(plan, run, seed, place) and (run.name, seed) not in failed for run, seed in asked)
    print(f"{done} of {len(asked)} runs that were asked for are done, in {given.output} or as records.")
    try:
        with FileLock(place.lock("page")):  # another process may write the same
            if given.page is not None:
                write_page(plan, place, given.page)
            if given.board is not None:
                for folder in build_boards(plan, place, given.board):
                    print(f"Board: {folder / 'index.html'}")
    except DecabenchError as error:
        sys.exit(str(error))
    if failed:
        sys.exit("\n".join(["Not done:", *failed.values()]))


if __name__ == "__main__":
    faulthandler.enable()
    main()
