"""Read answers inside the tag that the prompt asked for, or output that consists only of an answer.

Prose isn't searched. Any other output is unparseable and results in an empty answer, because a guess would be
worse. This includes output with several tags that contradict each other, and free text with markup, an introduction
or a remark around it.
"""

from __future__ import annotations

import html
import re
from collections.abc import Sequence
from itertools import pairwise

from decabench.prompts.enforced import read_json
from decabench.prompts.items import find_items
from decabench.prompts.labels import labels_for, match_label
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
from decabench.text import INVISIBLE, bare

OPENING, CLOSING = "<answer>", "</answer>"

TAG_REQUEST = f"Write the answer itself, and nothing else, between tags: {OPENING}…{CLOSING}"
"""The sentence in a prompt that asks for the tag."""

_OPENING_TAG, _CLOSING_TAG = r"<\s{0,3}answer(?:\s[^<>]{0,300})?>", r"<\s{0,3}/\s{0,3}answer\s{0,3}(?:>|\Z)"
_ENDS_WITH_OPENING = re.compile(rf"(?<=[^\s>]){_OPENING_TAG}\s*\Z", re.IGNORECASE)
"""Matches an opening tag at the end of a text, written where a closing tag was meant."""
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
_CLAUSES = re.compile(r"[.!?;]\s+|,\s+(?=(?:so|the|this|it)\b)|\n", re.IGNORECASE)
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
"""Matches words before a tag, in the same clause, that show that the tag doesn't contain the model's answer: `It is
not <answer>…`.
"""
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


def read_tagged(
    text: str, form: AnswerForm, question: str, context: str, is_finished: bool, is_opened: bool
) -> tuple[str, str]:
    """Return the answer in a text whose reasoning has been removed, and the rule that found it.

    The last tag is used. An unclosed tag extends to the end of the text, but its content is not an
    answer if the text was cut off. If the prompt ended with an opening tag (`is_opened`), the text
    begins inside this tag. JSON in the task's schema is accepted too.
    """

    def read(text: str, is_tagged: bool = True) -> str | None:
        text = bare(text if form.kind == "raw" else _spelled_out(text, form, context))
        found = _answer_in(text, form, question, context, is_tagged)
        is_found = found or form.kind in ("raw", "line", "text")
        return (
            found if is_found else _answer_in(_introduced(text, form, True), form, question, context, False)
        )

    def json_in(text: str) -> str | None:
        return read_json(" ".join(lines_of(text)), form.kind, _names(form))

    if (value := json_in(text)) is not None:
        found = read(value) or (value if form.kind in ("tags", "tree") else "")
        return (found, "json") if found else ("", f"json+{_fault(value, form)}")
    before, closing, _ = text.casefold().partition(CLOSING)
    if (is_opened or (closing and form.kind in _FIXED)) and OPENING not in before:
        text = f"{OPENING}{text}"
    own = _own_example(_ENDS_WITH_OPENING.sub(CLOSING, text), form)
    tags = [tag for tag in _TAG.finditer(own) if not _PLACEHOLDER.fullmatch(tag["inner"])]
    if any(tag["end"] for tag in tags) or (tags and is_finished):
        inner, rest = bare(tags[-1]["inner"]), own[tags[-1].end() :]
        answer = read(json_in(inner) or inner)
        before = own[max(tags[-1].start() - 300, 0) : tags[-1].start()]
        clause, condition = (_CLAUSE.split(text)[-1] for text in (before, _COLON.sub("", before)))
        later = (
            _CLAUSES.split(rest) if form.kind == "label" else lines_of(rest) if form.kind in _FIXED else ()
        )
        others = {read(part.rpartition(":")[2] if form.kind == "label" else part, False) for part in later}
        is_taken_back = (
            re.search(_CONDITION, condition, re.IGNORECASE)
            or _DENIES.search(clause)
            or _RUNS_ON.match(rest)
            or _TAKES_BACK.search(rest)
            or others - {None, answer}
            or not _are_consistent(tags)
        )
        is_whole = tags[-1]["end"] or is_finished
        if not answer or not is_whole or is_taken_back or _names_another(rest, answer):
            return "", f"tag+{_fault(inner, form)}"
        return answer, "tag"
    if not is_finished and form.kind not in ("raw", "label"):
        return "", "unparseable"  # the missing rest might have changed the answer
    plain = bare(re.sub("</?answer>", "", text, flags=re.IGNORECASE)) if is_opened else text
    if said := read(plain, False):
        return said, "as-is" if said == plain else form.kind
    return "", _fault(text, form, loosely=True)


_FIXED = ("label", "number", "sql", "state")
"""Kinds of answers that can be recognized in a line without a tag."""
IN_SENTENCES = ("span", *_FIXED)
"""Kinds of answers that may follow `the answer is` or be in a `\\boxed{}`."""


