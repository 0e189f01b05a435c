"""QA-SRL 1.0, Wikipedia part: semantic roles as questions and answers."""

from __future__ import annotations

from collections.abc import Iterator

from decabench.errors import DataError
from decabench.tasks.example import Example
from decabench.tasks.outputs import Text
from decabench.tasks.readers import Record, line_blocks, listed_files
from decabench.tasks.task import Files, Source, Task
from decabench.tasks.wording import labelled_prompt, wrapped

_UPSTREAM = {"train": "train", "validation": "dev", "test": "test"}

_BRACKETS = {"-LRB-": "(", "-RRB-": ")", "-LAB-": "<", "-RAB-": ">", "-AMP-": "&", "%pw": " "}
_CLOSING = (
    *(" .", " ,", " ;", " !", " ?", " :", " )"),
    *(" 'll", " n't ", " %", " 't", " 's", " 'm", " 'd", " 're"),
)
_OPENING = ("( ", "$ ")
_QUOTES = ("``", "`", "''", "\N{LEFT DOUBLE QUOTATION MARK}", "\N{RIGHT DOUBLE QUOTATION MARK}", " '")

# Upstream answers that misquote their sentence, mapped to the sentence's own words as in decaNLP.
_MISQUOTED = {
    "Darcy Burner": (
        "Darcy Burner and other 2008 Democratic congressional candidates, "
        "in cooperation with some retired national security officials"
    ),
    "E Street Band": "plan to work with the E Street Band again in the future",
    "an electric sender": "an electronic sender",
    "the US army": "the US Army",
    "Rather than name the": "rather die than name the cause of his disease to his father",
}


def detokenise(text: str) -> str:
    """Turn treebank tokens into plain text: restore brackets, remove quotes, and close spaces around punctuation."""
    text = " ".join(text.split())
    for mark, plain in _BRACKETS.items():
        text = text.replace(mark, plain)
    for mark in _CLOSING:
        text = text.replace(mark, mark.lstrip())
    for mark in _OPENING:
        text = text.replace(mark, mark.rstrip())
    text = text.replace(" - ", "-")
    for mark in _QUOTES:
        text = text.replace(mark, "")
    return " ".join(text.split())


def _as_in(context: str, answer: str) -> str:
    """Return an answer as it appears in its sentence, correcting misquoted words and capitalization.

    Raises DataError if the answer does not occur in the sentence.
    """
    lower, upper = answer[:1].lower() + answer[1:], answer[:1].upper() + answer[1:]
    mapped = (words for key, words in _MISQUOTED.items() if key in answer)
    for candidate in (answer, lower, upper, *mapped, answer.lower()):
        if candidate in context:
            return candidate
    raise DataError(f"the answer {answer!r} does not occur in its sentence, {context!r}")


def _read(files: Files, split: str) -> Iterator[Example]:
    index = 0
    for number, block in enumerate(line_blocks(files.path(f"wiki1.{_UPSTREAM[split]}.qa"))):
        context, units = detokenise(block[1].value), (f"srl.{split}.sentence.{number}",)
        for row in _questions(block):
            slots, _, answers = " ".join(row.value.split()).partition("?")
            question = detokenise(slots.replace(" _", "") + "?")
            try:
                found = tuple(_as_in(context, detokenise(answer)) for answer in answers.split("###"))
            except DataError as error:
                raise row.fault(str(error)) from error
            yield Example(f"srl.{split}.{index}", question, context, found, units)
            index += 1


def _questions(block: list[Record]) -> list[Record]:
    """Return the lines that contain the questions about a sentence.

    A block begins with a line such as `WIKI1_4 3`, where 3 is the number of predicates, followed by the
    sentence. Then each predicate has a line such as `10 experienced 2`, where 2 is the number of
    questions, followed by its questions. Raises DataError if a number is wrong.
    """
    rows = [line for line in block[2:] if "?" in line.value]
    predicates = [line.value.split()[-1] for line in block[2:] if "?" not in line.value]
    stated = sum(int(number) for number in predicates if number.isdecimal())
    if block[0].value.split()[1:] != [str(len(predicates))] or stated != len(rows):
        raise block[0].fault(
            "the block that begins here states a different number of predicates or questions than it contains"
        )
    return rows


_FILES = listed_files(
    "https://dada.cs.washington.edu/qasrl/data",
    """
    train      f927417e94e67b7ae17e33dd882989a5556d7ff37376f8bf5c78ece7d17a6c64 646_763 wiki1.train.qa
    validation caa94beaaf22304422cdc1a2fd8732b1a47401c9555a81e1f4da81e0a7557a8b 222_666 wiki1.dev.qa
    test       b43a998344fbd520955fb8f0f7b3691ace363daa8628552cf5cf5c8d84df6cca 218_300 wiki1.test.qa
    """,
)

_PROMPT = labelled_prompt(
    "Sentence",
    instruction=(
        "The question asks for one part of what a verb of the sentence says: who did it, to whom, when, where, how "
        "or why. Answer with the words of the sentence that are that part, copied exactly as they stand there. Give "
        "only those words."
    ),
)

_VARIANTS = (
    wrapped("words-of-context", "Answer with words of the context: {question}"),
    wrapped("according", "According to the sentence: {question}"),
    wrapped("span-after", "{question} Copy the answer from the sentence."),
)

SRL = Task(
    name="srl",
    title="Semantic role labeling",
    dataset="QA-SRL, Wikipedia",
    output=Text(extractive=True, max_tokens=128),
    metric="nf1",
    counts={"train": 6_414, "validation": 2_183, "test": 2_201},
    sources=(Source("upstream qa", _FILES, _read),),
    licence="Not stated (University of Washington); the sentences are Wikipedia's, CC BY-SA",
    citation="He et al. 2015, Question-Answer Driven Semantic Role Labeling",
    homepage="https://dada.cs.washington.edu/qasrl/",
    question_varies=True,
    unit_names=("sentence",),
    prompt=_PROMPT,
    variants=_VARIANTS,
    curriculum="easy",
)
