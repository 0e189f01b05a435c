"""IWSLT 2016 English to German: translation of TED talks. tst2013 validates, tst2014 tests."""

from __future__ import annotations

import hashlib
import html
from collections.abc import Iterator
from itertools import islice, zip_longest
from pathlib import Path
from xml.etree import ElementTree

from decabench.errors import DataError
from decabench.tasks.example import Example
from decabench.tasks.outputs import Text
from decabench.tasks.readers import Record, github_raw, hub_file, open_text, parquet_records
from decabench.tasks.task import Files, Hub, RemoteFile, Source, Task
from decabench.tasks.wording import AnswerForm, PromptTemplate, fixed

__all__ = ["IWSLT_EN_DE"]

_QUESTION = "Translate from English to German"
_SETS = {"validation": "tst2013", "test": "tst2014"}
_BACKUP = ("maroxtn/IWSLT-BACKUP", "73a09324ed3cb15d60f489b322ea9df4b431ea43")
_HUB = Hub("IWSLT/iwslt2017", "9ca48082a7aae6d0a9d18efb292c50eacd10d2e8")
_HUB_FILES = {"validation": "iwslt2017-en-de/test/0000.parquet", "test": "iwslt2017-en-de/test/0000.parquet"}
_OUTER, _INNER, _NESTED = "2016-01.tgz", "en-de.tgz", "2016-01/texts/en/de/en-de.tgz"

_TAGS = ("<url", "<keywords", "<talkid", "<description", "<reviewer", "<translator", "<title", "<speaker")

Pair = tuple[str, str, str]
"""(talk, English, German)"""


Line = tuple[str, str, str]
"""(talk, place in it, text); talk and place must be the same on both sides"""


def _segments(path: Path) -> Iterator[Line]:
    """Yield every `<seg>` of an evaluation set."""
    talk = ""
    try:
        for event, element in ElementTree.iterparse(path, ("start", "end")):
            if event == "start" and element.tag == "doc":
                talk = element.get("docid", "")
            elif event == "end" and element.tag == "seg":
                place = f"segment {element.get('id', '')}"
                if len(element):
                    raise DataError(f"{path.name}, talk {talk}, {place}: it must be text without tags.")
                yield talk, place, (element.text or "").strip()
                element.clear()
    except (ElementTree.ParseError, ValueError, LookupError) as error:  # or of an unknown encoding
        raise DataError(f"{path.name} is not valid XML ({error}): prepare again with --force.") from error


def _tagged_lines(path: Path) -> Iterator[Line]:
    """Yield every line without a tag anywhere in it, as decaNLP does; a `<url` opens a talk."""
    talk = -1
    with open_text(path, newline="\n") as file:
        for number, line in enumerate(file, 1):
            if not any(tag in line for tag in _TAGS):
                yield str(talk), f"line {number}", line.strip()
            elif "<url" in line:
                talk += 1


def _pairs(english: Path, german: Path, split: str) -> Iterator[Pair]:
    lines = _tagged_lines if split == "train" else _segments
    names = f"{english.name} and {german.name}"
    for source, target in zip_longest(lines(english), lines(german)):
        if source is None or target is None:
            talk, place, _ = source or target
            raise DataError(f"{names} have different numbers of lines: talk {talk}, {place}, is in only one.")
        if source[:2] != target[:2]:
            raise DataError(
                f"{names} are not aligned: talk {source[0]}, {source[1]}, of one stands beside talk {target[0]}, "
                f"{target[1]}, of the other."
            )
        yield source[0], source[2], target[2]


def _examples(pairs: Iterator[Pair], split: str) -> Iterator[Example]:
    index = 0
    for talk, source, target in pairs:
        if source and target:  # decaNLP leaves out lines that are empty on one side
            units = (f"iwslt.en.de.{split}.talk.{talk}",)
            yield Example(f"iwslt.en.de.{split}.{index}", _QUESTION, source, (target,), units)
            index += 1


