"""Find answers that score as wrong only because of their form, such as `Positive.`, `3,5` or `DET, NOUN`.

These are rare in extracted answers but common in files from other programs. The form is wrong if extraction finds
another answer in the text, and the metric scores the two differently. The checks never change a score.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, lru_cache, partial

from decabench.metrics import Item, Metric
from decabench.prompts.extraction import extract, settle_form
from decabench.prompts.labels import possible_labels
from decabench.prompts.prose import says_nothing
from decabench.prompts.tagged import NO_CHANGE
from decabench.tasks import AnswerForm, Output, default_form
from decabench.text import excerpt, quoted

__all__ = ["GivenAnswers", "describe_fillers", "describe_forms", "label_flag", "meant_answer", "takes_label"]


@dataclass(frozen=True)
class GivenAnswers:
    """The answers in a file, with their examples."""

    output: Output
    """The task's output type."""
    metric: Metric
    """The headline metric."""
    places: Sequence[str]
    """The location of each answer for messages, such as `line 3` or an id."""
    texts: Sequence[str]
    """The answers, in dataset order."""
    references: Sequence[Item] | None = None
    """Examples with gold answers, which messages never show; None if they are unknown or hidden."""
    read_prompts: Callable[[], Mapping[str, tuple[str, str]]] | None = None
    """Returns the question and context of each example by id.

    Called only if answers may be copies of them.
    """
    read_form: Callable[[], AnswerForm] = AnswerForm
    """Returns the form of the task's answers, which may include special words such as `None`."""
    questions: Mapping[str, str] = field(default_factory=dict)
    """The questions by place, if they name the labels."""

    @property
    def form(self) -> AnswerForm:
        """The default form of the task's answers. The slots of a state are those of the gold answers."""
        form = settle_form(default_form(self.output, self.metric.name), self.output)
        if form.kind != "state":
            return form
        golds = (gold.partition(";")[0] for item in self.references or () for gold in item.answers)
        slots = {pair.partition(":")[0].strip() for gold in golds for pair in gold.split(",") if ":" in pair}
        asked = {slot for item in self.references or () for gold in item.answers for slot in _requests(gold)}
        return replace(form, labels=tuple(sorted(slots | asked)))


def _requests(state: str) -> list[str]:
    return [slot.strip() for slot in state.partition(";")[2].split(",") if slot.strip()]


@lru_cache(1 << 15)  # answers repeat, and both rows and reports need their forms
def meant_answer(text: str, form: AnswerForm, question: str = "") -> str | None:
    """Return the answer that extraction finds in a text, or None if it finds none."""
    found = extract(text, form, question)
    return None if found.rule.endswith(("empty", "unparseable", "refused")) else found.answer


def takes_label(metric: Metric, text: str, label: str, others: Sequence[str] = ()) -> bool:
    """Whether a metric accepts a text for a reference label, or fails because it needs more than the answer.

    `others` are further reference answers, for metrics that read the range of all answers.
    """
    answers = (label, label, *others)
    references = [Item((answer,), id=f"x{at}_0") for at, answer in enumerate(answers)]  # turns of dialogues
    try:
        given, wanted, *_ = metric.statistics([text, label, *others], references)
    except Exception:  # custom metrics can raise any exception
        return True
    return given == wanted


def label_flag(text: str, labels: Sequence[str], question: str, takes: Callable[[str, str], bool]) -> str:
    """Return `label_form` for a label that the metric rejects, `other_label` without one, or an empty string."""
    label = meant_answer(text, AnswerForm("label", tuple(labels)), question)
    if label is None:
        return "other_label"
    return "" if text == label or takes(text, label) else "label_form"


_WORDS = {
    "label": ("label", "Write only the label", 0.0),
    "number": ("number", "Write only the number", 0.0),
    "tags": ("list of the task's tags", "Write only the tags, separated by spaces", 0.1),
    "tree": (
        "list of heads and relations",
        "Write only head:relation for each word, separated by spaces",
        0.1,
    ),
    "state": ("state", "Write `slot: value, slot: value; request` with the task's slots, or None", 0.1),
}
"""For each kind, its name, the advice, and the least fraction of unreadable answers to report."""


