"""SQuAD 1.1: reading comprehension. The answer is a span of the paragraph."""

from __future__ import annotations

from collections.abc import Iterator

from decabench.tasks.example import Example
from decabench.tasks.outputs import Text
from decabench.tasks.readers import github_raw, hub_file, json_records, parquet_records
from decabench.tasks.task import ContextLimit, Files, Hub, RemoteFile, Source, Task
from decabench.tasks.wording import PromptTemplate, wrapped

__all__ = ["SQUAD"]

_FILES = {"train": "train-v1.1.json", "validation": "dev-v1.1.json"}
_COMMIT = "eee5fdbf62f8613a7812b03419e6b29617b74fd1"
_HUB = Hub("rajpurkar/squad", "7b6d24c440a36b6815f21b70d25016731768db1f")


class _Paragraphs:
    """Numbers the paragraphs of an article as they are read: another context under a title is another paragraph."""

    def __init__(self) -> None:
        self._title = self._context = ""
        self._number = -1

    def units(self, title: str, context: str) -> tuple[str, str]:
        """Return the article and the paragraph: the title, and the title with a number."""
        if title != self._title:
            self._title, self._context, self._number = title, context, 0
        elif context != self._context:
            self._context, self._number = context, self._number + 1
        return title, f"{title}.{self._number}"


def _example(id: str, units: tuple[str, str], question: str, context: str, answers: list[str]) -> Example:
    return Example(id, " ".join(question.split()), context, tuple(answers), units)


def _read_json(files: Files, split: str) -> Iterator[Example]:
    paragraphs = _Paragraphs()
    for article in json_records(files.path(_FILES[split]), "data.item", "article"):
        title = article.text("title")
        for paragraph in article.records("paragraphs", "paragraph"):
            context = paragraph.text("context")
            units = paragraphs.units(title, context)
            for qa in paragraph.records("qas", "question"):
                answers = [answer.text("text") for answer in qa.records("answers", "answer")]
                if not answers:
                    raise qa.fault("it has no answer")
                yield _example(qa.text("id"), units, qa.text("question"), context, answers)


def _read_parquet(files: Files, split: str) -> Iterator[Example]:
    paragraphs = _Paragraphs()
    columns = ("id", "title", "context", "question", "answers")
    for row in parquet_records(files, f"plain_text/{split}-00000-of-00001.parquet", columns):
        context = row.text("context")
        units = paragraphs.units(row.text("title"), context)
        answers = row.record("answers").texts("text")
        if not answers:
            raise row.fault("it has no answer")
        yield _example(row.text("id"), units, row.text("question"), context, answers)


def _json(split: str, sha256: str, size: int, blob: str) -> tuple[RemoteFile, ...]:
    name = _FILES[split]
    urls = (
        f"https://rajpurkar.github.io/SQuAD-explorer/dataset/{name}",
        github_raw("rajpurkar/SQuAD-explorer", _COMMIT, f"dataset/{name}"),
    )
    return (RemoteFile(name, urls, sha256, size, git_blob=blob),)


_PROMPT = PromptTemplate(
    instruction=(
        "Answer the question with the shortest span of the passage that answers it. Copy its words exactly as they "
        "stand there. Give only the span, not a sentence."
    ),
    input="Passage: {context}\n\nQuestion: {question}",
    answer="Answer:",
    stop=("\n\n", "\nPassage:", "\nQuestion:"),
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
                    "train",
                    "3527663986b8295af4f7fcdff1ba1ff3f72d07d61a20f487cb238a6ef92fd955",
                    30_288_272,
                    "77f1d9a7daee11f7bc293832020f7709f63410ad",
                ),
                "validation": _json(
                    "validation",
                    "95aa6a52d5d6a735563366753ca50492a658031da74f301ac5238b03966972c9",
                    4_854_279,
                    "e9a3f913ad1468ebe105b891334ca7b0bc0e2510",
                ),
            },
            _read_json,
        ),
        Source(
            "hub parquet",
            {
                split: (hub_file(_HUB, f"plain_text/{split}-00000-of-00001.parquet"),)
                for split in ("train", "validation")
            },
            _read_parquet,
            hub=_HUB,
        ),
    ),
    licence="CC BY-SA 4.0",
    citation="Rajpurkar et al. 2016, SQuAD: 100,000+ Questions for Machine Comprehension of Text",
    homepage="https://rajpurkar.github.io/SQuAD-explorer/",
    notes="The test set is hidden by its authors. All reference answers are kept, repeated ones too.",
    unit_names=("article", "paragraph"),
    prompt=_PROMPT,
    variants=_VARIANTS,
    curriculum="hard",  # alone, it was the best of what the paper tried first (Appendix F)
    context_limit=ContextLimit(400, "skip"),
)
