"""Find answers that score as wrong only because of their form, such as `Positive.`, `3,5` or `DET, NOUN`.

Such answers are rare after extraction but common in files from other programs. The checks explain low scores and never
change them.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, lru_cache, partial

from decabench.metrics import Item, Metric, find_loss, read_change, write_change
from decabench.prompts.items import MISSING, find_items
from decabench.prompts.labels import match_label, possible_labels
from decabench.prompts.markup import is_refusal, says_nothing
from decabench.prompts.prose import find_label, find_number
from decabench.prompts.tagged import NO_CHANGE, NO_VALUE
from decabench.tasks import (
    SCHEMES,
    AnswerForm,
    Label,
    Number,
    Output,
    Scheme,
    Tags,
    Text,
    Tree,
    default_form,
    find_lost_word,
    write_chunks,
)
from decabench.text import excerpt, quoted


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

    It is called only if the answers may be copies of these texts.
    """
    read_form: Callable[[], AnswerForm] = AnswerForm
    """Returns the form of the task's answers, which may include special words such as `None`."""
    questions: Mapping[str, str] = field(default_factory=dict)
    """Maps each of `places` to its question; empty unless the questions name the labels."""
    samples: Sequence[Sequence[str]] = ()
    """The texts of additional samples, each in dataset order."""


@dataclass
class FormCounts:
    """Counts of the answers that the metric can't read because of their form."""

    total: int
    """The number of answers in the file, with or without faults."""
    kind: str
    """The kind of answer, such as `number`."""
    advice: str
    """Advice on how to write such an answer."""
    fault: str = "in a form that scores as wrong"
    """A phrase that describes the fault in a message, after the number and kind of the answers."""
    between: str = " instead of "
    """The words between an answer and its meaning in a message, as in `line 3 has '3,5' instead of '3.5'`."""
    forms: Counter[str] = field(default_factory=Counter)
    """The number of answers in each form that the metric can't read."""
    others: dict[str, list[str]] = field(default_factory=dict)
    """Maps each other fault, such as `a number outside the scale`, to phrases that quote the answers with that
    fault.
    """
    more: list[str] = field(default_factory=list)
    """Additional sentences for the description of the answers."""
    strays: str = ""
    """A sentence about answers without any label; empty if there are none."""
    _example: str = ""

    def count(self, place: str, text: str, meant: str, form: str) -> None:
        """Count an answer in a form that the metric can't read."""
        self.forms[form] += 1
        self._example = self._example or f"{place} has {quoted(text)}{self.between}{quoted(meant)}"

    def note(self, what: str, place: str, text: str) -> None:
        """Note an answer with a fault other than an unreadable form."""
        self.others.setdefault(what, []).append(f"{place} has {quoted(text)}")

    @property
    def are_most(self) -> bool:
        """Whether most answers are in forms that the metric can't read, or most share one of the other faults."""
        return 2 * max(self.forms.total(), *map(len, self.others.values()), 0) > self.total

    def tell_others(self, least: float = 0) -> None:
        """Add a sentence about each of the other faults that more than `least` answers have."""
        self.more += [
            f"{len(shown):,} of {self.total:,} answers {'gives' if len(shown) == 1 else 'give'} {what}. "
            f"For example, {shown[0]}"
            for what, shown in self.others.items()
            if len(shown) > least
        ]

    def describe(self) -> str:
        """Return sentences that count the faults and give an example, or an empty string if there are no faults."""
        sentences = []
        if count := self.forms.total():
            forms = ", ".join(f"{form} ({number:,})" for form, number in self.forms.most_common(4))
            verb = f"is a {self.kind}" if count == 1 else f"are {self.kind}s"
            said = f"{count:,} of {self.total:,} answers {verb} {self.fault}"
            sentences.append(f"{said}: {forms}. For example, {self._example}. {self.advice}")
        return ". ".join([*sentences, *self.more])


def count_forms(given: GivenAnswers) -> FormCounts | None:
    """Count answers in forms that the metric can't read.

    Returns None unless the output is a label, a number, a list or a dialogue state.
    """
    kind = default_form(given.output, given.metric.name).kind
    if isinstance(given.output, Label):
        return _count_labels(given)
    if kind == "number":
        return _count_numbers(given)
    if kind in ("tags", "tree"):
        return _count_lists(given, kind)
    return _count_states(given) if kind == "state" else None


# Labels


def takes_label(metric: Metric, text: str, label: str) -> bool:
    """Return whether a metric accepts a text as an answer if the reference is the given label.

    Also returns True if the metric fails, because a custom metric may need other fields of an example.
    """
    reference = Item((label,))
    try:
        given, wanted = metric.statistics([text, label], [reference, reference])
    except Exception:  # custom metrics can raise any exception
        return True
    return given == wanted