def _fault(text: str, form: AnswerForm, loosely: bool = False) -> str:
    if is_refusal(text, loosely):
        return "refused"
    return "no-answer+unparseable" if form.kind == "span" and says_nothing(text) else "unparseable"


def _own_example(text: str, form: AnswerForm) -> str:
    """Return a text that starts with a tag up to the point where the model begins to invent another example."""
    if not (first := _TAG.match(text)):
        return text
    other = example_start(form.stop).search(text, first.end() if first["end"] else first.start("inner"))
    return text[: other.start()] if other else text


def _are_consistent(tags: Sequence[re.Match[str]]) -> bool:
    """Return whether each tag repeats the previous tag's answer, or follows words that correct that answer."""
    return all(
        lines_of(one["inner"].casefold()) == lines_of(other["inner"].casefold())
        or _CORRECTS.search(one.string[one.end() : other.start()])
        for one, other in pairwise(tags)
    )


def _names_another(rest: str, answer: str) -> bool:
    """Return whether the text after a tag says that another answer is right."""
    said = (" ".join("".join(found).split()).casefold() for found in _SAYS_ANSWER.findall(rest))
    return any(re.search(r"\w", line) and " ".join(answer.split()).casefold() not in line for line in said)


_NAMES: dict[str, tuple[str, ...]] = {"span": ("span",), "tags": ("tags",), "tree": ("parse",)}
_NAMES |= {
    "line": ("translation", "the translation is"),
    "sql": ("sql", "query"),
    "number": ("score", "rating"),
}


def introductions(form: AnswerForm) -> list[str]:
    """Return the words that can introduce an answer, as in `Score: 4` or `{"score": 4}`, in lower case."""
    own = (marker.strip(" :\uff1a").casefold() for marker in form.markers)
    return ["answer", *filter(None, own), *_NAMES.get(form.kind, ())]


def _names(form: AnswerForm) -> list[str]:
    of_labels = ("label", "sentiment", "relation", "relationship", "classification", "verdict")
    return [*introductions(form), *(of_labels if form.kind == "label" else ())]


def _introduced(text: str, form: AnswerForm, loosely: bool = False) -> str:
    """Remove an introduction such as `Answer:` from the start of a text.

    With `loosely`, `The answer is` and the letter of an option are removed too."""
    names = "|".join(map(re.escape, _names(form)))
    head = rf"(?:{names})[*_]*:[*_]*"
    if loosely:
        head = rf"(?:(?:so|the|my|final|correct)\s+)*(?:{names})(?:\s+is\b)?[*_]*(?:[:\uff1a][*_]*|(?<=is)\s)"
    if loosely and form.kind in ("label", "span"):
        head = rf"{head}|\(?[a-z\d][.)]\s(?!\d)|[>\u2022-]\s"
    return bare(re.sub(rf"\A[*_#\s]*(?:{head})", "", text, flags=re.IGNORECASE))


_SPELLINGS = str.maketrans("\u2018\u2019\u201c\u201d\u2010\u2011\u2013\u2212\u00a0\u202f", "''\"\"----  ")
"""Maps typographic quotation marks, hyphens, dashes and spaces to their plain equivalents."""
_ENTITY = r"&(?:[a-z]{2}|#x?[\da-f])\w{0,29};"
_ESCAPED = re.compile(rf"(?i){_ENTITY}|\\([$%&#_])|[\u00ad\u200b\u2060\ufeff]")
"""Matches entities, escapes of Markdown and LaTeX, and invisible characters."""


def _spelled_out(text: str, form: AnswerForm, context: str) -> str:
    """Decode entities and escapes, and remove invisible characters, unless the context contains them.

    For the kinds in `_FIXED`, typographic characters that the context lacks are replaced too."""

    def spelled_out(found: re.Match[str]) -> str:
        return found[0] if found[0] in context else found[1] or html.unescape(found[0]).strip(INVISIBLE)

    text = _ESCAPED.sub(spelled_out, text)
    own = {odd: plain for odd, plain in _SPELLINGS.items() if chr(odd) not in context}
    return text.translate(own) if form.kind in _FIXED else text


