"""Read answers inside the tag that the prompt asked for, or output that consists only of an answer.

Prose isn't searched. Any other output is unparseable and results in an empty answer, because a guess would be
worse. This includes output with several tags that contradict each other, and free text with markup, an introduction
or a remark around it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise

from decabench.prompts.enforced import read_json
from decabench.prompts.items import find_items
from decabench.prompts.labels import find_mentions, labels_for, match_label
from decabench.prompts.markup import (
    BULLET,
    REMARK,
    example_start,
    find_json,
    is_refusal,
    lines_of,
    plain_digits,
    says_nothing,
    unwrapped,
)
from decabench.tasks import AnswerForm
from decabench.text import bare

OPENING, CLOSING = "<answer>", "</answer>"

TAG_REQUEST = f"Write the answer itself, and nothing else, between tags: {OPENING}…{CLOSING}"
"""The sentence in a prompt that asks for the tag."""

_OPENING_TAG, _CLOSING_TAG = r"<\s{0,3}answer(?:\s[^<>]{0,300})?>", r"<\s{0,3}/\s{0,3}answer\s{0,3}(?:>|\Z)"
_TAG = re.compile(
    rf"{_OPENING_TAG}(?P<inner>(?:(?!{_OPENING_TAG}).)*?)(?P<end>{_CLOSING_TAG}|\Z)",
    re.DOTALL | re.IGNORECASE,
)
"""Matches a tag in upper or lower case, with or without spaces and attributes.

