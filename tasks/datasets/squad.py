"""SQuAD 1.1 and 2.0: reading comprehension. The answer is a span of the paragraph, or, in 2.0, there may be none."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from decabench.tasks.example import Example
from decabench.tasks.outputs import Text
from decabench.tasks.readers import github_raw, json_records, shuffled_within
from decabench.tasks.task import ContextLimit, Files, RemoteFile, Source, Task
from decabench.tasks.wording import AnswerForm, labelled_prompt, wrapped

__all__ = ["SQUAD", "SQUAD2"]

_FILES = {"train": "train-v1.1.json", "validation": "dev-v1.1.json"}
_FILES_2 = {"train": "train-v2.0.json", "validation": "dev-v2.0.json"}
_COMMIT = "eee5fdbf62f8613a7812b03419e6b29617b74fd1"

_UNANSWERABLE = "unanswerable"
"""The answer to a question of SQuAD 2.0 that the paragraph does not answer. The official files have no answer there,
and the official scorer takes an empty prediction as none; the metric `squad2` takes both."""


def _json_examples(path: Path, may_be_none: bool) -> Iterator[Example]:
    for article in json_records(path, "data.item", "article"):
        title, latest, number = article.text("title"), None, -1
        for paragraph in article.records("paragraphs", "paragraph"):
            context = paragraph.text("context")
            number += context != latest
            latest = context
            for qa in paragraph.records("qas", "question"):
                answers = tuple(answer.text("text") for answer in qa.records("answers", "answer"))
                if not answers and not may_be_none:
                    raise qa.fault("it has no answer")
                question, units = " ".join(qa.text("question").split()), (title, f"{title}.{number}")
                yield Example(qa.text("id"), question, context, answers or (_UNANSWERABLE,), units)


def _read_json(files: Files, split: str) -> Iterator[Example]:
    yield from _json_examples(files.path(_FILES[split]), may_be_none=False)


def _read_json_2(files: Files, split: str) -> Iterator[Example]:
    # Questions without an answer were added later: their ids begin with 5a, and they come last in their paragraph.
    examples = _json_examples(files.path(_FILES_2[split]), may_be_none=True)
    yield from shuffled_within(1, f"squad2.{split}", examples)


def _json(name: str, sha256: str, size: int, blob: str) -> tuple[RemoteFile, ...]:
    urls = (
        f"https://rajpurkar.github.io/SQuAD-explorer/dataset/{name}",
        github_raw("rajpurkar/SQuAD-explorer", _COMMIT, f"dataset/{name}"),
    )
    return (RemoteFile(name, urls, sha256, size, git_blob=blob),)


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
        Source(
            "upstream json",
            {
                "train": _json(
                    _FILES["train"],
                    "3527663986b8295af4f7fcdff1ba1ff3f72d07d61a20f487cb238a6ef92fd955",
                    30_288_272,
                    "77f1d9a7daee11f7bc293832020f7709f63410ad",
                ),
                "validation": _json(
                    _FILES["validation"],
                    "95aa6a52d5d6a735563366753ca50492a658031da74f301ac5238b03966972c9",
                    4_854_279,
                    "e9a3f913ad1468ebe105b891334ca7b0bc0e2510",
                ),
            },
            _read_json,
        ),
    ),
    licence="CC BY-SA 4.0",
    citation="Rajpurkar et al. 2016, SQuAD: 100,000+ Questions for Machine Comprehension of Text",
    homepage="https://rajpurkar.github.io/SQuAD-explorer/",
    notes="The test set is hidden by its authors. All reference answers are kept, repeated ones too.",
    question_varies=True,
    unit_names=("article", "paragraph"),
    prompt=_PROMPT,
    variants=_VARIANTS,
    curriculum="hard",  # alone, it was the best of what the paper tried first (Appendix F)
    context_limit=ContextLimit(400, "skip"),
)

SQUAD2 = Task(
    name="squad2",
    title="Question answering",
    dataset="SQuAD 2.0",
    output=Text(extractive=True, max_tokens=96),
    metric="squad2",
    secondary=(),
    counts={"train": 130_319, "validation": 11_873, "test": 8_862},
    hidden=("test",),
    sources=(
        Source(
            "upstream json",
            {
                "train": _json(
                    _FILES_2["train"],
                    "68dcfbb971bd3e96d5b46c7177b16c1a4e7d4bdef19fb204502738552dede002",
                    42_123_633,
                    "312f804dbf85888fdce3299eaa58d6ec3f0bb6b7",
                ),
                "validation": _json(
                    _FILES_2["validation"],
                    "80a5225e94905956a6446d296ca1093975c4d3b3260f1d6c8f68bc2ab77182d8",
                    4_370_528,
                    "c6fa1a89a12c90b7fbfa8f6fb437cfff27af41ca",
                ),
            },
            _read_json_2,
        ),
    ),
    licence="CC BY-SA 4.0",
    citation="Rajpurkar et al. 2018, Know What You Don't Know: Unanswerable Questions for SQuAD",
    homepage="https://rajpurkar.github.io/SQuAD-explorer/",
    notes=(
        "A question without an answer in its paragraph has the answer `unanswerable`, where the official files have "
        "none; for the official scorer, write an empty prediction in its place. Upstream's ids tell which questions "
        "have an answer: they are in `meta`, and ids are numbers. The test set is hidden by its authors."
    ),
    version=2,
    question_varies=True,
    unit_names=("article", "paragraph"),
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
)
