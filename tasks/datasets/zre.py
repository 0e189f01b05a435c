"""QA-ZRE, fold 0: zero-shot relation extraction. Each relation occurs in only one split."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from itertools import islice

from decabench.tasks.example import Example
from decabench.tasks.outputs import Text
from decabench.tasks.readers import hub_source, parquet_records, text_lines
from decabench.tasks.task import Files, RemoteFile, Source, Task
from decabench.tasks.wording import AnswerForm, labelled_prompt, wrapped

_ARCHIVE = "relation_splits.tar.bz2"
_UPSTREAM = {"train": "train", "validation": "dev", "test": "test"}
_FOLD = {"train": 840_000, "validation": 600, "test": 12_000}
_PARQUET = {
    "train": "data/train-00000-of-00005.parquet",
    "validation": "data/validation-00000-of-00001.parquet",
    "test": "data/test-00000-of-00001.parquet",
}
_HUB = ("community-datasets/qa_zre", "f659301d65a033b69ce7bdfa881baeb770971771")


def _example(
    split: str, index: int, relation: str, question: str, subject: str, context: str, answers: Sequence[str]
) -> Example:
    answer = ", ".join(answers) or "unanswerable"
    # A digest identifies the sentence without storing its text.
    units = relation, hashlib.sha256(context.encode()).hexdigest()[:16]
    return Example(f"zre.{split}.{index}", question.replace("XXX", subject), context, (answer,), units)


def _read_archive(files: Files, split: str) -> Iterator[Example]:
    for index, line in enumerate(text_lines(files.path(f"{_UPSTREAM[split]}.0"))):
        fields = line.value.split("\t")
        if len(fields) < 4:
            raise line.fault(f"the line must have at least 4 fields, but has {len(fields)}")
        relation, question, subject, context, *answers = fields
        yield _example(split, index, relation, question, subject, context, answers)


def _read_parquet(files: Files, split: str) -> Iterator[Example]:
    """Yield the examples of the first fold, the only fold that decaNLP uses.

    The hub's files contain all ten folds, one after the other.
    """
    columns = ("relation", "question", "subject", "context", "answers")
    for index, row in enumerate(islice(parquet_records(files, _PARQUET[split], columns), _FOLD[split])):
        relation, question, subject, context = map(row.text, columns[:-1])
        yield _example(split, index, relation, question, subject, context, row.texts("answers"))


_RELATION_SPLITS = RemoteFile(
    _ARCHIVE,
    ("http://nlp.cs.washington.edu/zeroshot/relation_splits.tar.bz2",),
    "e33d0e367b6e837370da17a2d09d217e0a92f8d180f7abb3fd543a2d1726b2b4",
    516_061_636,
)

_PROMPT = labelled_prompt(
    "Sentence",
    instruction=(
        "Answer the question from the sentence alone. Copy the answer exactly as it stands there; several answers "
        "are separated by a comma and a space. If the sentence does not say, answer: unanswerable. Give only the "
        "answer."
    ),
    form=AnswerForm("span", labels=("unanswerable",)),
)

_VARIANTS = (
    wrapped("words-of-context", "Answer with words of the context, or with unanswerable: {question}"),
    wrapped("according", "According to the sentence: {question}"),
    wrapped("span-after", "{question} Copy the answer from the sentence, or write unanswerable."),
)

ZRE = Task(
    name="zre",
    title="Relation extraction",
    dataset="QA-ZRE",
    output=Text(extractive=True, max_tokens=64),
    metric="corpus_f1",
    counts=_FOLD,
    sources=(
        hub_source(*_HUB, _PARQUET, _read_parquet),
        Source(
            "upstream archive",
            dict.fromkeys(_UPSTREAM, (_RELATION_SPLITS,)),
            _read_archive,
            members=tuple(f"relation_splits/{name}.0" for name in _UPSTREAM.values()),
        ),
    ),
    licence="Not stated (University of Washington); for research",
    citation="Levy et al. 2017, Zero-Shot Relation Extraction via Reading Comprehension",
    homepage="http://nlp.cs.washington.edu/zeroshot/",
    notes="Several answers are joined with `, `. If upstream gives no answer, the answer is `unanswerable`.",
    question_varies=True,
    unit_names=("relation", "sentence"),
    prompt=_PROMPT,
    variants=_VARIANTS,
    curriculum="easy",
)
