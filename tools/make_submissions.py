"""Write submissions/: the baselines' answers to prepared data, and their results.

    decabench prepare --mirror MIRROR --home HOME
    python tools/make_submissions.py HOME

    decabench prepare --suite SUITE --mirror MIRROR --home HOME
    python tools/make_submissions.py HOME SUITE …

The decathlon's, in submissions/, are of its validation splits, for some of its test splits are hidden. Those of other
suites, in submissions/SUITE/, are of the test splits, which papers report, of all tasks that are prepared; and of the
validation split of squad2, whose test split is hidden. Digests stand in place of answers that repeat text which may
not be passed on (submissions/README.md says which); the predictors reproduce these to the byte, as
`decabench verify --remade` shows.

    python tools/make_submissions.py HOME models

The models that this project trained: the records of reproductions/mqan that MODELS names, scored anew.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from decabench.files import atomic_file
from decabench.runs.journal import FOLDER as JOURNAL
from decabench.runs.write import predict
from decabench.scoring import (
    ScoringOptions,
    read_results_file,
    score_submission,
    write_results,
)
from decabench.submission import FOLDER, METADATA_NAME, find_predictions, open_submission, render_metadata
from decabench.tasks import DECATHLON, SUITES, TASKS, Number, Store, Suite, Tags, Text, Tree

ROOT = Path(__file__).resolve().parent.parent
SUBMISSIONS = ROOT / "submissions"
SPLIT = "validation"
RECORDS = ROOT / "reproductions" / "mqan"

DATE = "2026-11-21"

DESCRIPTIONS = {
    "majority": "The commonest training answer of each task.",
    "first-choice": "The first option that the question offers; an empty answer where it offers none.",
    "copy-context": "The whole context.",
    "lead-3": "The first three sentences of the context.",
    "random": "A training answer drawn for each example.",
    "oracle": "The first reference answer: it sees the answers and shows what each metric gives to gold.",
}
"""The decathlon's baselines."""

MODELS = {
    "mqan-squad-first": ("squad-first-longer", "learned SQuAD first, then all ten tasks"),
    "mqan-joint": ("joint-asked", "learned all ten tasks together"),
    "mqan-squad": ("squad-longer", "learned squad"),
    "mqan-srl": ("srl-after-squad", "learned squad, then srl"),
    "mqan-sst": (
        "sst-contextual",
        "learned sst, and reads the states of an encoder that was trained on other texts",
    ),
    "mqan-wikisql": ("wikisql-asked", "learned wikisql, with conditions in the order of the question"),
    "mqan-woz.en": ("woz.en-said", "learned woz.en, with values that the user repeats in the answers"),
}
"""The runs of examples/training/mqan/plan.toml that are submissions: of all ten tasks, and the best of single ones."""

SUITE_DESCRIPTIONS = {
    "majority": (
        "The commonest training answer, tag or relation; for numbers the training mean; heads are the neighbours on "
        "the side where heads more often are."
    ),
    "most-frequent-tag": (
        "Each word's most frequent training tag, or relation on the heads of majority; words in lower case."
    ),
    **{name: text for name, text in DESCRIPTIONS.items() if name != "majority"},
}
"""The baselines of other suites."""

SUITE_NAMES = ("fdu", "movies", "products", "jmt", "tagging", "codeswitch", "zero-shot")
"""The suites besides the decathlon; jmt.ptb is for whoever has the treebank."""

NO_DERIVATIVES = tuple(name for name, task in TASKS.items() if task.withholds_answers)
"""Tasks whose answers may not be passed on: captions of multi30k.en.de are texts as well."""

NO_TEXTS = tuple(name for name, task in TASKS.items() if task.may_withhold)
"""Tasks whose contexts may not be passed on either."""

WITHHELD = {
    **dict.fromkeys(("majority", "most-frequent-tag", "random", "oracle"), NO_DERIVATIVES),
    **dict.fromkeys(("copy-context", "lead-3"), NO_TEXTS),
}
"""The tasks whose answers are left out, by predictor."""


def description(predictor: str, text: str, tasks: Collection[str]) -> str:
    """Describe a submission, and what is left out of it."""
    withheld = [task for task in WITHHELD.get(predictor, ()) if task in tasks]
    if not withheld:
        return text
    return (
        f"{text} The answers to {', '.join(withheld)} are left out here, for their text may not "
        f"be passed on; decabench predict --predictor {predictor} makes them again."
    )


