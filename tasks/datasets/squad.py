"""SQuAD 1.1 and 2.0: reading comprehension with answer spans. SQuAD 2.0 adds unanswerable questions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial

from decabench.tasks.example import Example
from decabench.tasks.outputs import Text
from decabench.tasks.readers import (
    github_raw,
    hub_source,
    json_records,
    listed_files,
    parquet_records,
    shuffled_within,
)
from decabench.tasks.task import ContextLimit, Files, Source, Task
from decabench.tasks.wording import AnswerForm, labelled_prompt, wrapped

_PARTS = {"train": "train", "validation": "dev"}

_UNANSWERABLE = "unanswerable"
"""The answer to a SQuAD 2.0 question that the paragraph doesn't answer.

The official files list no answers for these questions, and the official scorer treats an empty prediction as
"no answer". The metric `squad2` accepts both.
"""


_Row = tuple[str, str, str, str, list[str]]
"""A question: (article, paragraph, id, question, answers)."""


def _json_rows(version: str, files: Files, split: str) -> Iterator[_Row]:
    for article in json_records(files.path(f"{_PARTS[split]}-{version}.json"), "data.item", "article"):
        title = article.text("title")
        for paragraph in article.records("paragraphs", "paragraph"):
            context = paragraph.text("context")
            for qa in paragraph.records("qas", "question"):
                answers = [answer.text("text") for answer in qa.records("answers", "answer")]
                yield title, context, qa.text("id"), qa.text("question"), answers


def _parquet_rows(folder: str, files: Files, split: str) -> Iterator[_Row]:
    columns = ("title", "context", "id", "question", "answers")
    for row in parquet_records(files, _parquet(folder, split), columns):
        title, context, id, question = map(row.text, columns[:-1])
        answers = replace(row, value=row.field("answers", dict)).texts("text")
        yield title, context, id, question, answers


def _read(rows: Callable[[Files, str], Iterator[_Row]], files: Files, split: str) -> Iterator[Example]:
    before, number = ("", ""), 0
    for title, context, id, question, answers in rows(files, split):
        if (title, context) != before:  # a new context under the same title begins the next paragraph
            number = number + 1 if title == before[0] else 0
            before = title, context
        yield Example(id, " ".join(question.split()), context, tuple(answers), (title, f"{title}.{number}"))


def _read_2(rows: Callable[[Files, str], Iterator[_Row]], files: Files, split: str) -> Iterator[Example]:
    # Shuffled, because unanswerable questions have ids that begin with 5a and come last in their paragraph.
    examples = shuffled_within(1, f"squad2.{split}", _read(rows, files, split))
    return (replace(example, answers=example.answers or (_UNANSWERABLE,)) for example in examples)


def _parquet(folder: str, split: str) -> str:
    return f"{folder}/{split}-00000-of-00001.parquet"


_DATASET = github_raw("rajpurkar/SQuAD-explorer", "eee5fdbf62f8613a7812b03419e6b29617b74fd1", "dataset")
_JSON = listed_files(
    _DATASET,
    """
    train      3527663986b8295af4f7fcdff1ba1ff3f72d07d61a20f487cb238a6ef92fd955 30_288_272 train-v1.1.json
    validation 95aa6a52d5d6a735563366753ca50492a658031da74f301ac5238b03966972c9 4_854_279  dev-v1.1.json
    """,
)
_JSON_2 = listed_files(
    _DATASET,
    """
    train      68dcfbb971bd3e96d5b46c7177b16c1a4e7d4bdef19fb204502738552dede002 42_123_633 train-v2.0.json
    validation 80a5225e94905956a6446d296ca1093975c4d3b3260f1d6c8f68bc2ab77182d8 4_370_528  dev-v2.0.json
    """,
)


def _hub_source(repository: str, commit: str, folder: str, read: Callable[..., Iterator[Example]]) -> Source:
    paths = {split: _parquet(folder, split) for split in _PARTS}
    return hub_source(repository, commit, paths, partial(read, partial(_parquet_rows, folder)))


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
        Source("upstream json", _JSON, partial(_read, partial(_json_rows, "v1.1"))),
        _hub_source("rajpurkar/squad", "7b6d24c440a36b6815f21b70d25016731768db1f", "plain_text", _read),
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
        Source("upstream json", _JSON_2, partial(_read_2, partial(_json_rows, "v2.0"))),
        _hub_source("rajpurkar/squad_v2", "80596c4f2b9ffcd716039dfc7e564c4e491802ec", "squad_v2", _read_2),
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
