"""Detect and decode answers that were mistakenly saved in another format, such as subwords, HTML or JSON."""

from __future__ import annotations

import html
import re
import unicodedata
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

from decabench.prompts.markup import find_json


class Format(NamedTuple):
    """A format in which answers may be written."""

    phrase: str
    """A phrase that describes answers in this format, such as `are JSON`."""
    advice: str
    """Advice on how to avoid the format."""
    decode: Callable[[str], str]
    """Decodes a string, or removes the format's markup. Strings in any other format are returned unchanged."""
    is_style: bool = False
    """Whether the format may be intentional. Then it is a mistake only if decoding the answers raises the score."""
    looks: Callable[[str], bool] | None = None
    """Returns whether a string is in the format. If None, a string is in the format if `decode` changes it."""

    def is_seen(self, text: str) -> bool:
        """Return whether a string is in this format."""
        return self.decode(text) != text if self.looks is None else self.looks(text)


# Wrappers around an answer

_KEYS = (
    "answer answers label text prediction prediction_text output response result summary translation "
    "translation_text summary_text generated_text content sql query"
).split()
_STRING = r"'((?:[^'\\]|\\.)*)'|\"((?:[^\"\\]|\\.)*)\""
_QUOTES = {'"': '"', "'": "'", "\u201c": "\u201d", "\u2018": "\u2019", "\u201e": "\u201c", "«": "»", "`": "`"}


def _in_fence(text: str) -> str:
    found = re.fullmatch(r"\s*(```|~~~)[ \t]*\w*[ \t]*\n?(.*?)\s*(?:\1\s*)?", text, re.DOTALL)
    return found[2] if found else text


def _from_json(text: str) -> str:
    line = text.strip()
    if re.fullmatch(r"b(['\"]).+\1", line):
        return _unescaped(line[2:-1])
    if line[:1] + line[-1:] in ("{}", "[]") and (value := find_json(line)) is not None:
        return _text_of(value)
    is_value = re.fullmatch(r"\{.*\}|\[.*\]|(?:[A-Za-z_][\w.]*)?\(.*\)", line, re.DOTALL)
    if is_value and (found := re.search(_STRING, line)):
        return found[1] or found[2] or ""
    return text


def _text_of(value: Any) -> str:
    match value:
        case dict():
            texts = [key for key in value if isinstance(value[key], str)]
            return _text_of(value.get(next((key for key in (*_KEYS, *texts) if key in value), "")))
        case [dict() as first, *_]:
            return _text_of(first)
        case list():
            return " ".join(filter(None, map(_text_of, value)))
        case bool() | None:
            return ""
        case _:
            return str(value)


def _without_markdown(text: str) -> str:
    text = re.sub(r"^\s*(?:#{1,6}|>|[-*+•]|\d{1,3}[.)])\s+", "", text, flags=re.MULTILINE)
    return re.sub(r"(?<!\w)(\*\*|__|\*|`)(?=\S)(.+?)(?<=\S)\1(?!\w)", r"\2", text)


def _without_quotes(text: str) -> str:
    line = text.strip()
    inside = line[1:-1].replace('""', "\0")  # doubled quotation marks, as in CSV
    is_quoted = len(line) > 1 and _QUOTES.get(line[0]) == line[-1] and line[0] not in inside
    return inside.replace("\0", '"') if is_quoted else text


def _without_remark(text: str) -> str:
    return re.sub(r"(?<=\S)\s*(?:\([^()]*\)|\[[^\[\]]*\])\W*\Z", "", text)


def _first_of_several(text: str) -> str:
    answers = re.split(r"[\n\t]|\s(?:/|\|+)\s|;\s|\sor\s", text.strip())
    return answers[0].strip() or text