A tag that isn't closed extends to the end of the text.
"""
_PLACEHOLDER = re.compile(
    r"[\s.\u2026]*|\W*(?:insert |your )(?:final )?answer(?: here)?\W*|\W*answer here\W*", re.IGNORECASE
)
_WITHDRAWS = r"wait|actually|correction|oops|sorry|on reflection|on second thought"
_CORRECTS = re.compile(
    rf"\b(?:{_WITHDRAWS}|no|correct\w*|final\w*|instead|rather|mistaken?|wrong|revised?|reconsider\w*"
    r"|double-check\w*)\b",
    re.IGNORECASE,
)
"""Matches words between two tags that show that the second tag replaces the first."""
_TAKES_BACK = re.compile(
    rf"(?:^|[.!?]\s)\W{{0,9}}(?:(?:hmm|oh|no|sorry|but)\W{{1,9}})?(?:{_WITHDRAWS}|scratch that|let me correct"
    r"|i made a mistake|my mistake|apologies|edit:|update:|i misread|strike that|i meant|i change"
    r"|i take (?:that|it) back|hmm\W{1,9}no|(?:this|that|it)(?:['\u2019]s| is| was| would be) (?:wrong|incorrect"
    r"|false|a mistake|not (?:right|correct|true)))(?!\w)",
    re.IGNORECASE | re.MULTILINE,
)
"""Matches the beginning of a sentence that withdraws the answer before it."""
_CLAUSE = re.compile(r"[.!?:;\u2014](?:\s|$)|,? (?:so|but|thus|hence|therefore) |\n", re.IGNORECASE)
"""Matches the end of a clause."""
_COLON = re.compile(r"[:\u2013\u2014-][\s*_`\"'(]*\Z")
"""Matches a colon or dash directly before a tag. It may follow a condition, as in `Only if it rains: <answer>…`."""
_CONDITION = r"(?<!even )(?<!as )\bif\b(?! i (?:have|had|must)\b)|\A\W*(?:had|were|should)\b|\bunless\b"
_NEGATION = (
    r"\b(?:not|no(?! doubt)|never|n?either|nor|cannot|hardly|far from|(?:instead|other|rather) (?:of|than)|anything but"
    r"|opposite of|refuse to(?: say)?|would(?: not|n['\u2019]t) say|rul(?:e|es|ed|ing) out|wrong|incorrect|mistake"
    r"|tempt\w+|(?<!no )doubt\w*|\w+n['\u2019]t)\b"
)
_DENIES = re.compile(
    # A condition, an example, or other people's opinions
    rf"{_CONDITION}|\b(?:suppos\w+|assum\w+"
    r"|in which case|at first|initially|(?:would|['\u2019]d) have|(?:e\.g\.|such as|format),?[ ]*\Z)"
    r"|(?<!\bi )(?<!\bwe )\b(?:might|could|may|would) (?:\w+ )?(?:say|think|argue|answer|guess|write)\b"
    rf"|{_NEGATION}(?:(?:(?!,| and | because ).)*(?:\b(?:is|was|be|been|as|an?|the|at all|answer)|['\u2019]s))?"
    r"(?: \w+ly)?[ \t*:]*\Z",
    re.IGNORECASE,
)
"""Matches words in the same clause before a tag that show that it isn't the model's answer: `It is not <answer>…`."""
_RUNS_ON = re.compile(
    r"[ \t*`\"'\u201d,;()\u2013\u2014-]*(?:[?/]|[.,]\d|(?:\.\.\.|\u2026)\s*\w|\w+n['\u2019]t\b"
    r"|(?:but|while|whereas|n?or|only|if|unless|assuming|provided|once|in case|(?:would|could|may|might) be)\b"
    r"|(?:is|was|are|would|could|can|may|might|seems|looks|does|did)(?:not\b|\s(?:(?!because|since|correct|right)"
    r"[\w,'\u2019]+\s){0,6}(?:not|never|wrong|incorrect|false|mistaken|misleading|too|if|unless)\b))",
    re.IGNORECASE,
)
"""Matches text after a tag that denies the answer, such as ` is wrong`, or continues it, such as `.5`."""
_SAYS_ANSWER = re.compile(
    r"^\W{0,9}(?:(?:so|thus|therefore|hence),? )?(?:(?:the|my) )?(?:(?:final|correct|actual) )?answer(?: is)?\W{0,3}"
    r"[:=\u2013\u2014-](.*)|\\boxed\{(?:\\text\{)?([^{}]*)",
    re.IGNORECASE | re.MULTILINE,
)
"""Matches a line that states the answer, such as `Final answer: x`."""
_SAYS_LABEL = re.compile(
    r"\b(?:(?:answer|label|sentiment|verdict|relation\w*|classification) (?:is|should be|would be)|makes? (?:it|this)"
    r"|it(?: is|['\u2019]s))\W{1,4}(?:an? |\w+ly )?\Z",
    re.IGNORECASE,
)
"""Matches words before a label that show that it is the answer, such as `so the label is`."""


def read_tagged(
    text: str, form: AnswerForm, question: str, context: str, is_finished: bool, is_opened: bool
) -> tuple[str, str]:
    """Return the answer in a text whose reasoning has been removed, and the rule that found it.

    The last tag is used. An unclosed tag extends to the end of the text, but its content is not an
    answer if the text was cut off. If the prompt ended with an opening tag (`is_opened`), the text
    begins inside this tag. JSON in the task's schema is accepted too.
    """

    def read(text: str, is_tagged: bool = True) -> str | None:
        return _answer_in(bare(text), form, question, context, is_tagged)

    if (value := read_json(" ".join(lines_of(text)), form.kind)) is not None:
        found = read(value) or (value if form.kind in ("tags", "tree") else "")
        return (found, "json") if found else ("", f"json+{_fault(value, form)}")
    if is_opened and OPENING not in text.casefold().partition(CLOSING)[0]:
        text = f"{OPENING}{text}"
    own = _own_example(text, form)
    tags = [tag for tag in _TAG.finditer(own) if not _PLACEHOLDER.fullmatch(tag["inner"])]
    if any(tag["end"] for tag in tags) or (tags and is_finished):
        inner, rest = bare(tags[-1]["inner"]), own[tags[-1].end() :]
        answer = read(read_json(inner, form.kind) or inner)
        is_cut = not (tags[-1]["end"] or is_finished)
        before = own[max(tags[-1].start() - 300, 0) : tags[-1].start()]
        clause, condition = (_CLAUSE.split(text)[-1] for text in (before, _COLON.sub("", before)))
        others = {read(line, False) for line in _later_lines(rest, form)} if form.kind in _FIXED else set()
        is_taken_back = (
            re.search(_CONDITION, condition, re.IGNORECASE)
            or _DENIES.search(clause)
            or _RUNS_ON.match(rest)
            or _TAKES_BACK.search(rest)
            or others - {None, answer}
            or not _are_consistent(tags)
        )
        if not answer or is_cut or is_taken_back or _names_another(rest, answer, form, question):
            return "", f"tag+{_fault(inner, form)}"
        return answer, "tag"
    if not is_finished and form.kind not in ("raw", "label"):
        return "", "unparseable"  # the missing rest might have changed the answer
    plain = bare(re.sub("</?answer>", "", text, flags=re.IGNORECASE)) if is_opened else text
    plain = _introduced(plain, form.markers)
    if said := read(plain, False):
        return said, "as-is" if said == plain else form.kind
    return "", _fault(text, form, loosely=True)


_FIXED = ("label", "number", "sql", "state")
"""Kinds of answers that can be recognized in a line without a tag."""


def _fault(text: str, form: AnswerForm, loosely: bool = False) -> str:
    if is_refusal(text, loosely):
        return "refused"
    return "no-answer+unparseable" if form.kind == "span" and says_nothing(text) else "unparseable"


def _own_example(text: str, form: AnswerForm) -> str:
    """Return the text up to the next example that the model invented.

    A text that doesn't start with a tag is returned unchanged. The search for the example begins after
    the tag or, if the tag isn't closed, inside it.
    """
    if not (first := _TAG.match(text)):
        return text
    other = example_start(form.stop).search(text, first.end() if first["end"] else first.start("inner"))
    return text[: other.start()] if other else text


def _are_consistent(tags: Sequence[re.Match[str]]) -> bool:
    """Whether each tag repeats the previous tag's answer, or follows words that correct that answer."""
    return all(
        lines_of(one["inner"].casefold()) == lines_of(other["inner"].casefold())
        or _CORRECTS.search(one.string[one.end() : other.start()])
        for one, other in pairwise(tags)
    )