@lru_cache(1 << 15)  # many answers are the same, and both rows and reports call this function
def find_label_form(text: str, labels: Sequence[str], question: str = "") -> tuple[str, str] | None:
    """Return the label in a text and a description of how the text differs from it, or None if there is no label.

    The description is empty if the text is exactly a label.
    """
    if text in labels:
        return text, ""
    plain = " ".join(text.split()).casefold()
    if found := next((label for label in labels if label.casefold() == plain), None):
        return found, "different case or spacing"
    if found := match_label(text, labels):
        return found, "extra punctuation or an article"
    found = find_label(text, labels, question if text.startswith(question) else "")
    return None if found is None else (found, "a sentence around the label")


def label_flag(text: str, labels: Sequence[str], question: str, takes: Callable[[str, str], bool]) -> str:
    """Return `label_form` if the metric rejects the form of the text's label, or `other_label` if there is no label.

    Returns an empty string if the metric accepts the label.
    """
    found = find_label_form(text, tuple(labels), question)
    if found is None:
        return "other_label"
    label, form = found
    return "label_form" if form and not takes(text, label) else ""


def _count_labels(given: GivenAnswers) -> FormCounts:
    counts = FormCounts(len(given.texts), "label", "Write only the label")
    takes, strays = cache(partial(takes_label, given.metric)), list[str]()
    for place, text in zip(given.places, given.texts, strict=True):
        question = given.questions.get(place, "")
        labels = possible_labels(given.output, question)
        flag = label_flag(text, labels, question, takes) if labels else ""
        if flag == "label_form":
            counts.count(place, text, *(find_label_form(text, labels, question) or ("", "")))
        elif flag and text.strip():
            strays.append(f"{place} has {quoted(text)}")
    if strays:
        names = possible_labels(given.output, "")
        verb = "gives" if len(strays) == 1 else "give"
        listed = f" ({excerpt(', '.join(names), 100)})" if names else ""
        counts.strays = (
            f"{len(strays):,} of {counts.total:,} answers {verb} none of the labels{listed}. For example, "
            f"{strays[0]}"
        )
    return counts


# Numbers

_PLAIN = re.compile(r"[-+]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d{1,3})?")


def find_number_form(text: str, scale: tuple[float, float] | None = None) -> tuple[str, str] | None:
    """Return the number in a text and a description of how the text differs from a plain number.

    Returns None unless there is exactly one number.
    """
    text = text.strip()
    number = find_number(text, scale)
    if number is None:
        return None
    if re.fullmatch(r"[-+]?\d[\d,]*,\d+(?:\.\d+)?", text):
        is_decimal = "." in number and "." not in text
        return number, "a decimal comma" if is_decimal else "commas between thousands"
    return number, "another notation" if _PLAIN.fullmatch(text) else "text around the number"


def _count_numbers(given: GivenAnswers) -> FormCounts:
    """Count answers whose number is missing, outside the scale or in a form that the metric can't read (`3
    points`).
    """
    counts = FormCounts(len(given.texts), "number", "Write only the number")
    scale = (given.output.low, given.output.high) if isinstance(given.output, Number) else None

    @cache
    def reads(text: str, number: str) -> bool:
        """Whether the metric scores the text the same as the number. Also true if the metric fails."""
        # The references differ because some metrics need a range of gold answers.
        references = [Item((number,)), Item(("-1000000",))]
        try:
            read, wanted = (given.metric.statistics([each, "0"], references)[0] for each in (text, number))
        except Exception:
            return True
        return read == wanted

    for at, (place, text) in enumerate(zip(given.places, given.texts, strict=True)):
        found = find_number_form(text, scale)
        if found is None:
            if text.strip():
                counts.note("no number", place, text)
            continue
        number, form = found
        if scale and not scale[0] <= float(number) <= scale[1]:
            counts.note(f"a number outside the scale from {scale[0]:g} to {scale[1]:g}", place, text)
        gold = given.references[at].answers[0] if given.references is not None else ""
        meant = gold if _PLAIN.fullmatch(gold) and float(gold) == float(number) else number
        if not reads(text, meant):
            counts.count(place, text, meant, form)
    counts.tell_others()
    return counts


# Lists

_NO_ROOT = (
    "heads that are counted from 0 or form cycles, so that some words are not connected to the root (0)"
)
_HEAD = re.compile("-?[0-9]{1,9}")


