"""How texts in other formats are decoded. The expected texts are those that the formats' own encoders were given."""

from __future__ import annotations

import html
import json
import unicodedata

import pytest

from decabench.prompts.encodings import FORMATS

TEXT = "Der Müller sagt: „Grüße“ – für 5 € bei Müller & Söhne, naïve 'Ära'."


def pieces(text: str, between: str, first: str = "", last: str = "") -> str:
    words = ([word[at : at + 3] for at in range(0, len(word), 3)] for word in text.split())
    return " ".join(first + between.join(word) + last for word in words)


CASES = {
    "SentencePiece": ("are pieces of words", pieces(TEXT, " ", "\u2581")),
    "SentencePiece without spaces": ("are pieces of words", "\u2581" + TEXT.replace(" ", "\u2581")),
    "WordPiece": ("are pieces of words", pieces(TEXT, " ##")),
    "subword-nmt": ("are pieces of words", pieces(TEXT, "@@ ")),
    "ends of words": ("are pieces of words", pieces(TEXT, " ", last="</w>")),
    "tokens": ("contain special tokens", f"<s> {TEXT} </s> <pad> <pad>"),
    "a turn": ("contain special tokens", f"<|im_start|> {TEXT}<|im_end|>"),
    "DeepSeek": ("contain special tokens", f"{TEXT}<\uff5cend\u2581of\u2581sentence\uff5c>"),
    "XML": ("contain special tokens", f"<answer>{TEXT}</answer>"),
    "entities": ("contain HTML", html.escape(TEXT)),
    "entities twice": ("contain HTML", html.escape(html.escape(TEXT))),
    "numbers of characters": ("contain HTML", TEXT.encode("ascii", "xmlcharrefreplace").decode()),
    "names of characters": ("contain HTML", TEXT.replace("ü", "&uuml;").replace("ß", "&szlig;")),
    "JSON's escapes": ("contain backslash", json.dumps(TEXT)[1:-1]),
    "Python's escapes": ("contain backslash", TEXT.encode("unicode_escape").decode()),
    "Latin-1": ("contain UTF-8 decoded", TEXT.encode().decode("latin-1")),
    "Windows": ("contain UTF-8 decoded", TEXT.replace("Ä", "A").encode().decode("cp1252", "strict")),
    "twice": ("contain UTF-8 decoded", TEXT.encode().decode("latin-1").encode().decode("latin-1")),
    "an old Mac": ("contain UTF-8 decoded", TEXT.encode().decode("mac_roman")),
    "DOS": ("contain UTF-8 decoded", TEXT.encode().decode("cp437")),
    "invisible": ("contain invisible", "\ufeff" + TEXT.replace("ü", "\u200bü\u00ad")),
    "other spaces": ("contain invisible", TEXT.replace(" ", "\u00a0")),
    "a terminal": ("contain invisible", f"\x1b[32m{TEXT}\x1b[0m"),
    "NFD": ("are decomposed", unicodedata.normalize("NFD", TEXT)),
    "JSON": ("are JSON", json.dumps({"answer": TEXT})),
    "JSON with more": ("are JSON", json.dumps({"id": "x", "answer": TEXT, "score": 0.5}, ensure_ascii=False)),
    "a list": ("are JSON", json.dumps([TEXT])),
    "tokens in a list": ("are JSON", repr(TEXT.replace("'", "").split())),
    "bytes": ("are JSON", repr(TEXT.encode())),
    "a tuple": ("are JSON", repr((TEXT.replace("'", ""), 0.9))),
    "an object": ("are JSON", f"Answer(text={TEXT.replace(chr(39), '')!r}, score=0.5)"),
    "a fence": ("are in code", f"```text\n{TEXT}\n```"),
    "bold": ("contain Markdown", f"**{TEXT}**"),
    "a list of one": ("contain Markdown", f"1. {TEXT}"),
    "quotes": ("are in quotation", f'"{TEXT}"'),
    "CSV": ("are in quotation", '"' + TEXT.replace("„", '""').replace("“", '""') + '"'),
    "several lines": ("give several", f"{TEXT}\nQuestion: And then?"),
}


def test_pieces_of_gpt2_are_joined() -> None:
    (format,) = [format for format in FORMATS if format.phrase == "are pieces of words"]
    assert format.decode("A \u0120man \u0120w on .") == "A man won."


@pytest.mark.parametrize("case", CASES)
def test_what_an_encoder_wrote_is_decoded(case: str) -> None:
    phrase, written = CASES[case]
    (format,) = [format for format in FORMATS if format.phrase.startswith(phrase)]
    wanted = TEXT.replace("Ä", "A") if case == "Windows" else TEXT
    decoded = format.decode(written)
    marks = str.maketrans({"'": "", "„": "", "“": "", '"': ""})
    assert decoded.translate(marks) == wanted.translate(marks)
    assert format.is_seen(written) and not format.is_seen(decoded)


@pytest.mark.parametrize(
    "text",
    [
        "positive",
        "AT&T",
        "50% of 20",
        "a < b > c",
        "[citation needed]",
        "1990 (UTC)",
        "5 * 3 * 2",
        '"Hello" and "bye"',
        "Ġgantija",
        "naïve “café”",
        "What? No",
        "SELECT Name FROM table WHERE Age > 5 AND Sex = m",
    ],
)
def test_plain_texts_are_left_alone(text: str) -> None:
    hard = [format for format in FORMATS if not format.is_style]
    changed = [format.phrase for format in hard if format.is_seen(text)]
    assert changed == []


@pytest.mark.parametrize(
    ("query", "plain"),
    [
        ('SELECT "Name" FROM "table" WHERE "Age" = \'5\';', "SELECT Name FROM table WHERE Age = 5"),
        ("SELECT COUNT(`Name`) FROM table_1_123 WHERE `Age`>5", "SELECT COUNT Name FROM table WHERE Age > 5"),
        ("select [Name] from players", "select Name from table"),
        ("select Name from table where Age = 5", "select Name from table where Age = 5"),
        ("SELECT t1.Name FROM players AS t1 WHERE t1.Age = 5", "SELECT Name FROM table WHERE Age = 5"),
        ("Name", "Name"),
    ],
)
def test_sql_for_a_database(query: str, plain: str) -> None:
    (format,) = [format for format in FORMATS if format.phrase == "are SQL for a database"]
    assert format.decode(query) == plain
