"""Translation: IWSLT 2016 (TED talks, to and from English) and Multi30k (captions of photographs)."""

from __future__ import annotations

import gzip
import hashlib
import html
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice, zip_longest
from pathlib import Path

from decabench.errors import DataError
from decabench.files import read_errors
from decabench.tasks.example import Example
from decabench.tasks.outputs import Text
from decabench.tasks.readers import github_raw, hub_file, listed_files, open_text, parquet_records
from decabench.tasks.task import Files, RemoteFile, Source, Task
from decabench.tasks.wording import AnswerForm, PromptTemplate, fixed

# IWSLT 2016: translation of TED talks, to and from English. Validation is tst2013 and test is tst2014; for
# Czech, they are tst2012 and tst2013.

_LANGUAGES = {"ar": "Arabic", "cs": "Czech", "de": "German", "en": "English", "fr": "French"}
_SETS = {"validation": "tst2013", "test": "tst2014"}
_CZECH_SETS = {"validation": "tst2012", "test": "tst2013"}  # Czech has no tst2014


@dataclass(frozen=True)
class _Direction:
    """A source and a target language, one of which is English."""

    source: str
    target: str

    @property
    def task(self) -> str:
        return f"iwslt.{self.source}.{self.target}"

    @property
    def question(self) -> str:
        """The question asked about every line."""
        return f"Translate from {_LANGUAGES[self.source]} to {_LANGUAGES[self.target]}"

    @property
    def pair(self) -> tuple[str, str]:
        """The pair (en, other language). Archive names use this order, and each archive contains both directions."""
        return "en", self.source if self.target == "en" else self.target

    @property
    def sets(self) -> dict[str, str]:
        """The name of the evaluation set for each split."""
        return _CZECH_SETS if "cs" in self.pair else _SETS

    @property
    def folder(self) -> str:
        """The name of the archive and of the folder inside it, for example `en-de`."""
        return "-".join(self.pair)

    def names(self, split: str, named: str) -> tuple[str, str]:
        """Return the names of a split's source and target files.

        `named` is the language pair in the names, such as `en-de`.
        """
        stem = f"IWSLT16.TED.{self.sets.get(split)}.{named}"
        form = f"train.tags.{named}.{{}}" if split == "train" else f"{stem}.{{}}.xml"
        return form.format(self.source), form.format(self.target)


_EN_DE = _Direction("en", "de")
_TAGS = ("<url", "<keywords", "<talkid", "<description", "<reviewer", "<translator", "<title", "<speaker")

Line = tuple[str, str, str]
"""A line: (talk, position in the talk, text). A source line and its translation have the same talk and position."""


def _segments(path: Path) -> Iterator[Line]:
    from xml.etree import ElementTree

    talk = ""
    try:
        for event, element in ElementTree.iterparse(path, ("start", "end")):
            if event == "start" and element.tag == "doc":
                talk = element.get("docid", "")
            elif event == "end" and element.tag == "seg":
                place = f"segment {element.get('id', '')}"
                if len(element):
                    raise DataError(
                        f"{path.name}, talk {talk}, {place}: the segment contains tags, but must be plain text."
                    )
                yield talk, place, (element.text or "").strip()
                element.clear()
    except (ElementTree.ParseError, ValueError, LookupError) as error:  # or an unknown encoding
        raise DataError(
            f"{path.name} is not valid XML ({error}). Prepare the task again with --force."
        ) from error


def _tagged_lines(path: Path) -> Iterator[Line]:
    """Yield every line without a metadata tag, as decaNLP does. A `<url` tag starts a new talk."""
    talk = -1
    with open_text(path, newline="\n") as file:
        for number, line in enumerate(file, 1):
            if not any(tag in line for tag in _TAGS):
                yield str(talk), f"line {number}", line.strip()
            elif "<url" in line:
                talk += 1


