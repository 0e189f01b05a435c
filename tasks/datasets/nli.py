"""Natural language inference: MultiNLI (matched, then mismatched) and SNLI, with questions of the same form."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from pathlib import Path

from decabench.tasks.example import Example
from decabench.tasks.outputs import Label
from decabench.tasks.readers import Record, hub_source, line_records, parquet_records, shuffled_within
from decabench.tasks.task import Files, RemoteFile, Source, Task
from decabench.tasks.wording import PromptTemplate, matched

# MultiNLI, matched then mismatched: natural language inference.

_LABELS = ("entailment", "neutral", "contradiction")
_MULTINLI_ZIP = "multinli_1.0.zip"
_MULTINLI_MEMBERS = {"train": ("train",), "validation": ("dev_matched", "dev_mismatched")}
_MULTINLI_PARQUET = {"train": ("train",), "validation": ("validation_matched", "validation_mismatched")}
_MULTINLI_HUB = ("nyu-mll/multi_nli", "da70db2af9d09693783c3320c4249840212ee221")


def _example(id: str, premise: str, hypothesis: str, label: str, units: tuple[str, str]) -> Example:
    question = f'Hypothesis: "{hypothesis}" -- entailment, neutral, or contradiction?'
    return Example(id, question, f'Premise: "{premise}"', (label,), units)


def _multinli_example(id: str, premise: str, hypothesis: str, label: str, prompt: str) -> Example:
    # Each premise has three hypotheses, and each hypothesis has its own prompt id.
    units = hashlib.sha256(premise.encode()).hexdigest()[:16], prompt
    return _example(id, premise, hypothesis, label, units)


def _labelled(path: Path) -> Iterator[tuple[Record, str]]:
    """Yield (row, label) for each row that has a gold label.

    The label `-` means that the annotators did not agree.
    """
    for row in line_records(path):
        label = row.choice("gold_label", (*_LABELS, "-"))
        if label != "-":
            yield row, label


_TELLING = re.compile(r"\d+[enc]")
"""Matches pairIDs that reveal the label.

They end with the initial of the label that the hypothesis was written for.
"""


def _id(pair: str, part: str, number: int) -> str:
    """Return the pair's id, or `<part>-<number>` if the id reveals the label."""
    kind = part.removeprefix("dev_").removeprefix("validation_")
    return f"{kind}-{number}" if _TELLING.fullmatch(pair) else pair


def _read_zip(files: Files, split: str) -> Iterator[Example]:
    for part in _MULTINLI_MEMBERS[split]:
        # Only rows with a gold label are numbered, so that both forms of the data give the same ids.
        for number, (row, label) in enumerate(_labelled(files.path(f"multinli_1.0_{part}.jsonl"))):
            pair = row.text("pairID")
            id, prompt = _id(pair, part, number), str(row.value.get("promptID", pair))
            yield _multinli_example(id, row.text("sentence1"), row.text("sentence2"), label, prompt)


def _path(part: str) -> str:
    return f"data/{part}-00000-of-00001.parquet"


def _read_parquet(files: Files, split: str) -> Iterator[Example]:
    columns = ("pairID", "promptID", "premise", "hypothesis", "label")
    for part in _MULTINLI_PARQUET[split]:
        count = 0
        for row in parquet_records(files, _path(part), columns):
            number = row.integer("label", -1, len(_LABELS) - 1)
            if number >= 0:
                id, label, prompt = (
                    _id(row.text("pairID"), part, count),
                    _LABELS[number],
                    row.value["promptID"],
                )
                yield _multinli_example(id, row.text("premise"), row.text("hypothesis"), label, str(prompt))
                count += 1


_MULTINLI_ARCHIVE = RemoteFile(
    _MULTINLI_ZIP,
    ("https://cims.nyu.edu/~sbowman/multinli/multinli_1.0.zip",),
    "049f507b9e36b1fcb756cfd5aeb3b7a0cfcb84bf023793652987f7e7e0957822",
    226_850_426,
)

_FORM = r'Hypothesis: "(?P<hypothesis>.*)" -- entailment, neutral, or contradiction\?'
_PROMPT = PromptTemplate(
    # Only the question names the labels, so the prompt can't contradict the question's variants.
    instruction=(
        "You are given a premise and a hypothesis. Decide whether the premise makes the hypothesis true, leaves it "
        "open, or makes it false. Answer with exactly one of the labels that the question names, and nothing else."
    ),
    input="{context}\n{question}",
    answer="Answer:",
    stop=("\n\n", "\nPremise:", "\nHypothesis:"),
)