def _later_lines(rest: str, form: AnswerForm) -> list[str]:
    """Return the lines after a tag, without headings such as `Sentiment:`."""
    lines = [_introduced(line, form.markers) for line in lines_of(rest)]
    return [line.rpartition(":")[2] for line in lines] if form.kind == "label" else lines


def _names_another(rest: str, answer: str, form: AnswerForm, question: str) -> bool:
    """Whether the text after a tag says that another answer is right."""
    said = (" ".join("".join(found).split()).casefold() for found in _SAYS_ANSWER.findall(rest))
    if any(re.search(r"\w", line) and " ".join(answer.split()).casefold() not in line for line in said):
        return True
    labels = labels_for(form, question) if form.kind == "label" else ()
    return any(
        label != answer
        and _SAYS_LABEL.search(rest[max(start - 60, 0) : start])
        and not re.match(r" (?:who|that|if|when|only)\b", rest[end:])
        for start, end, label in find_mentions(rest, labels)
    )


def _introduced(text: str, markers: Sequence[str]) -> str:
    names = "|".join(re.escape(name.strip(" :")) for name in ("answer", *markers) if name.strip(" :"))
    return bare(re.sub(rf"\A[*_#\s]*(?:{names})[*_]*:[*_]*", "", text, flags=re.IGNORECASE))


def _answer_in(text: str, form: AnswerForm, question: str, context: str, is_tagged: bool) -> str | None:
    """Return the answer if the whole text is an answer, or None otherwise.

    Free text must be in a tag, because otherwise an introduction could be mistaken for part of the answer.
    """
    if form.kind != "raw" and any(found not in context for found in _ESCAPES.findall(text)):
        return None
    keeps_quotes = form.kind == "line" and bool(_QUOTED.match(context))
    if form.kind == "span" and is_tagged and not form.unquote:
        keeps_quotes = is_in_context(text, context)
    lines = [unwrapped(line, not keeps_quotes) for line in lines_of(text)]
    line = " ".join(lines)
    match form.kind:
        case "raw":
            return text
        case "label":
            return match_label(line, labels_for(form, question))
        case "number":
            return _number(line, form.scale)
        case "sql":
            return _statement(_introduced(text, form.markers), context)
        case "state":
            return read_state(line, form.labels)
        case "tags" | "tree":
            is_final = not _TAKES_BACK.search(text)
            return find_items(text, form.kind, form.labels, context.split()) if is_final else None
        case "span" if label := match_label(line, form.labels):
            return label
        case "span" if not is_tagged and is_in_context(text, context):
            return text
        case "span" if is_in_context(line, context):
            return line
        case "span" if not is_tagged:
            return line.rstrip(".") if is_in_context(line.rstrip("."), context) else None
        case _ if is_tagged and _is_only_text(text, form, context):
            return _introduced(line, form.markers)
        case _:
            return None