def _pairs(source_path: Path, target_path: Path, split: str) -> Iterator[tuple[str, str, str]]:
    """Yield (talk, source, target) for each line. Raises DataError if the files are not aligned."""
    lines = _tagged_lines if split == "train" else _segments
    names = f"{source_path.name} and {target_path.name}"
    for source, target in zip_longest(lines(source_path), lines(target_path)):
        if source is None or target is None or source[:2] != target[:2]:
            first, second = (
                f"{line[1]} of talk {line[0]}" if line else "the end of the file" for line in (source, target)
            )
            raise DataError(f"{names} are not aligned: {first} is paired with {second}.")
        yield source[0], source[2], target[2]


def _examples(direction: _Direction, split: str, pairs: Iterable[tuple[str, str, str]]) -> Iterator[Example]:
    # like decaNLP, leave out pairs with an empty side
    complete = (pair for pair in pairs if pair[1] and pair[2])
    for index, (talk, source, target) in enumerate(complete):
        units = (f"{direction.task}.{split}.talk.{talk}",)
        yield Example(f"{direction.task}.{split}.{index}", direction.question, source, (target,), units)


def _read(direction: _Direction, named: str, files: Files, split: str) -> Iterator[Example]:
    source, target = (files.path(name) for name in direction.names(split, named))
    return _examples(direction, split, _pairs(source, target, split))


@dataclass(frozen=True)
class _Slice:
    """The position of an IWSLT 2016 test set within the IWSLT 2017 test set, which combines the sets of 2010–2015."""

    start: int
    english: str
    """The SHA-256 of the English lines, each followed by a newline."""
    german: str
    talks: str
    """The id and number of lines of each talk, as in `1666:63 1617:123`. The hub doesn't name the talks."""


_HUB_FILE = hub_file(
    "IWSLT/iwslt2017", "9ca48082a7aae6d0a9d18efb292c50eacd10d2e8", "iwslt2017-en-de/test/0000.parquet"
)
_SLICES = {
    "validation": _Slice(
        4701,
        "9fc2d5df75a05754427a5dcea1b3cc2456e8613c878527e56713978a13bf672e",
        "60fa902b0bf558ff58cf38de1dc6941de706e9f58e33e92119eb64696df4bbcc",
        "1666:63 1617:123 1592:33 1518:90 1685:100 1548:59 1539:18 1647:80 "
        "1659:51 1694:90 1600:40 1520:56 1553:41 1534:59 1699:63 1634:27",
    ),
    "test": _Slice(
        5694,
        "e82bfa58d4a170573826999a4852c496162a229f405eb488b3d6d385dbabcbaa",
        "66aa2e5c16a1c0e04b6c58e263e448edb6992f639736b57daf5c26733140c928",
        "1741:128 1781:32 1755:60 1852:131 1858:74 1898:122 1835:72 1443:173 "
        "1733:52 1854:59 1829:93 1650:108 1864:88 1477:43 1736:70",
    ),
}


def _read_hub(direction: _Direction, files: Files, split: str) -> Iterator[Example]:
    part = _SLICES[split]
    counts = (talk.split(":") for talk in part.talks.split())
    talks = [talk for talk, lines in counts for _ in range(int(lines))]
    rows = islice(
        parquet_records(files, _HUB_FILE.name, ("translation",)), part.start, part.start + len(talks)
    )
    lines = [
        # The hub's script left XML entities in the text.
        {side: html.unescape(texts.text(side)).strip() for side in ("en", "de")}
        for texts in (replace(row, value=row.field("translation", dict)) for row in rows)
    ]
    for side, language, expected in (("en", "English", part.english), ("de", "German", part.german)):
        found = hashlib.sha256("".join(f"{line[side]}\n" for line in lines).encode()).hexdigest()
        if found != expected:
            raise DataError(
                f"The {language} text of {direction.sets[split]} on the hub has sha256 {found}, not {expected}, "
                "so it is not the text of IWSLT 2016."
            )
    pairs = ((line[direction.source], line[direction.target]) for line in lines)
    return _examples(direction, split, ((talk, *pair) for talk, pair in zip(talks, pairs, strict=True)))