def _read_sides(english: Path, german: Path, split: str) -> Iterator[Example]:
    return _examples(_pairs(english, german, split), split)


def _names(split: str, direction: str) -> tuple[str, str]:
    """Return the file names of the English and the German side."""
    if split == "train":
        return f"train.tags.{direction}.en", f"train.tags.{direction}.de"
    stem = f"IWSLT16.TED.{_SETS[split]}.{direction}"
    return f"{stem}.en.xml", f"{stem}.de.xml"


def _read_files(files: Files, split: str) -> Iterator[Example]:
    english, german = _names(split, "de-en")
    return _read_sides(files.path(english), files.path(german), split)


def _read_archive(files: Files, split: str) -> Iterator[Example]:
    english, german = (files.member(_INNER, f"en-de/{name}") for name in _names(split, "en-de"))
    return _read_sides(english, german, split)


def _read_nested(files: Files, split: str) -> Iterator[Example]:
    sides = (files.member(_OUTER, f"{_NESTED}!en-de/{name}") for name in _names(split, "en-de"))
    english, german = sides
    return _read_sides(english, german, split)


# IWSLT 2017 publishes tst2010 to tst2015 as one test set. These are its rows of 2013 and 2014, the digests that their
# English and German text (one line each, newline-ended) must have, and the talks of that text with their lines.
_SLICES = {"validation": (4701, 5694), "test": (5694, 6999)}
_DIGESTS = {
    "validation": (
        "9fc2d5df75a05754427a5dcea1b3cc2456e8613c878527e56713978a13bf672e",
        "60fa902b0bf558ff58cf38de1dc6941de706e9f58e33e92119eb64696df4bbcc",
    ),
    "test": (
        "e82bfa58d4a170573826999a4852c496162a229f405eb488b3d6d385dbabcbaa",
        "66aa2e5c16a1c0e04b6c58e263e448edb6992f639736b57daf5c26733140c928",
    ),
}
_TALKS = {
    "validation": (
        *((1666, 63), (1617, 123), (1592, 33), (1518, 90), (1685, 100), (1548, 59), (1539, 18), (1647, 80)),
        *((1659, 51), (1694, 90), (1600, 40), (1520, 56), (1553, 41), (1534, 59), (1699, 63), (1634, 27)),
    ),
    "test": (
        *((1741, 128), (1781, 32), (1755, 60), (1852, 131), (1858, 74), (1898, 122), (1835, 72), (1443, 173)),
        *((1733, 52), (1854, 59), (1829, 93), (1650, 108), (1864, 88), (1477, 43), (1736, 70)),
    ),
}


def _unescaped(row: Record, side: str) -> str:
    return html.unescape(row.record("translation").text(side)).strip()


def _read_hub(files: Files, split: str) -> Iterator[Example]:
    rows = islice(parquet_records(files, _HUB_FILES[split], ("translation",)), *_SLICES[split])
    # The hub's script left XML entities in the text.
    sides = [(_unescaped(row, "en"), _unescaped(row, "de")) for row in rows]
    for column, language in enumerate(("English", "German")):
        found = hashlib.sha256("".join(f"{pair[column]}\n" for pair in sides).encode()).hexdigest()
        if found != (expected := _DIGESTS[split][column]):
            raise DataError(
                f"The {language} text of {_SETS[split]} on the hub has sha256 {found}, not {expected}: "
                "it is not the text of IWSLT 2016."
            )
    talks = (str(talk) for talk, lines in _TALKS[split] for _ in range(lines))  # the hub does not name them
    return _examples(((talk, *pair) for talk, pair in zip(talks, sides, strict=True)), split)


def _remote(
    name: str, sha256: str | None = None, size: int | None = None, blob: str | None = None
) -> RemoteFile:
    return RemoteFile(name, (github_raw(*_BACKUP, f"iwslt/de-en/{name}"),), sha256, size, git_blob=blob)