def describe_forms(given: GivenAnswers) -> Iterator[tuple[str, str]]:
    """Yield a sentence about labels, numbers, lists or states in another form, and one about unreadable answers.

    Each has the code of its fault. Answers like those in the data are never reported.
    """
    form = given.form
    if form.kind not in _WORDS:
        return
    name, advice, least = _WORDS[form.kind]
    # An unreadable number counts as the end of the scale.
    ends = ("-1000000",) if form.kind == "number" else ()
    takes = cache(partial(takes_label, given.metric, others=ends))
    others, strays = [], []
    for at, (place, text) in enumerate(zip(given.places, given.texts, strict=True)):
        question = given.questions.get(place, "")
        golds = given.references[at].answers if given.references is not None else ()
        if not text.strip() or text in golds:
            continue
        if form.kind == "label" and not possible_labels(given.output, question):
            continue
        meant = meant_answer(text, form, question)
        if meant is None:
            if not golds or meant_answer(golds[0], form, question) is not None:
                strays.append(f"{place} has {quoted(text)}")
        elif meant != text and not takes(text, meant):
            others.append(f"{place} has {quoted(text)} instead of {quoted(meant)}")
    total, is_label = len(given.texts), form.kind == "label"
    if others:
        verb = f"is a {name}" if len(others) == 1 else f"are {name}s"
        said = f"{len(others):,} of {total:,} answers {verb} in a form that scores as wrong"
        code = "label-form" if is_label else "answer-form"
        yield code, f"{said}. For example, {others[0]}. {advice}"
    if len(strays) > least * total:
        names = f" ({excerpt(', '.join(form.labels), 100)})" if form.labels else ""
        verb = "gives" if len(strays) == 1 else "give"
        fault = f"{verb} none of the labels" if is_label else f"can't be read as a {name}"
        said = f"{len(strays):,} of {total:,} answers {fault}{names}. For example, {strays[0]}"
        yield ("no-label", said) if is_label else ("answer-form", f"{said}. {advice}")


# Placeholders
_UNANSWERABLE = "unanswerable"
_LONGEST = 300
"""The maximum length of a placeholder, in characters."""
_MISSING = re.compile(
    r"[^\w\\/]*(?:nan|none|null|nil|na|n/a|undefined|nonetype|object (?:object|undefined|null)|\\n"
    r"|#(?:value|ref|name|num|div/0)[!?])[^\w/]*|\W*(?-i:NaT)\W*",
    re.IGNORECASE,
)
"""Missing values as written by pandas (`<NA>`), Excel (`#N/A`), JavaScript (`[object Object]`) and others."""
_NO_ANSWER = re.compile(
    r"no(?:t a)? ?(?:answers?|ans|span|text|info|information)(?: (?:found|available|given|possible|exists?))?"
    r"|not? (?:found|available|applicable|known|sure|in (?:the |this )?(?:passage|text|context|paragraph)|enough info)"
    r"|(?:(?:the|this) question is |it is |is )?(?:un|not )answerable(?: question)?|unanswered|unknown|idk|empty"
    r"|unable to (?:answer|determine|say|tell)"
    r"|can ?(?:no|')t (?:be )?answer(?:ed)?|cannotanswer|impossible(?: to (?:answer|say|tell|determine))?|is impossible"
)
"""Other phrases for `unanswerable`, in lower case and without punctuation."""


def describe_fillers(given: GivenAnswers) -> Iterator[str]:
    """Yield sentences about placeholders among the answers, such as `nan`, `None`, `N/A` or U+FFFD.

    Tables and programs write them for failed rows, and they score as wrong answers. The text of a gold answer
    or label never counts as a placeholder.
    """
    counts = Counter(text for text in given.texts if 0 < len(text.strip()) <= _LONGEST)
    may_be_none = given.metric.name in ("squad2", "corpus_f1")
    golds = [gold for item in given.references or () for gold in item.answers]

    def plain(text: str) -> str:
        return re.sub(r"[^\w']+|_", " ", text.casefold().replace("\u2019", "'")).strip()

    def is_filler(text: str) -> bool:
        if not may_be_none:
            return bool(_MISSING.fullmatch(text))
        is_none = says_nothing(text.strip()) or _NO_ANSWER.fullmatch(plain(text)) or _MISSING.fullmatch(text)
        return bool(is_none) and not takes_label(given.metric, text, _UNANSWERABLE)

    if words := set(filter(is_filler, counts)):
        form = given.read_form()
        own = {*getattr(given.output, "names", ()), *form.labels, *([NO_CHANGE] * (form.kind == "state"))}
        own.update(gold for gold in golds if len(gold) <= 2 * max(map(len, words)))
        words -= {text for text in words if plain(text) in set(map(plain, own - {_UNANSWERABLE}))}
    total = sum(counts[text] for text in words)
    if total > 1 and 100 * total >= len(given.texts):
        place = next(place for place, text in zip(given.places, given.texts, strict=True) if text in words)
        named = Counter({text: counts[text] for text in words}).most_common(4)
        shown = [f"{excerpt(text, 40)!r}{f' ({count:,})' if len(words) > 1 else ''}" for text, count in named]
        listed = ", ".join(shown) + (", …" if len(words) > len(named) else "")
        meaning = (
            f"say that there is no answer in words that the metric doesn't recognize. Write {_UNANSWERABLE} instead"
            if may_be_none
            else "are placeholders for missing values. Answer these examples again"
        )
        yield f"{total:,} of {len(given.texts):,} answers ({listed}) {meaning}. The first is {place}"
    broken = [place for place, text in zip(given.places, given.texts, strict=True) if "\ufffd" in text]
    if broken and not any("\ufffd" in gold for gold in golds):
        verb = "contains" if len(broken) == 1 else "contain"
        yield (
            f"{len(broken):,} of {len(given.texts):,} answers {verb} the replacement character U+FFFD, because "
            "a program misread or truncated UTF-8. Read and write whole characters as UTF-8. The first is "
            f"{broken[0]}"
        )