_ALL_PAIRS = RemoteFile(
    "2016-01.tgz",
    (
        "https://drive.usercontent.google.com/download?export=download&confirm=t&id=1l5y6Giag9aRPwGtuZHswh3w5v3qEz8D8",
    ),
    md5="c393ed3fc2a1b0f004b3331043f615ae",
)


def _archives(direction: _Direction) -> tuple[Source, Source]:
    languages, name, splits = "/".join(direction.pair), direction.folder, ("train", *direction.sets)
    own = RemoteFile(f"{name}.tgz", (f"https://wit3.fbk.eu/archive/2016-01//texts/{languages}/{name}.tgz",))
    members = tuple(f"{name}/{file}" for split in splits for file in direction.names(split, name))
    nested = tuple(f"2016-01/texts/{languages}/{name}.tgz!{member}" for member in members)
    read = partial(_read, direction, name)
    return (
        Source("all pairs archive", dict.fromkeys(splits, (_ALL_PAIRS,)), read, nested),
        Source(f"{name} archive", dict.fromkeys(splits, (own,)), read, members),
    )


_SPLIT_FILES = listed_files(
    github_raw("maroxtn/IWSLT-BACKUP", "73a09324ed3cb15d60f489b322ea9df4b431ea43", "iwslt/de-en"),
    """
    train      e1ae5f9ef436a9f4278dae79cca70b0cda1c8d3b - train.tags.de-en.en
    train      e377256e5d7e2aa1d5518051db5bce8ecc568a8f - train.tags.de-en.de
    validation 479fec5ca4c5e8b8fe7932f639909d925987a9fb37db17e425aacf64707c70bb 128_416 IWSLT16.TED.tst2013.de-en.en.xml
    validation 5b74a7292fcb8f71cf6de9bcf9c9a24b87ab2904fd8c4b73c1e81f353f79b407 140_762 IWSLT16.TED.tst2013.de-en.de.xml
    test       bcbbf0904ee6275aa8ba1636ff2211e0621ba7f5c92bf2292b1e27671219cc9e 154_866 IWSLT16.TED.tst2014.de-en.en.xml
    test       e9b233372416169e3b36391b1d9005ba2a28bf51751f406171b59e09a9018f9e 170_743 IWSLT16.TED.tst2014.de-en.de.xml
    """,
)


def _sources(direction: _Direction) -> tuple[Source, ...]:
    """Return the sources of a language pair. English-German data was published in more places than other pairs."""
    if "de" not in direction.pair:
        return _archives(direction)
    single = Source("de-en files", _SPLIT_FILES, partial(_read, direction, "de-en"))
    hub = Source("hub parquet (2017)", dict.fromkeys(_SLICES, (_HUB_FILE,)), partial(_read_hub, direction))
    return (single, hub, *_archives(direction))


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


def _task(direction: _Direction, counts: tuple[int, int, int], notes: str) -> Task:
    source, target, question = _LANGUAGES[direction.source], _LANGUAGES[direction.target], direction.question
    return Task(
        name=direction.task,
        title="Machine translation",
        dataset=f"IWSLT 2016, {source} to {target}",
        output=Text(max_tokens=384),
        metric="bleu",
        counts=dict(zip(("train", "validation", "test"), counts, strict=True)),
        sources=_sources(direction),
        licence="CC BY-NC-ND 3.0 (TED talks): derivatives may not be redistributed",
        citation="Cettolo et al. 2016, The IWSLT 2016 Evaluation Campaign",
        homepage="https://wit3.fbk.eu/",
        languages=(direction.source, direction.target),
        notes=notes,
        unit_names=("talk",),
        prompt=_PROMPT,
        variants=(
            fixed("what-is", question, f"What is the translation from {source} to {target}?"),
            fixed("into", question, f"Translate this {source} sentence into {target}"),
            fixed("how-say", question, f"How would you say this in {target}?"),
        ),
        redistributable=False,
        withhold_texts=True,
        shared_folder=f"iwslt.{'.'.join(direction.pair)}",
    )


IWSLT_EN_DE = _task(
    _EN_DE, (196_884, 993, 1_305), "Validation is tst2013 and test is tst2014, as in decaNLP."
)