def _count_lists(given: GivenAnswers, kind: str) -> FormCounts:
    """Count lists of tags or heads in another notation, such as JSON, one item per line or with commas.

    Tags in other chunk schemes and invalid trees are counted too, but reported only if most answers have them.
    """
    counts = FormCounts(len(given.texts), "list", "Write only the items, separated by spaces")
    output, schemes = given.output, tuple[Scheme, ...]()
    names = output.names if isinstance(output, Tags) else output.relations if isinstance(output, Tree) else ()
    if isinstance(output, Tags) and output.scheme != "plain":
        schemes = (output.scheme,)
    elif kind == "tags" and given.metric.name == "sequence_f1":
        schemes = SCHEMES[1:]

    if isinstance(output, Tree) and not names:
        names = tuple(
            {name for item in given.references or () for name in re.findall(r":(\S+)", item.answers[0])}
        )
    folded = {name.casefold() for name in (*names, *(["O"] if schemes else []))}
    if kind == "tree":
        folded = {name.partition(":")[0] for name in folded}  # without subtypes, as in nmod:poss

    def is_item(item: str) -> bool:
        head, _, name = item.partition(":") if kind == "tree" else ("", "", item)
        if item == MISSING or (kind == "tree" and not _HEAD.fullmatch(head)):
            return item == MISSING
        main = name.partition(":")[0] if kind == "tree" else name
        return main.casefold() in folded if names else bool(re.fullmatch(r"[\w:-]+", name))

    looked, listed, unknown = 0, 0, dict[str, list[str]]()
    for place, text in zip(given.places, given.texts, strict=True):
        if not (items := text.split()):
            continue
        if kind == "tree":
            looked += 1
            heads = [item.partition(":")[0] for item in items]
            if all(map(_HEAD.fullmatch, heads)):  # all other lists are counted below, by their form
                numbers = list(map(int, heads))
                if min(numbers) < 0 or find_lost_word(numbers):
                    counts.note(_NO_ROOT, place, " ".join(items))
        elif schemes:
            tags = ["O" if tag == MISSING else tag for tag in items]
            looked += any(tag.lower() != "o" for tag in tags)
            if name := find_spelling(tags, schemes):
                counts.note(name, place, " ".join(items))
        listed += sum(item.casefold() not in ("o", MISSING) for item in items)
        if all(map(is_item, items)):
            continue
        meant = find_items(text, kind, names)
        if meant is not None and meant.split() != items and all(map(is_item, meant.split())):
            if not takes_label(given.metric, text, meant):
                form = "commas" if "," in text or ";" in text else "other punctuation"
                form = "one item per line" if len(text.strip().splitlines()) > 1 else form
                counts.count(place, text, meant, "JSON" if text.lstrip().startswith(("[", "{")) else form)
            continue
        for item in items if names or kind == "tree" else ():
            if not is_item(item):
                own = re.sub(r"^-?\d+:(?=.)", "", item) if kind == "tree" else item
                unknown.setdefault(own, []).append(f"{place} has {quoted(text)}")
    name, shown = max(counts.others.items(), key=lambda fault: len(fault[1]), default=("", []))
    if 2 * len(shown) > looked:
        wanted = f", but the task's tags are {' or '.join(schemes)}" if schemes else ""
        verb = "looks" if len(shown) == 1 else "look"
        counts.more.append(
            f"{len(shown):,} of {looked:,} answers {verb} like {name}{wanted}. For example, {shown[0]}. Write the "
            "answers in the task's form"
        )
    elif (total := sum(map(len, unknown.values()))) > max(_UNKNOWN * listed, 2):
        most = sorted(unknown, key=lambda item: len(unknown[item]), reverse=True)[:4]
        named = ", ".join(f"{quoted(item, 30)} ({len(unknown[item]):,})" for item in most)
        wanted = f"tags of the task ({excerpt(', '.join(names), 100)})"
        if kind == "tree":
            wanted = "a head and a relation of the task, such as 3:nsubj"
        counts.more.append(
            f"{total:,} of {listed:,} items are not {wanted}: {named}. For example, {unknown[most[0]][0]}"
        )
    return counts


_UNKNOWN = 0.05
"""If more than this fraction of the tags is unknown, the answers probably use another tag set."""
_OTHER_LETTERS = {"L": "E", "U": "S", "M": "I", "W": "S"}
"""Letters of BILOU and BMEWO, with their equivalents in IOBES."""
_SIGNS_OF_O = frozenset({"0", "OUT", "OUTSIDE", "OTHER", "NONE", "NULL", "X", "-", "*"})
_SPELLINGS: Mapping[str, Callable[[str], str]] = {
    "BILOU or BMEWO": lambda tag: _OTHER_LETTERS.get(tag[:1].upper(), tag[:1]) + tag[1:],
    "tags with the letter at the end (PER-B)": lambda tag: "-".join(reversed(tag.rsplit("-", 1))),
    "tags with a different separator after the letter (B_PER)": lambda tag: (
        f"{tag[:1]}-{tag[1:].lstrip('_./:|')}"
    ),
    "tags with a different symbol for O": lambda tag: "O" if tag.upper() in _SIGNS_OF_O else tag,
}
"""Functions that convert the tags of other tools to a scheme in `SCHEMES`. The keys name the tools' notation."""