def _answer_in(text: str, form: AnswerForm, question: str, context: str, is_tagged: bool) -> str | None:
    """Return the answer if the whole text is an answer, or None otherwise.

    Free text must be in a tag, because otherwise an introduction could be mistaken for part of the answer.
    """
    keeps_quotes = form.kind == "line" and bool(_QUOTED.match(context))
    lines = [unwrapped(line, not keeps_quotes) for line in lines_of(text)]
    line = " ".join(lines)
    if form.kind != "raw" and any(found not in context for found in _ESCAPES.findall(line)):
        return None
    match form.kind:
        case "raw":
            return text
        case "label":
            return match_label(line, labels_for(form, question), question)
        case "number":
            return _number(line, form.scale)
        case "sql":
            return _statement(text, context)
        case "state":
            return read_state(text, form)
        case "tags" | "tree":
            is_final = not _TAKES_BACK.search(text)
            found = find_items(text, form.kind, form.labels, words := context.split()) if is_final else None
            return found if found and (is_tagged or len(found.split()) >= len(words)) else None
        case "span" if label := match_label(line, form.labels):
            return label
        case "span" if re.search(r"\w", line) and (found := _copied(text, context) or _copied(line, context)):
            return found
        case _ if is_tagged and _is_only_text(line if len(lines) == 1 else text, form, context):
            return _introduced(line, form)
        case _:
            return None


_QUOTED = re.compile("[\"'\u2018\u201c\u201e\u00ab]")
"""Matches a source text that starts with a quotation mark, so that its translation may be in quotation marks too."""
_ESCAPES = re.compile(rf"\\|</?[a-z][^<>\n]*>|</|{_ENTITY}", re.IGNORECASE)
_MARKUP = re.compile(r"[<>{}`~|=\u2192\u3010\ufffd]|(?<!\w)\*\*\b|^#{1,6} |(?<=\s)/(?=\s)")
"""Matches markup. Markup belongs to an answer only if it also occurs in the context."""
_SENTENCES = re.compile(r"[.!?]\s+[A-Z]\w+\s")
_NO_SPAN = re.compile(
    r"\b(?:not|n['\u2019]t|no)\b.*\b(?:mention|specif|stat|provid|given|answer)", re.IGNORECASE
)
_HEADED = re.compile(
    r"[\W_]*(?:(?:the|final|correct|short|in|auf) )?(?:answer|span|translation|german|english|deutsch|tl;dr"
    r"|key points|(?:hier ist die )?\u00fcbersetzung)(?: is)?\W{0,3}[:=]|the answer is\b"
    r"|[*_]*(?:#{1,6}\s|(?:sure|certainly|of course)[!.]\s*\n"
    r"|(?:\w+[,.!]+\s+)?here(?:['\u2019]s| is| are)\s+(?:\w+\s+){1,4}(?:answer|translation|summary|span)\b)",
    re.IGNORECASE,
)
"""Matches a heading or an introduction, such as `Final answer:` or `Here is the answer:`."""
_ENDS_EARLY = re.compile(r"[.!?:][^\w\n]*\n|\S[ \t]*\n\s*\n")
"""Matches the end of a sentence or paragraph before the last line, but not a wrapped line."""
_LAST_BRACKETS = re.compile(r"[(\[][^()\[\]]*[)\]]\W{0,9}\Z")
"""Matches a possible remark at the end of an answer."""


def _is_only_text(text: str, form: AnswerForm, context: str) -> bool:
    """Return whether free text consists only of an answer.

    It must not contain markup, JSON, an introduction, a refusal, a remark or a second answer. Markup that also occurs
    in the context counts as part of the answer.
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
        or any(map(REMARK.match, lines[1:]))
        or _HEADED.match(own := _introduced(text, form))
        or _SAYS_ANSWER.search(own)
        or is_refusal(text)
        or any(re.search(rf"\b{re.escape(label)}\b", text, re.IGNORECASE) for label in form.labels)
    )


def is_in_context(answer: str, context: str) -> bool:
    """Return whether an answer, or every part of a comma-separated list, occurs in the context as whole words.

    Case and whitespace are ignored.
    """
    said, words = " ".join(answer.split()), _separated(context)
    return bool(said) and (
        _separated(said) in words or all(_separated(part) in words for part in said.split(", "))
    )


def _separated(text: str) -> str:
    return "\0".join(["", *re.findall(r"\w+|\W", " ".join(text.split()).casefold()), ""])


def _copied(answer: str, context: str) -> str | None:
    """Return the answer if it occurs in the context, else None.

    If necessary, a leading article or final full stop is removed from the answer, and its typographic characters are
    written as in the context.
    """
    if is_in_context(answer, context):
        return answer
    words, said = (" ".join(text.split()) for text in (context, answer))
    said = re.sub(r"\A(?:an?|the) |\.\Z", "", said.translate(_SPELLINGS), flags=re.IGNORECASE)
    plain = words.translate(_SPELLINGS)
    if said and (found := re.search(rf"(?<!\w){re.escape(said)}(?!\w)", plain, re.IGNORECASE)):
        return words[slice(*found.span())]
    return said if is_in_context(said, context) else None


_DIGITS = (
    r"[-+\u2212\u2013]?(?:[1-9]\d{0,2}(?:,\d{3})+(?:\.\d+)?|(?:\d+(?:[.,]\d+)?|\.\d+)(?:[eE][-+]?\d{1,3})?)"
    r"(?!\w|[.,]\d)"
)
NUMBER = re.compile(rf"(?<![\w.,]){_DIGITS}(?!\s*(?:hundred|thousand|(?:m|b|tr)illion)\b)", re.IGNORECASE)
_THOUSANDS = re.compile(r"-?[1-9]\d{0,2}(?:,\d{3})+(?:\.\d+)?")
_SCALE = re.compile(
    rf"(?:/\s*|(?<=\s)out of\s+(?:a possible\s+)?"
    rf"|\b(?:scale (?:of|from)|from|between)\s+(?:{_DIGITS}\s*(?:to|and|-|–)\s*)?)({_DIGITS})",
    re.IGNORECASE,
)


def _number(text: str, scale: tuple[float, float] | None) -> str | None:
    text = without_scale(text, scale) if scale else text
    numbers = [*map(plain_number, NUMBER.findall(text))]
    is_alone = len(numbers) == 1 and not re.search(r"[\w<>%\u2264\u2265\u2260-]", NUMBER.sub("", text))
    return numbers[0] if is_alone and (not scale or scale[0] <= float(numbers[0]) <= scale[1]) else None


def without_scale(line: str, scale: tuple[float, float] | None) -> str:
    """Return a line without `out of 5`, unless the maximum of the task's scale is another number."""
    other = scale[1] if scale else None
    return _SCALE.sub(
        lambda found: found[0] if other not in (None, float(plain_number(found[1]))) else " ", line
    )