_WIT3 = RemoteFile(_INNER, ("https://wit3.fbk.eu/archive/2016-01//texts/en/de/en-de.tgz",))
_ALL_PAIRS = RemoteFile(
    _OUTER,
    ("https://drive.google.com/uc?export=download&id=1l5y6Giag9aRPwGtuZHswh3w5v3qEz8D8",),
    md5="c393ed3fc2a1b0f004b3331043f615ae",
)
_EVERY_NAME = tuple(f"en-de/{name}" for split in ("train", *_SETS) for name in _names(split, "en-de"))

_PROMPT = PromptTemplate(
    instruction=(
        "You are given a sentence of a talk. Give only its translation, on one line, without notes or quotation "
        "marks of your own."
    ),
    input="{question}\n\nSentence: {context}",
    answer="Translation:",
    stop=("\n\n", "\nSentence:"),
    form=AnswerForm("line"),
)

_VARIANTS = (
    fixed("what-is", _QUESTION, "What is the translation from English to German?"),
    fixed("into", _QUESTION, "Translate this English sentence into German"),
    fixed("how-say", _QUESTION, "How would you say this in German?"),
)

IWSLT_EN_DE = Task(
    name="iwslt.en.de",
    title="Machine translation",
    dataset="IWSLT 2016, English to German",
    output=Text(max_tokens=384),
    metric="bleu",
    counts={"train": 196_884, "validation": 993, "test": 1_305},
    sources=(
        Source(
            "de-en files",
            {
                "train": (
                    _remote("train.tags.de-en.en", blob="e1ae5f9ef436a9f4278dae79cca70b0cda1c8d3b"),
                    _remote("train.tags.de-en.de", blob="e377256e5d7e2aa1d5518051db5bce8ecc568a8f"),
                ),
                "validation": (
                    _remote(
                        "IWSLT16.TED.tst2013.de-en.en.xml",
                        "479fec5ca4c5e8b8fe7932f639909d925987a9fb37db17e425aacf64707c70bb",
                        128_416,
                    ),
                    _remote(
                        "IWSLT16.TED.tst2013.de-en.de.xml",
                        "5b74a7292fcb8f71cf6de9bcf9c9a24b87ab2904fd8c4b73c1e81f353f79b407",
                        140_762,
                    ),
                ),
                "test": (
                    _remote(
                        "IWSLT16.TED.tst2014.de-en.en.xml",
                        "bcbbf0904ee6275aa8ba1636ff2211e0621ba7f5c92bf2292b1e27671219cc9e",
                        154_866,
                    ),
                    _remote(
                        "IWSLT16.TED.tst2014.de-en.de.xml",
                        "e9b233372416169e3b36391b1d9005ba2a28bf51751f406171b59e09a9018f9e",
                        170_743,
                    ),
                ),
            },
            _read_files,
        ),
        Source(
            "all pairs archive",
            dict.fromkeys(("train", *_SETS), (_ALL_PAIRS,)),
            _read_nested,
            members=tuple(f"{_NESTED}!{name}" for name in _EVERY_NAME),
        ),
        Source(
            "en-de archive", dict.fromkeys(("train", *_SETS), (_WIT3,)), _read_archive, members=_EVERY_NAME
        ),
        Source(
            "hub parquet (2017)",
            {split: (hub_file(_HUB, name),) for split, name in _HUB_FILES.items()},
            _read_hub,
            hub=_HUB,
        ),
    ),
    licence="CC BY-NC-ND 3.0 (TED talks): no derivatives may be passed on",
    citation="Cettolo et al. 2016, The IWSLT 2016 Evaluation Campaign",
    homepage="https://wit3.fbk.eu/",
    notes="Validation is tst2013, test is tst2014, as in decaNLP.",
    unit_names=("talk",),
    prompt=_PROMPT,
    variants=_VARIANTS,
    redistributable=False,
    withhold_texts=True,
)