_VARIANTS = (
    matched("order-swapped", _FORM, 'Hypothesis: "{hypothesis}" -- contradiction, neutral, or entailment?'),
    matched(
        "yes-maybe-no",
        _FORM,
        'Is the hypothesis "{hypothesis}" true if the premise is -- yes, maybe, or no?',
        {"yes": "entailment", "maybe": "neutral", "no": "contradiction"},
        retired=True,  # the wording changes, too
    ),
    matched(
        "true-unknown-false",
        _FORM,
        'Hypothesis: "{hypothesis}" -- true, unknown, or false?',
        {"true": "entailment", "unknown": "neutral", "false": "contradiction"},
    ),
    matched(
        "relation",
        _FORM,
        "What is the relation of the premise to the hypothesis "
        '"{hypothesis}" -- entailment, neutral, or contradiction?',
    ),
    matched(
        "yes-maybe-no-labels",
        _FORM,
        'Hypothesis: "{hypothesis}" -- yes, maybe, or no?',
        {"yes": "entailment", "maybe": "neutral", "no": "contradiction"},
    ),
)

MULTINLI = Task(
    name="multinli.in.out",
    title="Natural language inference",
    dataset="MultiNLI",
    output=Label(_LABELS),
    metric="em",
    # The paper counts 20,000 validation rows; 19,647 of them have a gold label (9,815 + 9,832).
    counts={"train": 392_702, "validation": 19_647, "test": 20_000},
    hidden=("test",),
    sources=(
        hub_source(
            *_MULTINLI_HUB,
            {split: [_path(part) for part in parts] for split, parts in _MULTINLI_PARQUET.items()},
            _read_parquet,
        ),
        Source(
            "upstream zip",
            {"train": (_MULTINLI_ARCHIVE,), "validation": (_MULTINLI_ARCHIVE,)},
            _read_zip,
            members=tuple(
                f"multinli_1.0/multinli_1.0_{part}.jsonl"
                for parts in _MULTINLI_MEMBERS.values()
                for part in parts
            ),
        ),
    ),
    licence="OANC; fiction CC BY 3.0, CC BY-SA 3.0 and public domain",
    citation="Williams et al. 2018, A Broad-Coverage Challenge Corpus for Sentence Understanding",
    homepage="https://cims.nyu.edu/~sbowman/multinli/",
    notes=(
        "Rows without a gold label are left out. The test labels are hidden. Upstream's `pairID` ends "
        "in the label that the hypothesis was written for, so such ids are replaced with numbers "
        "(`matched-0`)."
    ),
    version=2,
    question_varies=True,
    unit_names=("premise", "prompt"),
    prompt=_PROMPT,
    variants=_VARIANTS,
)


# SNLI: natural language inference on captions of photographs, with questions like MultiNLI's.

_SNLI_PARTS = {"train": "train", "validation": "dev", "test": "test"}
_SNLI_ZIP = RemoteFile(
    "snli_1.0.zip",
    ("https://nlp.stanford.edu/projects/snli/snli_1.0.zip",),
    "afb3d70a5af5d8de0d9d81e2637e0fb8c22d1235c2749d83125ca43dab0dbd3e",
    94_550_081,
)


def _snli_name(split: str) -> str:
    return f"snli_1.0_{_SNLI_PARTS[split]}.jsonl"


def _snli_examples(path: Path) -> Iterator[Example]:
    for row, label in _labelled(path):
        # `4705552913.jpg#2` is a caption of a photograph; each caption has three hypotheses.
        caption = row.text("captionID")
        units = caption.partition("#")[0], caption
        yield _example(row.text("pairID"), row.text("sentence1"), row.text("sentence2"), label, units)


def _read_snli(files: Files, split: str) -> Iterator[Example]:
    # Shuffled, because a pairID ends in the label that the hypothesis was written for.
    yield from shuffled_within(1, f"snli.{split}", _snli_examples(files.path(_snli_name(split))))


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
            dict.fromkeys(_SNLI_PARTS, (_SNLI_ZIP,)),
            _read_snli,
            members=tuple(f"snli_1.0/{_snli_name(split)}" for split in _SNLI_PARTS),
        ),
        Source("json lines", {split: (RemoteFile(_snli_name(split)),) for split in _SNLI_PARTS}, _read_snli),
    ),
    licence="CC BY-SA 4.0",
    citation="Bowman et al. 2015, A Large Annotated Corpus for Learning Natural Language Inference",
    homepage="https://nlp.stanford.edu/projects/snli/",
    notes=(
        "Rows without a gold label are left out and not counted. Upstream's `pairID` ends in the label that the "
        "hypothesis was written for, so ids are replaced with numbers, and `pairID` is kept in `meta`."
    ),
    version=2,
    question_varies=True,
    unit_names=("photograph", "caption"),
    prompt=MULTINLI.prompt,
    variants=MULTINLI.variants,
)
