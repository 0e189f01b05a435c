"""Write submissions/: the baselines' answers to the validation splits of prepared data, and their results.

    decabench prepare --mirror MIRROR --home HOME
    python tools/make_submissions.py HOME

The results cover all ten tasks. Digests stand in place of answers that repeat text which may not be passed on
(submissions/README.md says which); the predictors reproduce these to the byte, as `decabench verify --remade` shows.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterable
from pathlib import Path

from decabench.runs.journal import FOLDER as JOURNAL
from decabench.runs.write import predict
from decabench.scoring import (
    ScoringOptions,
    read_results_file,
    record_scores,
    score_submission,
)
from decabench.submission import withhold
from decabench.tasks import DECATHLON, TASKS

ROOT = Path(__file__).resolve().parent.parent
SUBMISSIONS = ROOT / "submissions"
SPLIT = "validation"

DESCRIPTIONS = {
    "majority": "The commonest training answer of each task.",
    "first-choice": "The first option that the question offers; an empty answer where it offers none.",
    "copy-context": "The whole context.",
    "lead-3": "The first three sentences of the context.",
    "random": "A training answer drawn for each example.",
    "oracle": "The first reference answer: it sees the answers and shows what each metric gives to gold.",
}

NO_DERIVATIVES = tuple(name for name, task in TASKS.items() if not task.redistributable)
"""Tasks whose answers may not be passed on."""

NO_TEXTS = tuple(name for name, task in TASKS.items() if not task.redistributable or task.withhold_texts)
"""Tasks whose contexts may not be passed on either."""

WITHHELD = {
    **dict.fromkeys(("majority", "random", "oracle"), NO_DERIVATIVES),
    **dict.fromkeys(("copy-context", "lead-3"), NO_TEXTS),
}
"""The tasks whose answers are left out, by predictor."""


def description(predictor: str) -> str:
    """Describe a submission, and what is left out of it."""
    withheld = WITHHELD.get(predictor, ())
    if not withheld:
        return DESCRIPTIONS[predictor]
    return (
        f"{DESCRIPTIONS[predictor]} The answers to {', '.join(withheld)} are left out here, for their text may not "
        f"be passed on; decabench predict --predictor {predictor} makes them again."
    )


def make(predictor: str, home: Path, output: Path, withholds: bool = True) -> None:
    """Predict, put digests in place of what may not be passed on, and evaluate with these answers."""
    shutil.rmtree(output, ignore_errors=True)
    predict(
        predictor,
        output,
        TASKS,
        SPLIT,
        home,
        authors=("decabench",),
        description=description(predictor),
        compress="zst",
        date="2026-11-21",
    )
    shutil.rmtree(output / JOURNAL)  # it holds the text of every answer, and answers anew take seconds
    evaluate_and_withhold(output, home, WITHHELD.get(predictor, ()) if withholds else ())


def evaluate_and_withhold(output: Path, home: Path, withheld: Iterable[str]) -> None:
    """Evaluate a submission, and put digests in place of answers; the manifest binds what is left."""
    folder, options = output / "results" / SPLIT, ScoringOptions(SPLIT, home=home, jobs=2)
    record_scores(output, folder, *score_submission(output, options), options)
    present = [task for task in withheld if any((output / "predictions").glob(f"{task}.{SPLIT}.jsonl*"))]
    for task in present:
        withhold(output, task, SPLIT, compress="zst")
    if present:
        record_scores(output, folder, *score_submission(output, options), options)


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
    readme = SUBMISSIONS / "README.md"
    head, mark, rest = readme.read_text(encoding="utf-8").partition(f"<!-- {kind} -->\n")
    _, end, tail = rest.partition("<!-- end -->")
    readme.write_text(f"{head}{mark}{table(names)}\n{end}{tail}", encoding="utf-8")


def main(home: Path) -> None:
    for predictor in DESCRIPTIONS:
        make(predictor, home, SUBMISSIONS / predictor)
    write_table("baselines", DESCRIPTIONS)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