def find_spelling(tags: Sequence[str], schemes: Sequence[Scheme]) -> str:
    """Return the name of the tags' chunking scheme, such as `BILOU`, if it isn't one of `schemes`.

    Returns an empty string if the tags follow one of `schemes` or no known scheme.
    """

    def are_in(tags: Sequence[str], scheme: Scheme) -> bool:
        return [tag.lower() for tag in write_chunks(tags, scheme)] == [tag.lower() for tag in tags]

    if any(are_in(tags, scheme) for scheme in schemes):
        return ""
    if other := next((scheme for scheme in SCHEMES[1:] if are_in(tags, scheme)), ""):
        return other
    for name, convert in _SPELLINGS.items():
        converted = [tag if tag.lower() == "o" else convert(tag) for tag in tags]
        if converted != list(tags) and any(are_in(converted, scheme) for scheme in SCHEMES[1:]):
            return name
    return ""


# Dialogue states


def _count_states(given: GivenAnswers) -> FormCounts:
    """Count dialogue states that can be read only in part or not at all, such as `time: 3:30;`."""
    counts = FormCounts(
        len(given.texts),
        "state",
        "Write `slot: value, slot: value; request` or None, and leave out this punctuation within a value",
        "that can be read only in part or not at all",
        ", which is read as ",
    )

    def parts(text: str) -> set[str]:
        return {re.sub(r"\s*:\s*", ": ", part.strip().lower()) for part in re.split("[,;]", text)} - {""}

    golds = [
        pair
        for item in given.references or ()
        for gold in item.answers
        for pair in read_change(gold).inform.items()
    ]
    unknown = dict[str, list[str]]()
    slots = {slot for slot, _ in golds}
    values = {"yes", "no", "true", "false", "any", *(value for _, value in golds)}
    for place, text in zip(given.places, given.texts, strict=True):
        loss, own = find_loss(text), read_change(text).inform
        if loss and parts(text) != parts(read := write_change(text)):
            counts.count(place, text, read, loss)
        elif any(NO_VALUE.fullmatch(value) for value in own.values() if value not in values):
            counts.note("a slot without a value, which should be left out", place, text)
        elif slots and not slots.issuperset(own):
            counts.note("a slot that no gold answer has", place, text)
        else:
            for pair in own.items() if golds else ():
                if pair[1] not in values:
                    unknown.setdefault(": ".join(pair), []).append(place)
    # Faults in only a few answers aren't reported, because these answers may have a slot that is rare.
    counts.tell_others(counts.total / 10)
    for written, places in unknown.items():
        if len(places) > max(2, counts.total / 100):
            counts.more.append(
                f"{len(places):,} of {counts.total:,} answers have {quoted(written)}, a value that no gold answer "
                f"has. The first is {places[0]}"
            )
    return counts


# Placeholders

_UNANSWERABLE = "unanswerable"
_LONGEST = 300
"""The maximum length of a placeholder, in characters."""
_MISSING = re.compile(
    r"[^\w\\/]*(?:nan|none|null|nil|na|n/a|undefined|nonetype|object (?:object|undefined|null)|\\n"
    r"|#(?:value|ref|name|num|div/0)[!?])[^\w/]*|\W*(?-i:NaT)\W*|[\[\](){}\"'\s-]+",
    re.IGNORECASE,
)
"""Matches missing values, such as `<NA>` (pandas), `#N/A` (Excel) or `[object Object]` (JavaScript), and `[]`."""
_FAILED = re.compile(
    r"\W*(?:\w+ ){0,2}[\w.]*(?:error|exception)\W?[:(\[].*|traceback \(.*"
    r"|.*\b(?:rate limit|timed out|too many requests|internal server error|service unavailable|bad gateway)\b.*",
    re.IGNORECASE | re.DOTALL,
)
"""Error messages of servers and programs, such as `RateLimitError: …`."""
_NO_ANSWER = re.compile(
    r"no(?:t a)? ?(?:answers?|ans|span|text|info|information)(?: (?:found|available|given|possible|exists?))?"
    r"|not? (?:found|available|applicable|known|sure|in (?:the |this )?(?:passage|text|context|paragraph)|enough info)"
    r"|(?:(?:the|this) question is |it is |is )?(?:un|not )answerable(?: question)?|unanswered|unknown|idk|empty"
    r"|unable to (?:answer|determine|say|tell)"
    r"|can ?(?:no|')t (?:be )?answer(?:ed)?|cannotanswer|impossible(?: to (?:answer|say|tell|determine))?|is impossible"
)
"""Other phrases for `unanswerable`, in lower case and without punctuation."""


