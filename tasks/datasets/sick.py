"""SICK: how related two sentences are, and whether the first entails the second."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

from decabench.tasks.example import Example
from decabench.tasks.outputs import Label, Number
from decabench.tasks.readers import Record, text_lines
from decabench.tasks.task import Files, RemoteFile, Source, Task
from decabench.tasks.wording import PromptTemplate, fixed

_RELATEDNESS = "How related are the sentences, from 1 to 5?"
_ENTAILMENT = "entailment, neutral, or contradiction?"
_LABELS = ("entailment", "neutral", "contradiction")


def _rows(path: Path) -> Iterator[Record]:
    header: list[str] = []
    for line in text_lines(path):
        cells = line.value.split("\t")
        header = header or cells
        if len(cells) != len(header):
            raise line.fault(f"the row must have {len(header)} cells, like the header, but has {len(cells)}")
        if cells is not header:
            yield replace(line, value=dict(zip(header, cells, strict=True)))


def _families(pairs: Iterable[tuple[str, str]]) -> Callable[[str], str]:
    """Group sentences that are linked, directly or indirectly, by pairs.

    Returns a function that maps a sentence to the name of its group.
    """
    parents: dict[str, str] = {}

    def find(sentence: str) -> str:
        while (parent := parents.setdefault(sentence, sentence)) != sentence:
            parents[sentence] = parents[parent]
            sentence = parent
        return sentence

    for first, second in pairs:
        one, other = find(first), find(second)
        parents[max(one, other)] = min(one, other)
    return find


_NAMES = {"train": "SICK_train.txt", "validation": "SICK_trial.txt", "test": "SICK_test_annotated.txt"}
_PARTS = {"train": "TRAIN", "validation": "TRIAL", "test": "TEST"}


def _read_semeval(files: Files, split: str) -> Iterator[tuple[Record, str]]:
    """Yield the rows of SemEval's files, with their units.

    The files don't name the sentence that a pair was derived from, so all pairs that are linked by
    shared sentences form one unit.
    """
    path = files.path(_NAMES[split])
    family = _families(
        (row.text("sentence_A").strip(), row.text("sentence_B").strip()) for row in _rows(path)
    )
    for row in _rows(path):
        yield row, family(row.text("sentence_A").strip())


def _read_zip(files: Files, split: str) -> Iterator[tuple[Record, str]]:
    """Yield a split's rows from the archive.

    The unit of each row is the sentence that its pair was derived from.
    """
    for row in _rows(files.path("SICK.txt")):
        if row.choice("SemEval_set", tuple(_PARTS.values())) == _PARTS[split]:
            yield row, row.text("sentence_A_original")


def _relatedness(row: Record) -> str:
    score = row.text("relatedness_score")
    if not re.fullmatch(r"[1-4](\.\d+)?|5(\.0+)?", score):
        raise row.fault(f"'relatedness_score' must be a number between 1 and 5, not {score[:20]!r}")
    return score


def _entailment(row: Record) -> str:
    column = "entailment_label" if "entailment_label" in row.value else "entailment_judgment"
    return row.choice(column, tuple(label.upper() for label in _LABELS)).lower()


def _read(
    rows: Callable[[Files, str], Iterator[tuple[Record, str]]],
    question: str,
    answer: Callable[[Record], str],
    files: Files,
    split: str,
) -> Iterator[Example]:
    for row, unit in rows(files, split):
        context = f"Sentence A: {row.text('sentence_A')}\nSentence B: {row.text('sentence_B')}"
        yield Example(row.text("pair_ID"), question, context, (answer(row),), (unit,))


_ZIP = RemoteFile(
    "SICK.zip",
    ("https://zenodo.org/record/2787612/files/SICK.zip",),
    "da272af924399fc2de4889ed55383e38822c10d16c4a949a89d597d09a0b7912",
    217_584,
)


def _sources(question: str, answer: Callable[[Record], str]) -> tuple[Source, ...]:
    return (
        Source(
            "semeval files",
            {split: (RemoteFile(name),) for split, name in _NAMES.items()},
            partial(_read, _read_semeval, question, answer),
        ),
        Source(
            "zenodo zip",
            dict.fromkeys(_NAMES, (_ZIP,)),
            partial(_read, _read_zip, question, answer),
            members=("SICK.txt",),
            counts={"train": 4_439, "validation": 495, "test": 4_906},
        ),
    )


_PROMPT = PromptTemplate(input="{context}\n{question}", answer="Answer:", stop=("\n\n", "\nSentence A:"))
_SHARED = {
    "dataset": "SICK",
    "counts": {"train": 4_500, "validation": 500, "test": 4_927},
    "licence": "CC BY-NC-SA 3.0",
    "citation": "Marelli et al. 2014, A SICK Cure for the Evaluation of Compositional Distributional Semantic Models",
    "homepage": "https://zenodo.org/record/2787612",
    "unit_names": ("source",),
    "shared_folder": "sick",
    "notes": (
        "The splits are those of SemEval-2014. The original files are only available from mirrors; the archive that "
        "can be downloaded has 87 fewer pairs. The sampling unit is the sentence that a pair was made from. "
        "If the files don't name this sentence, as in SemEval's, all pairs connected by shared sentences form one unit."
    ),
}

SICK_RELATEDNESS = Task(
    name="sick.relatedness",
    title="Semantic relatedness",
    output=Number(1, 5),
    metric="relatedness",
    secondary=(),
    sources=_sources(_RELATEDNESS, _relatedness),
    prompt=replace(
        _PROMPT,
        instruction=(
            "You are given two sentences. Rate how related they are in meaning, from 1 (not at all) to 5 (they mean "
            "the same). Answer with one number, such as 3.4, and nothing else."
        ),
    ),
    variants=(
        fixed("similar", _RELATEDNESS, "On a scale from 1 to 5, how similar in meaning are the sentences?"),
        fixed("score", _RELATEDNESS, "What is the relatedness of the sentences, from 1 to 5?"),
        fixed("rate", _RELATEDNESS, "Rate from 1 to 5 how related the sentences are."),
    ),
    **_SHARED,  # type: ignore[arg-type]
)

SICK_ENTAILMENT = Task(
    name="sick.entailment",
    title="Textual entailment",
    output=Label(_LABELS),
    secondary=("macro_f1", "mcc"),
    sources=_sources(_ENTAILMENT, _entailment),
    prompt=replace(
        _PROMPT,
        instruction=(
            "You are given two sentences. Decide whether sentence A makes sentence B true, leaves it open, or makes "
            "it false. Answer with exactly one of the labels that the question names, and nothing else."
        ),
    ),
    variants=(
        fixed("order-swapped", _ENTAILMENT, "contradiction, neutral, or entailment?"),
        fixed(
            "yes-maybe-no",
            _ENTAILMENT,
            "Is sentence B true if sentence A is: yes, maybe, or no?",
            {"yes": "entailment", "maybe": "neutral", "no": "contradiction"},
            retired=True,  # the wording changes, too
        ),
        fixed(
            "relation",
            _ENTAILMENT,
            "What is the relation of sentence A to sentence B: entailment, neutral, or contradiction?",
        ),
        fixed(
            "yes-maybe-no-labels",
            _ENTAILMENT,
            "yes, maybe, or no?",
            {"yes": "entailment", "maybe": "neutral", "no": "contradiction"},
        ),
    ),
    **_SHARED,  # type: ignore[arg-type]
)
