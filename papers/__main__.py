"""Reproduce the five papers: train the runs of a plan, write its page and keep its records.

python -m papers reproduce jmt --only ab --seeds 0       train, answer, score and record runs
python -m papers page jmt                                write papers/pages/jmt.md from the records
python -m papers claims                                  write papers/pages/claims.md from the pages' findings
python -m papers board jmt --site site                   write a board of the completed runs
python -m papers records jmt --unpack FOLDER             list, unpack, add and pack records
python -m papers weights mqan squad-first-longer         train a run and write its weights
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from filelock import FileLock

from decabench.errors import DecabenchError, near_matches
from decabench.files import storage_errors
from papers.plan import WEIGHTS, Place, Plan, SeededRun, read_plan, seeded_runs
from papers.records import RECORDS, Records, read_zip

ROOT = Path(__file__).resolve().parent
PLANS, PAGES = ROOT / "plans", ROOT / "pages"


def find_plan(name: str) -> Path:
    """Return the file of a plan, given its name or path. Raises DecabenchError if there is no such plan."""
    path = PLANS / name / "plan.toml"
    if path.exists() or (path := Path(name)).is_file():
        return path
    names = sorted(path.parent.name for path in PLANS.glob("*/plan.toml"))
    raise DecabenchError(f"Unknown plan {name!r}: choose from {', '.join(names)}, or give a plan's file.")


def choose(plan: Plan, place: Place, only: str, seeds: str) -> list[SeededRun]:
    """Return the runs selected by `--only` and `--seeds`. Raises DecabenchError for unknown names."""
    names = [run.name for run in plan.runs]
    chosen = [name.strip() for name in only.split(",") if name.strip()]
    for name in chosen:
        if name not in names:
            near = near_matches(name, names)
            own = [run.name for run in plan.runs if run.title == name]
            advice = f"did you mean {' or '.join(near)}?"
            if own:
                advice = f"this is a row, whose runs are {', '.join(own)}"
            raise DecabenchError(f"Unknown run {name!r}: {advice if own or near else ', '.join(names)}")
    wanted = [seed.strip() for seed in seeds.split(",") if seed.strip()]
    known = {str(seed) for run in plan.runs for seed in plan.seeds_of(run)}
    if strange := [seed for seed in wanted if seed not in known]:
        raise DecabenchError(
            f"The plan has no seed {', '.join(strange)}; its seeds are {', '.join(sorted(known))}."
        )
    found = seeded_runs(plan, place, [run for run in plan.runs if not chosen or run.name in chosen])
    found = [one for one in found if not wanted or str(one.seed) in wanted]
    if not found:
        raise DecabenchError(f"{only} has no seed {seeds}.")
    return found


def reproduce(plan: Plan, place: Place, given: argparse.Namespace) -> None:
    """Reproduce a plan: train, answer, score and record all runs that aren't done yet."""
    from papers.runs import complete, faults, restore

    asked = choose(plan, place, given.only, given.seeds)
    restore(plan, place)
    left = list({one.run.name: one.run for one in asked if not one.is_scored}.values())
    if wrong := list(faults(plan, left, place)) if left else []:
        raise DecabenchError("\n".join(["Nothing was trained, because some runs would fail.", *wrong]))
    failed = []
    for one in asked:
        try:
            complete(one)
        except DecabenchError as error:  # the other runs can still be trained
            failed.append(f"{one.title}: {error}")
            print(failed[-1], file=sys.stderr, flush=True)
    print(
        f"Runs done: {sum(one.is_scored for one in asked)} of {len(asked)}, in {given.output} or in the "
        "records."
    )
    if failed:
        raise DecabenchError("\n".join(["Not done:", *failed]))


def page(plan: Plan, place: Place, given: argparse.Namespace) -> None:
    """Write a plan's page, its plots and its findings from all completed runs."""
    from papers.page import write_page
    from papers.runs import restore

    restore(plan, place)
    path = given.page or PAGES / f"{place.plan.parent.name}.md"
    with FileLock(place.lock("page")):  # another process may be writing the same page
        write_page(plan, place, path)
    print(path)


def board(plan: Plan, place: Place, given: argparse.Namespace) -> None:
    """Write the boards of a plan's suites, from all completed runs."""
    from papers.boards import build_boards
    from papers.runs import restore

    restore(plan, place)
    for folder in build_boards(plan, place, given.site):
        print(folder / "index.html")


