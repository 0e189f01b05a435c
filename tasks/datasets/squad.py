"""SQuAD 1.1 and 2.0: reading comprehension with answer spans. SQuAD 2.0 adds unanswerable questions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from decabench.tasks.example import Example
from decabench.tasks.outputs import Text
from decabench.tasks.readers import github_raw, json_records, listed_files, shuffled_within
from decabench.tasks.task import ContextLimit, Files, Source, Task
from decabench.tasks.wording import AnswerForm, labelled_prompt, wrapped

_PARTS = {"train": "train", "validation": "dev"}

_UNANSWERABLE = "unanswerable"
"""The answer to a SQuAD 2.0 question that the paragraph doesn't answer.

The official files list no answers for these questions, and the official scorer treats an empty prediction as
"no answer". The metric `squad2` accepts both.
"""


def _examples(path: Path, may_be_none: bool) -> Iterator[Example]:
    before, number = ("", ""), 0
    for article in json_records(path, "data.item", "article"):
        title = article.text("title")
        for paragraph in article.records("paragraphs", "paragraph"):
            context = paragraph.text("context")
            if (title, context) != before:  # a few paragraphs come twice in a row
                number = number + 1 if title == before[0] else 0
                before = title, context
            units = title, f"{title}.{number}"
            for qa in paragraph.records("qas", "question"):
                answers = [answer.text("text") for answer in qa.records("answers", "answer")]
                if not answers and not may_be_none:
                    raise qa.fault("the question has no answer")
                question = " ".join(qa.text("question").split())
                yield Example(qa.text("id"), question, context, tuple(answers or [_UNANSWERABLE]), units)


def _read(files: Files, split: str) -> Iterator[Example]:
    yield from _examples(files.path(f"{_PARTS[split]}-v1.1.json"), may_be_none=False)


def _read_2(files: Files, split: str) -> Iterator[Example]:
    # Unanswerable questions were added later: their ids begin with 5a, and they come last in their paragraph.
    examples = _examples(files.path(f"{_PARTS[split]}-v2.0.json"), may_be_none=True)
    yield from shuffled_within(1, f"squad2.{split}", examples)


_URL = github_raw("rajpurkar/SQuAD-explorer", "eee5fdbf62f8613a7812b03419e6b29617b74fd1", "dataset")
_FILES = listed_files(
    _URL,
    """
    train      3527663986b8295af4f7fcdff1ba1ff3f72d07d61a20f487cb238a6ef92fd955 30_288_272 train-v1.1.json
    validation 95aa6a52d5d6a735563366753ca50492a658031da74f301ac5238b03966972c9 4_854_279  dev-v1.1.json
    """,
)
_FILES_2 = listed_files(
    _URL,
    """
    train      68dcfbb971bd3e96d5b46c7177b16c1a4e7d4bdef19fb204502738552dede002 42_123_633 train-v2.0.json
    validation 80a5225e94905956a6446d296ca1093975c4d3b3260f1d6c8f68bc2ab77182d8 4_370_528  dev-v2.0.json
    """,
)

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
    sources=(Source("upstream json", _FILES, _read),),
    licence="CC BY-SA 4.0",
    citation="Rajpurkar et al. 2016, SQuAD: 100,000+ Questions for Machine Comprehension of Text",
    homepage="https://rajpurkar.github.io/SQuAD-explorer/",
    notes="The authors keep the test set hidden. All reference answers are kept, including repeated ones.",
    question_varies=True,
    unit_names=("article", "paragraph"),
    prompt=_PROMPT,
    variants=_VARIANTS,
    curriculum="hard",  # trained first on its own, it was the paper's best choice (Appendix F)
    context_limit=ContextLimit(400, "skip"),
)

SQUAD2 = replace(
    SQUAD,
    name="squad2",
    dataset="SQuAD 2.0",
    metric="squad2",
    secondary=(),
    counts={"train": 130_319, "validation": 11_873, "test": 8_862},
    sources=(Source("upstream json", _FILES_2, _read_2),),
    citation="Rajpurkar et al. 2018, Know What You Don't Know: Unanswerable Questions for SQuAD",
    notes=(
        "A question without an answer in its paragraph has the answer `unanswerable`; the official "
        "files have none, and the official scorer expects an empty prediction. Upstream's ids reveal "
        "which questions have an answer, so they are in `meta`, and ids are numbers. The authors keep "
        "the test set hidden."
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