@dataclass(frozen=True)
class Baseline:
    """A predictor on a suite."""

    predictor: str
    """The predictor."""
    suite: Suite
    """The suite."""

    @property
    def folder(self) -> Path:
        """Its submission: the decathlon's at the top, those of other suites in a folder for each."""
        return SUBMISSIONS / (
            self.predictor if self.suite is DECATHLON else f"{self.suite.name}/{self.predictor}"
        )

    @property
    def description(self) -> str:
        """What its submission says about it."""
        if self.suite is DECATHLON:
            return description(self.predictor, DESCRIPTIONS[self.predictor], DECATHLON.tasks)
        return description(self.predictor, SUITE_DESCRIPTIONS[self.predictor], self.suite.tasks)

    def tasks(self, home: Path) -> dict[str, list[str]]:
        """Return the tasks that it answers, by split."""
        if self.suite is DECATHLON:
            return {SPLIT: list(DECATHLON.tasks)}
        store = Store(home)
        found: dict[str, list[str]] = {}
        for task in self.suite.tasks:
            records = store.records(task)
            splits = [
                split for split in ("test", SPLIT) if split in records and split not in TASKS[task].hidden
            ]
            if splits and self._answers(task, "train" in records):
                found.setdefault(splits[0], []).append(task)
        given = {task for tasks in found.values() for task in tasks}
        return found if given - set(WITHHELD.get(self.predictor, ())) else {}  # nothing could be passed on

    def _answers(self, task: str, has_training_data: bool) -> bool:
        output = TASKS[task].output
        match self.predictor:
            case "majority":
                return has_training_data
            case "random":  # a random answer has as many tags as another sentence has words
                return has_training_data and not isinstance(output, Tags | Tree)
            case "most-frequent-tag":
                return has_training_data and isinstance(output, Tags | Tree)
            case "copy-context" | "lead-3":
                return isinstance(output, Text)
            case "first-choice":
                return not isinstance(output, Tags | Tree | Text | Number)
            case _:
                return True


def make(baseline: Baseline, home: Path, output: Path, withholds: bool = True) -> None:
    """Predict, put digests in place of what may not be passed on, and evaluate with these answers."""
    shutil.rmtree(output, ignore_errors=True)
    for split, tasks in baseline.tasks(home).items():
        predict(
            baseline.predictor,
            output,
            tasks,
            split,
            home,
            authors=("decabench",),
            description=baseline.description,
            compress="zst",
            date=DATE,
        )
        shutil.rmtree(output / JOURNAL)  # it holds the text of every answer, and answers anew take seconds
    withheld = WITHHELD.get(baseline.predictor, ()) if withholds else ()
    for split in baseline.tasks(home):
        evaluate_and_withhold(output, home, withheld, split, baseline.suite)


def evaluate_and_withhold(
    output: Path, home: Path, withheld: Iterable[str], split: str = SPLIT, suite: Suite = DECATHLON
) -> None:
    """Evaluate a submission, without the answers that may not be passed on."""
    folder, options = output / "results" / split, ScoringOptions(split, home=home, jobs=2, suite=suite)
    for (task, own), file in find_predictions(output)[0].items():
        if task in withheld and own == split:
            file.path.unlink()
    write_results(output, folder, *score_submission(output, options), options)


def make_model(name: str, home: Path) -> None:
    """Make a submission of the record of a trained model: its answers packed, and scored once more."""
    (run, text), output = MODELS[name], SUBMISSIONS / name
    shutil.rmtree(output, ignore_errors=True)
    with open_submission(RECORDS / f"{run}-seed-0.zip") as record:
        assert record.folder is not None
        shutil.copytree(record.folder, output, ignore=shutil.ignore_patterns("training.json"))
        info, pairs = record.info, set(record.files)
    for path in sorted(path for path in (output / FOLDER).glob("*.jsonl")):
        with atomic_file(path.with_name(f"{path.name}.zst"), "zst") as packed:
            packed.write(path.read_bytes())
        path.unlink()
    left_out = sorted({key.rpartition(".")[0] for key in info.data} - {task for task, _ in pairs})
    text = f"MQAN that {text}: seed 0 of {run} in examples/training/mqan/plan.toml."
    text += f" Answers to {', '.join(left_out)} may not be passed on and are left out." * bool(left_out)
    with atomic_file(output / METADATA_NAME) as file:
        file.write(render_metadata(replace(info, authors=("decabench",), description=text)))
    for split in sorted({split for _, split in pairs}):
        evaluate_and_withhold(output, home, (), split)