def _other(source: str, target: str, counts: tuple[int, int, int]) -> Task:
    direction = _Direction(source, target)
    sets = " and ".join(f"{split} is {name}" for split, name in direction.sets.items())
    notes = (
        f"{sets.capitalize()}. The files come from the archive {direction.folder}.tgz, which contains "
        "both directions."
    )
    return replace(_task(direction, counts, notes), secondary=("nf1", "chrf2", "chrf_plus_plus", "ter"))


IWSLT_OTHERS = {
    task.name: task
    for task in (
        _other("de", "en", (196_884, 993, 1_305)),
        _other("en", "fr", (220_400, 1_026, 1_305)),
        _other("fr", "en", (220_400, 1_026, 1_305)),
        _other("en", "ar", (224_126, 1_169, 1_107)),
        _other("ar", "en", (224_126, 1_169, 1_107)),
        _other("en", "cs", (114_390, 1_385, 1_327)),
        _other("cs", "en", (114_390, 1_385, 1_327)),
    )
}
"""Tasks of the campaign's other directions, by name, for zero-shot tests of models trained on English to German."""


# Multi30k: English captions of photographs and their German translations. All of its data can be downloaded.

_MULTI30K_PARTS = {"train": "train", "validation": "val", "test": "test_2016_flickr"}
_MULTI30K_REPOSITORY = ("multi30k/dataset", "c9be912dc05a3ebf9ae5bb5f7f58c1791cda43ab")


def _multi30k_files(split: str) -> tuple[RemoteFile, RemoteFile]:
    english, german = (
        RemoteFile(name, (github_raw(*_MULTI30K_REPOSITORY, f"data/task1/raw/{name}"),))
        for name in (f"{_MULTI30K_PARTS[split]}.{language}.gz" for language in ("en", "de"))
    )
    return english, german


def _gzip_lines(path: Path) -> Iterator[str]:
    try:
        with read_errors(path), gzip.open(path, "rt", encoding="utf-8", newline="\n") as file:
            for line in file:
                yield line.strip()
    except (OSError, EOFError, zlib.error, UnicodeDecodeError) as error:
        raise DataError(f"{path.name} is damaged ({error}). Prepare the task again with --force.") from error


def _read_multi30k(files: Files, split: str) -> Iterator[Example]:
    names = [file.name for file in _multi30k_files(split)]
    sides = zip_longest(*(_gzip_lines(files.path(name)) for name in names))
    for index, (english, german) in enumerate(sides):
        if not english or not german:
            raise DataError(f"Line {index + 1} must contain text in both {' and '.join(names)}.")
        id = f"multi30k.en.de.{split}.{index}"
        yield Example(id, _EN_DE.question, english, (german,), (id,))


MULTI30K_EN_DE = Task(
    name="multi30k.en.de",
    title="Machine translation",
    dataset="Multi30k, English to German",
    output=Text(max_tokens=96),
    metric="bleu",
    secondary=("nf1", "chrf2", "chrf_plus_plus", "ter"),
    counts={"train": 29_000, "validation": 1_014, "test": 1_000},
    sources=(
        Source(
            "gzip files",
            {split: _multi30k_files(split) for split in _MULTI30K_PARTS},
            _read_multi30k,
        ),
    ),
    licence="Not stated (captions from Flickr30k); for research",
    citation="Elliott et al. 2016, Multi30K: Multilingual English-German Image Descriptions",
    homepage="https://github.com/multi30k/dataset",
    languages=("en", "de"),
    notes="The test set is test_2016_flickr.",
    unit_names=("photograph",),
    prompt=PromptTemplate(
        instruction=(
            "You are given a caption of a photograph. Give only its translation, on one line, without notes or "
            "quotation marks of your own."
        ),
        input="{question}\n\nCaption: {context}",
        answer="Translation:",
        stop=("\n\n", "\nCaption:"),
        form=AnswerForm("line"),
    ),
    variants=IWSLT_EN_DE.variants,
    withhold_texts=True,
    shared_folder="multi30k",
)