_QUOTED = re.compile("[\"'\u2018\u201c\u201e\u00ab]")
"""Matches a source text that starts with a quotation mark, so that its translation may be in quotation marks too."""
_ESCAPES = re.compile(r"\\|</?[a-z][^<>\n]*>|</|&(?:[a-z]{2}|#x?[\da-f])\w{0,29};", re.IGNORECASE)
_MARKUP = re.compile(r"[<>{}`~|=\u2192\u3010\ufffd]|(?<!\w)\*\*\b|^#{1,6} ")
"""Matches markup. Markup belongs to an answer only if it also occurs in the context."""
_INTRODUCTION = re.compile(
    r"\A[*_]*(?:#{1,6}\s|(?:sure|certainly|of course)[!.]\s*\n"
    r"|(?:\w+[,.!]+\s+)?here(?:['\u2019]s| is| are)\s+(?:\w+\s+){1,4}(?:answer|translation|summary|span)\b)",
    re.IGNORECASE,
)
"""Matches an introduction, such as `Here is the answer:`."""
_SENTENCES = re.compile(r"[.!?]\s+[A-Z]\w+\s")
_NO_SPAN = re.compile(
    r"\b(?:not|n['\u2019]t|no)\b.*\b(?:mention|specif|stat|provid|given|answer)", re.IGNORECASE
)
_HEADED = re.compile(
    r"[\W_]*(?:(?:the|final|correct|short|in|auf) )?(?:answer|span|translation|german|english|deutsch|tl;dr"
    r"|key points|(?:hier ist die )?\u00fcbersetzung)(?: is)?\W{0,3}[:=]|the answer is\b",
    re.IGNORECASE,
)
"""Matches a heading, such as `Final answer:`."""
_ENDS_EARLY = re.compile(r"[.!?:][^\w\n]*\n|\S[ \t]*\n\s*\n")
"""Matches the end of a sentence or paragraph before the last line, but not a wrapped line."""
_LAST_BRACKETS = re.compile(r"[(\[][^()\[\]]*[)\]]\W{0,9}\Z")
"""Matches a possible remark at the end of an answer."""


def _is_only_text(text: str, form: AnswerForm, context: str) -> bool:
    """Whether free text has no markup, JSON, introduction, refusal, remark or second answer around it.

    Markup that also occurs in the context counts as part of the answer.
    """
    lines = lines_of(text)
    source, folded = bare(context).casefold(), text.casefold()
    has_remark = bool(source and _LAST_BRACKETS.search(text))
    says_more: object = False
    if form.kind == "span":
        has_remark = has_remark or bool(re.search(r"[\[\u2022]", text) or _TAKES_BACK.search(text))
        says_more = len(lines) > 1 or _SENTENCES.search(text) or says_nothing(text)
        says_more = says_more or (form.labels and _NO_SPAN.search(text))
    elif form.kind == "line":
        is_copy = len(source.split()) > 2 and source in folded and source != folded
        has_remark = has_remark and not re.search(r"[(\[]", source)
        says_more = is_copy or (len(lines_of(context)) < 2 and _ENDS_EARLY.search(text))
    return bool(re.search(r"\w", text)) and not (
        says_more
        or (has_remark and form.kind != "text")
        or (any(map(BULLET.match, lines)) and not BULLET.match(source))
        or any(found not in context for found in _MARKUP.findall(text))
        or find_json(text) is not None
        or _INTRODUCTION.match(text)
        or any(map(REMARK.match, lines[1:]))
        or _HEADED.match(own := _introduced(text, form.markers))
        or _SAYS_ANSWER.search(own)
        or is_refusal(text)
        or any(re.search(rf"\b{re.escape(label)}\b", text, re.IGNORECASE) for label in form.labels)
    )


def is_in_context(answer: str, context: str) -> bool:
    """Whether an answer, or every part of a comma-separated list, occurs in the context as whole words.

    Case and whitespace are ignored.
    """
    words = " ".join(context.split()).casefold()
    folded = " ".join(answer.split()).casefold()
    return bool(folded) and (_has(words, folded) or all(_has(words, part) for part in folded.split(", ")))