def _as_wikisql(text: str) -> str:
    if not (query := re.search(r"(?:\A|[:\n])\s*(select\b.*)", text, re.IGNORECASE | re.DOTALL)):
        return text
    text = query[1]
    text = re.sub(r"(?i)\b(max|min|count|sum|avg)\s*\(\s*(.*?)\s*\)", r"\1 \2", text, count=1)
    text = re.sub(r"(?i)(?<=from )[\"'`\[]?(?!table\b)[\w.-]+[\"'`\]]?", "table", text, count=1)
    if alias := re.search(r"(?i)(?<=from table)\s+(?:as\s+)?(?!where\b)(\w+)(?=\s+where\b|[\s;]*\Z)", text):
        text = text.replace(alias.group(), "", 1).replace(f"{alias[1]}.", "")
    text = re.sub(r"(?is)\A(?!.*\bfrom\b)(.*?)(?=\s+where\b)", r"\1 FROM table", text)
    text = re.sub(r"([\"'`])([^\"'`]*)\1|\[([^\]]*)\]", lambda found: found[2] or found[3] or "", text)
    text = re.sub(r"\s*(==?|[<>])\s*(?=\S)", lambda found: f" {found[1][0]} ", text)
    text = re.sub(r"(?<=\w)_(?=\w)", " ", text)
    return " ".join(text.rstrip("; \n").split())


# Tokens and pieces of words


def _without_tokens(text: str) -> str:
    pattern = (
        r"(?i)</?[A-Za-z][\w:-]*\s*/?>|<(?:\||\uff5c)[^<>\n]{1,40}?(?:\||\uff5c)>|<</?SYS>>|\b__eo[ust]__\b"
        r"|\[/?(?:CLS|SEP|PAD|MASK|UNK|BOS|EOS|INST|SYS|END|START|STOP)\]"
    )
    removed = re.sub(pattern, " ", text)
    return text if removed == text else " ".join(removed.split())


def _by_word(decode: Callable[[str], str], text: str) -> str:
    return "".join(part if part.isascii() else decode(part) for part in re.split(r"([ \t\r\n]+)", text))


# Escapes, encodings and Unicode


def _unescaped(text: str) -> str:
    def char(found: re.Match[str]) -> str:
        wide, octal, short = found[1] or found[2], found[3], found[4]
        if short:
            return {"n": "\n", "r": "\r", "t": "\t"}.get(short, short)
        code = int(octal, 8) if octal else int(wide.strip("{}"), 16)
        return chr(code) if code < 0x110000 else found[0]

    wide = r"u([0-9a-fA-F]{4}|\{[0-9a-fA-F]{1,6}\})|(?:U000|x)([0-9a-fA-F]{5}|[0-9a-fA-F]{2})"
    plain = re.sub(rf"\\(?:{wide}|([0-3][0-7]{{2}})|([nrt\"'/\\]))", char, text)
    if plain == text:
        return text
    return _reread(plain.encode("utf-16", "surrogatepass").decode("utf-16", "replace").strip())


def _without_entities(text: str) -> str:
    pattern = r"&(?:#\d{1,7}|#[xX][0-9a-fA-F]{1,6}|[A-Za-z][A-Za-z0-9]{1,30});"
    for _ in range(3):  # entities may be escaped repeatedly, as in `&amp;quot;`
        text = re.sub(pattern, lambda found: html.unescape(found[0]), text)
    return text


def _reread(text: str) -> str:
    """Repair UTF-8 text that was decoded with the wrong encoding, even if this happened twice."""
    return _by_word(_reread_word, _by_word(_reread_word, text))


def _reread_word(word: str) -> str:
    if not re.search("[^\x00-\x7f]{2}", word):  # decoded wrongly, a character becomes at least two characters
        return word
    for encoding in ("cp1252", "latin-1", "mac_roman", "cp437", "cp850", "cp1250", "cp1251"):
        try:
            # Decoders of cp1252 leave undefined bytes unchanged.
            raw = [char.encode(encoding if not "\x80" <= char <= "\x9f" else "latin-1") for char in word]
            return b"".join(raw).decode()
        except UnicodeError:
            continue
    return word


def _visible(text: str) -> str:
    hidden = "[\u00ad\u034f\u061c\u180e\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufeff]|\x1b\\[[0-9;]*[A-Za-z]"
    spaces = "[\u00a0\u2000-\u200a\u202f\u205f\u3000\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]"
    return re.sub(spaces, " ", re.sub(hidden, "", text))