def weights(plan: Plan, place: Place, given: argparse.Namespace) -> None:
    """Write a run's weights in half precision, without word vectors. Trains the run first if necessary."""
    from papers.runs import export_weights, faults

    (one,) = choose(plan, place, given.run, str(given.seed))
    if wrong := list(faults(plan, [one.run], place)):
        raise DecabenchError("\n".join(wrong))
    export_weights(one, given.folder or WEIGHTS / one.run.name)


def keep(given: argparse.Namespace) -> None:
    """List, add, pack or unpack the records of a plan."""
    own = Records(given.records, given.plan)
    for path in given.add:
        print(own.add(path.stem, read_zip(path)))
    if given.pack:
        print(f"{own.archive}: {own.pack()} records")
    elif given.unpack:
        own.unpack(given.unpack)
    elif not given.add:
        print("\n".join(sorted({name.partition("/")[0] for name, _ in own.read()})))


def claims(given: argparse.Namespace) -> None:
    """Write the page on all papers' claims, from the findings of the plans' pages."""
    from papers.claims import FINDINGS, write_claims

    write_claims(given.output / FINDINGS, given.page or PAGES / "claims.md")


def bundle(given: argparse.Namespace) -> None:
    """Write a folder with everything that `decabench train` needs on a machine without decabench or a network."""
    from papers.bundle import write_bundle

    tasks = [name for name in given.tasks.split(",") if name]
    print(write_bundle(given.folder, given.config, tasks, given.settings, given.home))


def make_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m papers", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(metavar="COMMAND", required=True)

    def add(function: Callable[..., None], name: str, plan: bool = True) -> argparse.ArgumentParser:
        own = commands.add_parser(name, help=function.__doc__, description=function.__doc__)
        own.set_defaults(function=function)
        if plan:
            own.add_argument("plan", help="name or file of a plan")
            own.add_argument("--home", type=Path, help="folder of prepared data")
            own.add_argument(
                "--include", type=Path, action="append", default=[], help="file that defines a task or suite"
            )
            own.add_argument("--device", default="cpu", help="device, such as cpu or cuda [cpu]")
        own.add_argument(
            "--output", type=Path, default=Path("out"), help="folder for runs and submissions [out]"
        )
        own.add_argument("--records", type=Path, default=RECORDS, help="folder of records")
        return own

    own = add(reproduce, "reproduce")
    own.add_argument("--only", default="", help="names of runs to train, separated by commas [all]")
    own.add_argument("--seeds", default="", help="seeds of the plan to use, separated by commas [all]")
    add(page, "page").add_argument("--page", type=Path, help="Markdown file to write [papers/pages/PLAN.md]")
    add(claims, "claims", plan=False).add_argument(
        "--page", type=Path, help="Markdown file to write [papers/pages/claims.md]"
    )
    add(board, "board").add_argument("--site", type=Path, required=True, help="folder to write")
    own = add(weights, "weights")
    own.add_argument("run", help="name of a run")
    own.add_argument("--seed", type=int, default=0, help="seed of the run [0]")
    own.add_argument("--folder", type=Path, help="new folder to write [papers/weights/RUN]")
    own = add(keep, "records", plan=False)
    own.add_argument("plan", help="name of a plan")
    own.add_argument(
        "--add", type=Path, nargs="+", default=[], metavar="RUN-seed-N.zip", help="records to add"
    )
    own.add_argument("--pack", action="store_true", help="add newer records to the archive")
    own.add_argument("--unpack", type=Path, metavar="FOLDER", help="write each record as a folder")
    own = commands.add_parser("bundle", help=bundle.__doc__, description=bundle.__doc__)
    own.set_defaults(function=bundle)
    own.add_argument("folder", type=Path, help="new folder to write")
    own.add_argument("--config", type=Path, help="training configuration file")
    own.add_argument("--tasks", default="", help="tasks, separated by commas [the configuration's]")
    own.add_argument(
        "--set", dest="settings", action="append", default=[], metavar="KEY=VALUE", help="training setting"
    )
    own.add_argument("--home", type=Path, help="folder of prepared data")
    return parser


def main(arguments: Sequence[str] | None = None) -> None:
    given = make_parser().parse_args(arguments)
    try:
        if given.function in (keep, claims, bundle):
            given.function(given)
            return
        path, include = find_plan(given.plan), tuple(given.include)
        place = Place(path, given.output, given.home, include, given.device, given.records)
        plan = read_plan(path, include)
        with storage_errors(given.output):
            place.lock("page").open("ab").close()  # fails now rather than after hours of training
        given.function(plan, place, given)
    except KeyboardInterrupt:
        sys.exit("\nInterrupted. Run the same command again to continue.")
    except DecabenchError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