def _has(words: str, part: str) -> bool:
    start = words.find(part) if part else -1
    while start >= 0:
        end = start + len(part)
        glued = (words[start - 1 : start] + part[0]).isalnum() and start > 0
        if not glued and not (end < len(words) and (part[-1] + words[end]).isalnum()):
            return True
        start = words.find(part, start + 1)
    return False


_NUMBER = re.compile(r"[-+\u2212]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d{1,3})?")


def _number(text: str, scale: tuple[float, float] | None) -> str | None:
    number = plain_digits(text.rstrip(".")).replace("\u2212", "-").lstrip("+")
    if not _NUMBER.fullmatch(number) or (scale and not scale[0] <= float(number) <= scale[1]):
        return None
    return number


QUERY_GOES_ON = re.compile(
    r"(?:from|where|and|or|group|order|having|limit|(?:\w+ )?join|on|union)\b|[),]|\s|```", re.IGNORECASE
)
"""Matches a line that continues a query."""
_QUERY_REMARK = re.compile(
    r"--|/\*|//|\s#(?=\s)|[-=]>|\*\*|;|\.\.\.|\u2026|\s\([^()]*\)\Z|[.:!?]\s+[A-Z][a-z]+|,\s(?:which|where|this)\b"
)
"""Matches a possible comment or remark in a query. It is allowed if it also occurs in the context."""


def _statement(text: str, context: str) -> str | None:
    """Return the query, as a single line, if the text consists only of a query, or None otherwise.

    A text with a remark is rejected, because the remark would be read as part of the query.
    """
    lines = [line for line in text.splitlines() if not line.startswith("```") and line.strip()]
    query = unwrapped(" ".join(lines_of("\n".join(lines))), quotes=True).rstrip("; ")
    words = " ".join(context.split()).casefold()
    is_plain = all(bare(found).casefold() in words for found in _QUERY_REMARK.findall(query))
    has_comment = re.search(r"\s--\s*[a-z]", query, re.IGNORECASE)
    is_one = all(map(QUERY_GOES_ON.match, lines[1:])) and is_plain and not has_comment
    return query if is_one and re.match(r"select\s.*\sfrom\s", query, re.IGNORECASE) else None


NO_CHANGE = "None"
"""The answer for a dialogue turn that changes nothing."""
_VALUE = re.compile(r"[\w'\u2019&/-]+(?:\.\w+)*(?: [\w'\u2019&/-]+(?:\.\w+)*){0,3}")
NO_VALUE = re.compile(
    r"yes|no|true|false|none|null|unknown|any|unchanged|request(?:ed)?|asked|needed|wanted|required|desired|please"
    r"|n/?a|unspecified|empty|[-_]+|not\b.*|tbd|value|missing|same|(?:left )?blank|undefined",
    re.IGNORECASE,
)
"""Matches words that stand for a missing value in a state, such as `none` or `not mentioned`."""


def read_state(text: str, slots: Sequence[str]) -> str | None:
    """Return a state change in canonical form, `slot: value, slot: value; slot`.

    Returns None if the text isn't a state change. Without `slots`, any name is accepted as a slot.
    Words such as `yes` or `not mentioned` are not values.
    """
    if match_label(text, (NO_CHANGE,)):
        return NO_CHANGE
    goals, _, requests = text.rstrip(".").partition(";")
    known = {slot.casefold(): slot for slot in slots}
    constraints, asked, given = [], [], set[str]()
    for item in filter(None, map(str.strip, goals.split(","))):
        slot, colon, value = (part.strip() for part in item.partition(":"))
        if not colon or not _VALUE.fullmatch(value) or NO_VALUE.fullmatch(value):
            return None
        if not (slot if not slots else known.get(slot.casefold())) or slot in given or slot == value:
            return None
        given.add(slot)
        constraints.append(f"{slot}: {value}")
    for item in filter(None, map(str.strip, requests.split(","))):
        if (not slots and not _VALUE.fullmatch(item)) or (slots and item.casefold() not in known):
            return None
        asked.append(item)
    if not constraints and not asked:
        return None
    return f"{', '.join(constraints)};{' ' * bool(asked)}{', '.join(asked)}"