def plain_number(number: str) -> str:
    plain = re.sub("[\u2212\u2013]", "-", plain_digits(number)).lstrip("+")
    return plain.replace(",", "" if _THOUSANDS.fullmatch(plain) else ".")


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
    return query if is_one and re.match(r"select\s.*\sfrom\s(?!the\b)", query, re.IGNORECASE) else None


NO_CHANGE = "None"
"""The answer for a dialogue turn that changes nothing."""
_VALUE = re.compile(r"[\w'\u2019&/-]+(?:\.\w+)*(?: [\w'\u2019&/-]+(?:\.\w+)*){0,3}")
NO_VALUE = re.compile(
    r"yes|no|true|false|none|null|unknown|any|unchanged|request(?:ed)?|asked|needed|wanted|required|desired|please"
    r"|n/?a|unspecified|empty|[-_]+|not\b.*|tbd|value|missing|same|(?:left )?blank|undefined",
    re.IGNORECASE,
)
"""Matches words that stand for a missing value in a state, such as `none` or `not mentioned`."""
_HEADING = re.compile(r"(?:constraints?|request(?:s|ed)?|asked about)\s*:", re.IGNORECASE)


def read_state(text: str, form: AnswerForm) -> str | None:
    """Return a state change in canonical form, `slot: value, slot: value; slot`.

    Slots may be on separate lines, or written as `slot=value`. Returns None if the text isn't a state change.
    If the form lists no slots, any name is accepted. Words such as `yes` or `not mentioned` are not values.
    """
    lines = [unwrapped(BULLET.sub("", line), quotes=True) for line in lines_of(text)]
    text = " ".join(", ".join(lines).replace("*", "").replace("=", ": ").split()).rstrip(".")
    if text == ";" or match_label(text, (NO_CHANGE, "No change")):
        return NO_CHANGE
    known = {re.sub(r"[\s_-]", "", slot.casefold()): slot for slot in form.labels}
    constraints, asked = dict[str, str](), list[str]()
    for part in re.split(r"[,;]\s*", text):
        slot, colon, value = _HEADING.sub("", part).strip().partition(":")
        slot, value = slot.strip(), value.strip(" \"'")
        if not slot or (slot.capitalize() == NO_CHANGE and not colon):
            continue
        name = (
            known.get(re.sub(r"[\s_-]", "", slot.casefold()))
            if form.labels
            else _VALUE.fullmatch(slot) and slot
        )
        if not name or (colon and name in constraints):
            return None
        if not colon:
            asked.append(name)
        elif not _VALUE.fullmatch(value) or NO_VALUE.fullmatch(value) or name == value:
            return None
        else:
            constraints[name] = value
    are_goals = constraints or not form.labels or not {*asked}.isdisjoint(form.constraints or form.labels)
    if not (constraints or asked) or (asked and ";" not in text and are_goals):
        return None  # without a semicolon, a slot may be a constraint whose value is missing
    goals = ", ".join(f"{slot}: {value}" for slot, value in constraints.items())
    return f"{goals};{' ' * bool(asked)}{', '.join(asked)}"
