"""SQuAD 1.1 and 2.0: reading comprehension with answer spans. SQuAD 2.0 adds unanswerable questions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from decabench.tasks.example import Example
from decabench.tasks.outputs import Text
from decabench.tasks.readers import (
    Record,
    github_raw,
    hub_file,
    json_records,
    parquet_records,
    shuffled_within,
)
from decabench.tasks.task import ContextLimit, Files, RemoteFile, Source, Task
from decabench.tasks.wording import AnswerForm, labelled_prompt, wrapped

_PARTS = {"train": "train", "validation": "dev"}
_COMMIT = "eee5fdbf62f8613a7812b03419e6b29617b74fd1"
_HUB = ("rajpurkar/squad", "7b6d24c440a36b6815f21b70d25016731768db1f")
_HUB_2 = ("rajpurkar/squad_v2", "80596c4f2b9ffcd716039dfc7e564c4e491802ec")

_UNANSWERABLE = "unanswerable"
"""The answer to a SQuAD 2.0 question that the paragraph doesn't answer.

The official files list no answers for these questions, and the official scorer treats an empty prediction as
"no answer". The metric `squad2` accepts both.
"""


class _Paragraphs:
    """A counter for the paragraphs of each article. A new context under the same title starts a new paragraph."""

    def __init__(self) -> None:
        self._title = self._context = ""
        self._number = -1

    def units(self, title: str, context: str) -> tuple[str, str]:
        """Return the units of a paragraph: the article's title, and the title with the paragraph's number."""
        if title != self._title:
            self._title, self._context, self._number = title, context, 0
        elif context != self._context:
            self._context, self._number = context, self._number + 1
        return title, f"{title}.{self._number}"


def _example(id: str, units: tuple[str, str], question: str, context: str, answers: list[str]) -> Example:
    return Example(id, " ".join(question.split()), context, tuple(answers), units)


def _answers(record: Record, answers: list[str], may_be_none: bool) -> list[str]:
    if not answers and not may_be_none:
        raise record.fault("the question has no answer")
    return answers or [_UNANSWERABLE]


def _json_examples(path: Path, may_be_none: bool) -> Iterator[Example]:
    paragraphs = _Paragraphs()
    for article in json_records(path, "data.item", "article"):
        title = article.text("title")
        for paragraph in article.records("paragraphs", "paragraph"):
            context = paragraph.text("context")
            units = paragraphs.units(title, context)
            for qa in paragraph.records("qas", "question"):
                found = [answer.text("text") for answer in qa.records("answers", "answer")]
                answers = _answers(qa, found, may_be_none)
                yield _example(qa.text("id"), units, qa.text("question"), context, answers)


def _parquet_examples(files: Files, name: str, may_be_none: bool) -> Iterator[Example]:
    paragraphs = _Paragraphs()
    for row in parquet_records(files, name, ("id", "title", "context", "question", "answers")):
        context = row.text("context")
        units = paragraphs.units(row.text("title"), context)
        answers = _answers(row, row.record("answers").texts("text"), may_be_none)
        yield _example(row.text("id"), units, row.text("question"), context, answers)


def _read_json(files: Files, split: str) -> Iterator[Example]:
    yield from _json_examples(files.path(f"{_PARTS[split]}-v1.1.json"), may_be_none=False)


def _read_json_2(files: Files, split: str) -> Iterator[Example]:
    path = files.path(f"{_PARTS[split]}-v2.0.json")
    yield from _anonymous(split, _json_examples(path, may_be_none=True))


def _read_parquet(files: Files, split: str) -> Iterator[Example]:
    yield from _parquet_examples(files, _parquet("plain_text", split), may_be_none=False)


def _read_parquet_2(files: Files, split: str) -> Iterator[Example]:
    yield from _anonymous(split, _parquet_examples(files, _parquet("squad_v2", split), may_be_none=True))


def _anonymous(split: str, examples: Iterator[Example]) -> Iterator[Example]:
    # Unanswerable questions were added later: their ids begin with 5a, and they come last in their paragraph.
    yield from shuffled_within(1, f"squad2.{split}", examples)


def _parquet(folder: str, split: str) -> str:
    return f"{folder}/{split}-00000-of-00001.parquet"


def _json(name: str, sha256: str, size: int, blob: str) -> tuple[RemoteFile, ...]:
    urls = (
        f"https://rajpurkar.github.io/SQuAD-explorer/dataset/{name}",
        github_raw("rajpurkar/SQuAD-explorer", _COMMIT, f"dataset/{name}"),
    )
    return (RemoteFile(name, urls, sha256, size, git_blob=blob),)


_JSON = {
    "train": _json(
        "train-v1.1.json",
        "3527663986b8295af4f7fcdff1ba1ff3f72d07d61a20f487cb238a6ef92fd955",
        30_288_272,
        "77f1d9a7daee11f7bc293832020f7709f63410ad",
    ),
    "validation": _json(
        "dev-v1.1.json",
        "95aa6a52d5d6a735563366753ca50492a658031da74f301ac5238b03966972c9",
        4_854_279,
        "e9a3f913ad1468ebe105b891334ca7b0bc0e2510",
    ),
}
_JSON_2 = {
    "train": _json(
        "train-v2.0.json",
        "68dcfbb971bd3e96d5b46c7177b16c1a4e7d4bdef19fb204502738552dede002",
        42_123_633,
        "312f804dbf85888fdce3299eaa58d6ec3f0bb6b7",
    ),
    "validation": _json(
        "dev-v2.0.json",
        "80a5225e94905956a6446d296ca1093975c4d3b3260f1d6c8f68bc2ab77182d8",
        4_370_528,
        "c6fa1a89a12c90b7fbfa8f6fb437cfff27af41ca",
    ),
}


def _hub(repository: str, commit: str, folder: str) -> dict[str, tuple[RemoteFile, ...]]:
    return {split: (hub_file(repository, commit, _parquet(folder, split)),) for split in _PARTS}


_PROMPT = labelled_prompt(
    "Passage",
    instruction=(
        "Answer the question with the shortest span of the passage that answers it. Copy its words exactly as they "
        "stand there. Give only the span, not a sentence."
    ),
)

_VARIANTS = (
    wrapped("words-of-context", "Answer with words of the context: {question}"),
    wrapped("according", "According to the text: {question}"),
    wrapped("span-after", "{question} Copy the answer from the paragraph."),
)

SQUAD = Task(
    name="squad",
    title="Question answering",
    dataset="SQuAD 1.1",
    output=Text(extractive=True, max_tokens=96),
    metric="nf1",
    counts={"train": 87_599, "validation": 10_570, "test": 9_616},
    hidden=("test",),
    sources=(
        Source("upstream json", _JSON, _read_json),
        Source("hub parquet", _hub(*_HUB, "plain_text"), _read_parquet),
    ),
    licence="CC BY-SA 4.0",
    citation="Rajpurkar et al. 2016, SQuAD: 100,000+ Questions for Machine Comprehension of Text",
    homepage="https://rajpurkar.github.io/SQuAD-explorer/",
    notes="The authors keep the test set hidden. All reference answers are kept, including duplicates.",
    question_varies=True,
    unit_names=("article", "paragraph"),
    prompt=_PROMPT,
    variants=_VARIANTS,
    curriculum="hard",  # training on SQuAD first was the paper's best choice (Appendix F)
    context_limit=ContextLimit(400, "skip"),
)

SQUAD2 = replace(
    SQUAD,
    name="squad2",
    dataset="SQuAD 2.0",
    metric="squad2",
    secondary=(),
    counts={"train": 130_319, "validation": 11_873, "test": 8_862},
    sources=(
        Source("upstream json", _JSON_2, _read_json_2),
        Source("hub parquet", _hub(*_HUB_2, "squad_v2"), _read_parquet_2),
    ),
    citation="Rajpurkar et al. 2018, Know What You Don't Know: Unanswerable Questions for SQuAD",
    notes=(
        "If a paragraph doesn't answer a question, the answer is `unanswerable`. The official files list no answer for "
        "such a question, and the official scorer expects an empty prediction. Upstream's ids reveal which questions "
        "have an answer, so they are replaced with numbers and kept in `meta`. The authors keep the test set hidden."
    ),
    version=2,
    prompt=replace(
        _PROMPT,
        instruction=(
            "Answer the question with the shortest span of the passage that answers it. Copy its words exactly as they "
            "stand there. If the passage does not answer the question, answer: unanswerable. Give only the span or "
            "that word, not a sentence."
        ),
        form=AnswerForm("span", labels=(_UNANSWERABLE,)),
    ),
    variants=(
        wrapped("words-of-context", "Answer with words of the context, or with unanswerable: {question}"),
        wrapped("according", "According to the text: {question}"),
        wrapped("span-after", "{question} Copy the answer from the paragraph, or write unanswerable."),
    ),
    curriculum=None,
    context_limit=None,
)
