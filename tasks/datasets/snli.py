"""SNLI: natural language inference on captions of photographs, asked as MultiNLI is."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from decabench.tasks.datasets.multinli import MULTINLI
from decabench.tasks.example import Example
from decabench.tasks.readers import line_records, shuffled_within
from decabench.tasks.task import Files, RemoteFile, Source, Task

__all__ = ["SNLI"]

_LABELS = ("entailment", "neutral", "contradiction")
_PARTS = {"train": "train", "validation": "dev", "test": "test"}
_ZIP = RemoteFile(
    "snli_1.0.zip",
    ("https://nlp.stanford.edu/projects/snli/snli_1.0.zip",),
    "afb3d70a5af5d8de0d9d81e2637e0fb8c22d1235c2749d83125ca43dab0dbd3e",
    94_550_081,
)


def _name(split: str) -> str:
    return f"snli_1.0_{_PARTS[split]}.jsonl"


def _examples(path: Path) -> Iterator[Example]:
    for row in line_records(path):
        label = row.choice("gold_label", (*_LABELS, "-"))
        if label != "-":  # the annotators did not agree
            caption = row.text("captionID")
            question = f'Hypothesis: "{row.text("sentence2")}" -- entailment, neutral, or contradiction?'
            # `4705552913.jpg#2` is a caption of a photograph; three hypotheses were written on each caption.
            units = caption.partition("#")[0], caption
            yield Example(
                row.text("pairID"), question, f'Premise: "{row.text("sentence1")}"', (label,), units
            )


def _read(files: Files, split: str) -> Iterator[Example]:
    # The last letter of a pairID is the label that the hypothesis was written for.
    yield from shuffled_within(1, f"snli.{split}", _examples(files.path(_name(split))))


SNLI = Task(
    name="snli",
    title="Natural language inference",
    dataset="SNLI",
    output=MULTINLI.output,
    metric="accuracy",
    secondary=("macro_f1", "mcc"),
    counts={"train": 549_367, "validation": 9_842, "test": 9_824},
    sources=(
        Source(
            "upstream zip",
            dict.fromkeys(_PARTS, (_ZIP,)),
            _read,
            members=tuple(f"snli_1.0/{_name(split)}" for split in _PARTS),
        ),
        Source("json lines", {split: (RemoteFile(_name(split)),) for split in _PARTS}, _read),
    ),
    licence="CC BY-SA 4.0",
    citation="Bowman et al. 2015, A Large Annotated Corpus for Learning Natural Language Inference",
    homepage="https://nlp.stanford.edu/projects/snli/",
    notes=(
        "Rows without a gold label are left out; the counts are those of rows with one. `pairID` ends in the label "
        "that the hypothesis was written for, so it is in `meta`, and ids are numbers."
    ),
    version=2,
    question_varies=True,
    unit_names=("photograph", "caption"),
    prompt=MULTINLI.prompt,
    variants=MULTINLI.variants,
)