_BRACKETS = dict(zip(("lrb", "rrb", "lsb", "rsb", "lcb", "rcb"), "()[]{}", strict=True))
_MARKS = str.maketrans("\u201c\u201d\u201e\u00ab\u00bb\u2018\u2019\u201a\u2013\u2014", '"""""\'\'\'--')


def _plain_marks(text: str) -> str:
    text = re.sub(r"(?i)-([lr][rsc]b)-", lambda found: _BRACKETS[found[1].lower()], text)
    return text.replace("``", '"').replace("''", '"').translate(_MARKS)


def _without_accents(text: str) -> str:
    letters = unicodedata.normalize("NFKD", text.replace("ß", "ss"))
    return "".join(letter for letter in letters if not unicodedata.combining(letter))


_UMLAUTS = str.maketrans({"ä": "ae", "ö": "oe", "ü": "ue", "Ä": "Ae", "Ö": "Oe", "Ü": "Ue", "ß": "ss"})
_ASCII: tuple[Callable[[str], str], ...] = (
    lambda text: text.translate(_UMLAUTS),
    _without_accents,
    lambda text: text.encode("ascii", "replace").decode(),
    lambda text: text.encode("ascii", "ignore").decode(),
)


def _from_pieces(text: str) -> str:
    for space, pattern in (("\u2581", "\u2581"), ("\u0120", r" \u0120|[a-z\d]\u0120"), ("</w>", "</w>")):
        if re.search(pattern, text):
            return "".join(text.split()).replace(space, " ").strip()
    return re.sub(r"@@(?:\s+|$)|\s+(?:@@|##)(?=\S)", "", text)


_TOKENIZED = re.compile(
    r"\s+([-/':])\s+|\s+([,.;:!?%)\]])|([(\[])\s+|\s+(?='(?:s|re|ve|ll|d|m)\b|n't\b)", re.IGNORECASE
)


def _detokenized(text: str) -> str:
    return _TOKENIZED.sub(lambda found: found[1] or found[2] or found[3] or "", text)


_DECODE = "Decode the answers with the model's tokenizer"
_ALONE = "Write only the text"
_AS_IS = "Write the characters themselves"

FORMATS: tuple[Format, ...] = (
    Format("are in code fences", _ALONE, _in_fence),
    Format("are JSON or Python values", "Write only the text in the value", _from_json),
    Format("are SQL for a database", "Write queries in the form of the gold answers", _as_wikisql),
    Format("contain Markdown", "Write plain text", _without_markdown),
    Format("are in quotation marks", _ALONE, _without_quotes),
    Format("are pieces of words", _DECODE, _from_pieces),
    Format(
        "contain special tokens or tags",
        "Remove the tokens or tags when you decode the answers",
        _without_tokens,
    ),
    Format("contain backslash escapes", _AS_IS, _unescaped),
    Format("contain HTML entities", _AS_IS, _without_entities),
    Format("contain UTF-8 decoded with the wrong encoding", "Read the file as UTF-8", _reread),
    Format("contain invisible characters or unusual spaces", "Remove these characters", _visible),
    Format(
        "are decomposed Unicode (NFD)", "Normalize the answers to NFC", partial(unicodedata.normalize, "NFC")
    ),
    *(Format("contain accents", _AS_IS, decode, True, lambda text: not text.isascii()) for decode in _ASCII),
    Format("contain -LRB- or typographic quotation marks or dashes", "Write plain marks", _plain_marks, True),
    Format("are numbers that end in .0", "Read the answers as text", partial(re.sub, r"(?<=\d)\.0\Z", "")),
    Format("end with a remark in brackets", "Write only the answer", _without_remark, True),
    Format("give several answers", "Write only one answer", _first_of_several, True),
    Format(
        "are in lower case", "Keep the original case", str.casefold, True, lambda text: text[1:].islower()
    ),
    Format("are in capital letters", "Keep the original case", str.casefold, True, str.isupper),
    Format(
        "are tokenized", "Join the tokens", _detokenized, True, lambda text: bool(_TOKENIZED.search(text))
    ),
    Format("contain punctuation marks", "Remove the punctuation", partial(re.sub, r"[^\w\s]", ""), True),
)
"""All formats, in the order in which they are decoded. Formats that may be intended come after most others."""
