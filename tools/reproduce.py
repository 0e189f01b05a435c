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
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from filelock import FileLock, Timeout
from reproduction.boards import build_boards, score
from reproduction.page import write_page
from reproduction.plan import Place, Plan, Run, SeededRun, measured_tasks, read_plan, seeded_runs, task_of
from reproduction.records import (
    has_changed,
    has_ended,
    has_record,
    has_same_weights,
    keep_record,
    mark_ended,
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


def train(one: SeededRun) -> None:
    """Train a run to its end, and before it the one that it starts from if there is only a record of that."""
    if has_ended(one):
        return
    if (first := one.first) is not None:
        with FileLock(first.lock):  # another process may train it: wait for that
            if not has_ended(first):
                print(f"{first.title}, for its weights", flush=True)
                train(first)
    plan, run, place = one.plan, one.run, one.place
    config = run.config or plan.config
    decabench.train(
        one.folder,
        run.tasks,
        settings={**plan.settings, **run.settings, "seed": one.seed},
        config=place.plan.parent / config if config else None,
        init=one.origin,
        home=place.home,
        device=place.device,
        resume=True,
        include=place.include,
        report=lambda text: print(f"  {text}", flush=True),
    )
    mark_ended(one)


def left_to_answer(one: SeededRun) -> list[str]:
    """Return the splits that a run has no results of, if the weights are here that it was answered with before.

    A measure of another split may have joined the plan after the run was recorded: without its weights, it stays empty.
    """
    if not has_ended(one):
        return []
    left = [split for split in one.splits if not one.results(split).exists()]
    return left if left and has_same_weights(one) else []


def answer(one: SeededRun) -> None:
    """Answer what a run's tasks are measured by, and score what is left of it.

    New answers take older results with them, so all is answered before any is scored (what has been answered already
    is not asked again), the plan's split last: its results say that a run is done.
    """
    place = one.place
    for split in one.splits:
        measured = measured_tasks(one.plan, split, place.include)
        decabench.predict(
            f"trained:{one.folder}",
            one.submission,
            [task for task in one.run.tasks if task in measured],
            split,
            place.home,
            place.include,
            options=ModelOptions(device=place.device),
        )
    for split in reversed(left_to_answer(one)):
        score(one.plan, one.suite, one.submission, place, split)


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


def is_done(one: SeededRun) -> bool:
    """Whether a run has been answered and scored, or has a record of these settings."""
    try:
        return not left_to_answer(one) if one.is_scored else has_record(one)
    except SubmissionError:  # a damaged record, which `complete` tells of
        return False


def complete(one: SeededRun, train_it: bool = True) -> None:
    """Train, answer and score one run, unless another process trains it, or it is done or recorded; record it."""
    if (
        one.is_scored
        and (one.record is None or has_record(one))
        and not record_has_more(one)
        and not left_to_answer(one)
    ):
        return
    try:
        with FileLock(one.lock, timeout=0):
            known = one.is_scored
            if not known or record_has_more(one):
                known = restore_run(one)
            if not known:
                refuse_other_record(one)
                if not train_it:
                    return
                print(one.title, flush=True)
                train(one)
            told = bool(train_it and left_to_answer(one))
            if told:
                answer(one)
            keep_record(one)
            for split in one.splits if told else ():
                print(f"  {one.title}: {describe_scores(one.results(split))}", flush=True)
    except Timeout:
        if train_it:
            print(f"{one.title}: another process trains it", flush=True)


def faults(plan: Plan, runs: Sequence[Run], place: Place) -> Iterator[str]:
    """Yield what would end a run after others were trained: settings, tasks, data and vectors that are not there."""
    from decabench.models import Checkpoint, pick_device
    from decabench.training.config import TrainConfig, combine_settings
    from decabench.vectors import join_vectors

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


def changes(runs: Iterable[SeededRun]) -> Iterator[str]:
    """Yield what to delete of runs that are done, but had other settings than the plan's of today."""
    for one in runs:
        if has_changed(one):
            yield f"{one.title}: delete {one.submission} and {one.folder}"


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
    asked = seeded_runs(plan, place, chosen, given.seeds)
    if not asked:
        own = {run.name: ", ".join(map(str, plan.seeds_of(run))) for run in chosen}
        parser.error("--seeds: " + "; ".join(f"{name} has the seeds {them}" for name, them in own.items()))
    try:
        changed = list(changes(seeded_runs(plan, place, seeds=given.seeds)))
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
        if not given.page_only and not all(is_done(one) for one in asked if one.run is run)
    ]
    if wrong := list(faults(plan, left, place)) if left else []:
        sys.exit("\n".join([f"{given.plan}: nothing was trained, as some runs could not be.", *wrong]))
    if place.records is not None and (left or given.page_only):
        if not place.records.exists():
            print(
                f"{place.records} does not exist as yet: records will be written to it, and there are none to use."
            )
        elif not any(one.record and one.record.exists() for one in asked):
            print(f"{place.records} has no record of the runs that were asked for.")
    try:
        with storage_errors(given.output):
            place.lock("page").open("ab").close()  # before hours of training
    except DecabenchError as error:
        sys.exit(str(error))
    failed = dict[str, str]()
    for one in asked:
        try:
            complete(one, train_it=not given.page_only)
        except DecabenchError as error:  # the others can still be trained, and the page written
            failed[one.name] = f"{one.title}: {error}"
            print(failed[one.name], file=sys.stderr, flush=True)
        except KeyboardInterrupt:
            print(
                "\n".join(["", *failed.values(), "Interrupted: the same command goes on where it was."]),
                file=sys.stderr,
            )
            sys.exit(130)
    done = sum(is_done(one) and one.name not in failed for one in asked)
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