def describe_fillers(given: GivenAnswers) -> Iterator[str]:
    """Yield sentences about placeholders, error messages and refusals among the answers.

    Placeholders are texts such as `nan`, `None`, `N/A` or U+FFFD. Programs write them for rows that failed, and
    metrics score them as wrong answers. The text of a gold answer or label never counts as a placeholder.
    """
    counts = Counter(text for text in given.texts if 0 < len(text.strip()) <= _LONGEST)
    may_be_none = given.metric.name in ("squad2", "corpus_f1")
    golds = [gold for item in given.references or () for gold in item.answers]
    known = set[str]()

    def plain(text: str) -> str:
        return re.sub(r"[^\w']+|_", " ", text.casefold().replace("\u2019", "'")).strip()

    def is_filler(text: str) -> bool:
        if not may_be_none:
            return bool(_MISSING.fullmatch(text))
        is_none = says_nothing(text.strip()) or _NO_ANSWER.fullmatch(plain(text)) or _MISSING.fullmatch(text)
        return bool(is_none) and not takes_label(given.metric, text, _UNANSWERABLE)

    def is_failure(text: str) -> bool:
        return bool(_FAILED.fullmatch(text)) or is_refusal(text)

    failures = set(filter(is_failure, counts))
    fillers = set(filter(is_filler, counts)) - failures
    repeated = _repeated(given, counts) - failures - fillers
    if fillers or failures or repeated:
        form = given.read_form()
        own = {*getattr(given.output, "names", ()), *form.labels, *([NO_CHANGE] * (form.kind == "state"))}
        own.update(gold for gold in golds if len(gold) <= 2 * max(map(len, fillers | failures | repeated)))
        known = set(map(plain, own - {_UNANSWERABLE}))
    meaning = (
        f"say that there is no answer in words that the metric doesn't recognize. Write {_UNANSWERABLE} instead"
        if may_be_none
        else "are placeholders for missing values. Answer these examples again"
    )
    failed = "are error messages or refusals instead of answers. Answer these examples again"
    same = "repeat a text that is not a gold answer. Check whether it is a refusal"
    for found, said in ((fillers, meaning), (failures, failed), (repeated, same)):
        words = {text for text in found if plain(text) not in known}
        total = sum(counts[text] for text in words)
        if total > 1 and 100 * total >= len(given.texts):
            places = zip(given.places, given.texts, strict=True)
            place = next(place for place, text in places if text in words)
            named = Counter({text: counts[text] for text in words}).most_common(4)
            shown = [
                f"{excerpt(text, 40)!r}{f' ({count:,})' if len(words) > 1 else ''}" for text, count in named
            ]
            listed = ", ".join(shown) + (", …" if len(words) > len(named) else "")
            yield f"{total:,} of {len(given.texts):,} answers ({listed}) {said}. The first is {place}"
    broken = [place for place, text in zip(given.places, given.texts, strict=True) if "\ufffd" in text]
    if broken and not any("\ufffd" in gold for gold in golds):
        verb = "contains" if len(broken) == 1 else "contain"
        yield (
            f"{len(broken):,} of {len(given.texts):,} answers {verb} the replacement character U+FFFD, because "
            "a program misread or truncated UTF-8. Read and write whole characters as UTF-8. The first is "
            f"{broken[0]}"
        )


def _repeated(given: GivenAnswers, counts: Mapping[str, int]) -> set[str]:
    """Return texts given as the answer to at least 3% of the examples, but found in no question, context or gold
    answer.

    `unanswerable` is left out, because models that were also trained on other tasks may answer with it.
    """
    most = len(given.texts)
    found = {text for text, count in counts.items() if max(0.03 * most, 5) <= count < most}
    found -= {_UNANSWERABLE}
    if not found or not isinstance(given.output, Text) or not (given.references and given.read_prompts):
        return set()
    prompts = given.read_prompts()
    for text, item in zip(given.texts, given.references, strict=True):
        if text in found and (
            text in " ".join(prompts.get(item.id, ())) or takes_label(given.metric, text, item.answers[0])
        ):
            found.remove(text)
    return found