HEADER = "| submission | squad | iwslt | cnn_dm | mnli | sst | srl | zre | woz | wikisql | schema | sum |\n"
RULE = "|---" * 12 + "|\n"


def table(names: Iterable[str]) -> str:
    """Return a table of submissions, from their results files."""
    return HEADER + RULE + "\n".join(map(row, names))


def row(name: str) -> str:
    """Return a submission's scores, with a dash for a task without answers."""
    results = read_results_file(SUBMISSIONS / name / "results" / SPLIT / "results.json")
    scores = [
        f"{results.tasks[task].score:.2f}" if task in results.tasks else "–" for task in DECATHLON.tasks
    ]
    return f"| [{name}]({name}) | {' | '.join(scores)} | {results.total.text} |"


def write_table(kind: str, names: Iterable[str]) -> None:
    """Write a table to submissions/README.md, between its marks."""
    write_part(kind, table(names))


def write_part(kind: str, text: str) -> None:
    """Write a part of submissions/README.md, between its marks."""
    readme = SUBMISSIONS / "README.md"
    head, mark, rest = readme.read_text(encoding="utf-8").partition(f"<!-- {kind} -->\n")
    _, end, tail = rest.partition("<!-- end -->")
    readme.write_text(f"{head}{mark}{text}\n{end}{tail}", encoding="utf-8")


def write_suite_tables() -> None:
    """Write the tables of the other suites to submissions/README.md."""
    parts = []
    for name in SUITE_NAMES:
        tables = [suite_table(SUITES[name], split) for split in ("test", SPLIT)]
        parts += [f"### {SUITES[name].title} (`{name}`)", *filter(None, tables)]
    write_part("suites", "\n\n".join(parts))


def suite_table(suite: Suite, split: str) -> str:
    """Return a table of the baselines of a suite, with its tasks as rows; empty if there are none."""
    read = {
        baseline.predictor: read_results_file(path)
        for baseline in (Baseline(predictor, suite) for predictor in SUITE_DESCRIPTIONS)
        if (path := baseline.folder / "results" / split / "results.json").is_file()
    }
    if not read:
        return ""
    head = " | ".join(f"[{name}]({suite.name}/{name})" for name in read)
    lines = [f"| {split} | examples | metric | {head} |", "|---" * (3 + len(read)) + "|"]
    for task in suite.tasks:
        found = {name: results.tasks[task] for name, results in read.items() if task in results.tasks}
        if found:
            one = next(iter(found.values()))
            scores = [f"{found[name].score:.2f}" if name in found else "–" for name in read]
            lines.append(f"| {task} | {one.n:,} | {one.metric} | {' | '.join(scores)} |")
    if suite.total != "none":
        totals = " | ".join(results.total.text for results in read.values())
        lines.append(f"| {suite.total_name} | | | {totals} |")
    return "\n".join(lines)


def main(home: Path, given: Sequence[str]) -> None:
    suites = [name for name in given if name != "models"]
    if "models" in given:
        for name in MODELS:
            make_model(name, home)
            print((SUBMISSIONS / name).relative_to(ROOT))
        write_table("models", MODELS)
    for name in suites:
        suite = SUITES[name]
        for predictor in DESCRIPTIONS if suite is DECATHLON else SUITE_DESCRIPTIONS:
            baseline = Baseline(predictor, suite)
            if baseline.tasks(home):
                make(baseline, home, baseline.folder)
                print(baseline.folder.relative_to(ROOT))
    write_table("baselines", DESCRIPTIONS)
    write_suite_tables()


if __name__ == "__main__":
    if not sys.argv[1:] or not (Path(sys.argv[1]) / "tasks").is_dir():
        sys.exit(__doc__)
    main(Path(sys.argv[1]), sys.argv[2:] or [DECATHLON.name])
