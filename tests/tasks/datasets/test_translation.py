from __future__ import annotations

import gzip
import hashlib
import html
from dataclasses import replace

import pytest

from decabench.errors import DataError
from decabench.tasks.datasets import translation
from decabench.tasks.datasets.translation import IWSLT_EN_DE, IWSLT_OTHERS, MULTI30K_EN_DE
from decabench.tasks.example import Example
from decabench.tasks.sources.published import SourceFiles
from tests.tasks.conftest import Prepared
from tests.tasks.fixtures import FolderFiles, read_form, tar_bytes, write_lines, write_parquet

# IWSLT 2016: tags and xml, sides line by line, the slices of the hub's other form.

QUESTION = "Translate from English to German"
HEAD = [
    "<url>http://ted.com/{talk}</url>",
    "<keywords>talks, art</keywords>",
    "<speaker>Bo Ek</speaker>",
    "<talkid>{talk}</talkid>",
    "<title>Bo Ek: < 5 & more</title>",
    "<description>TED Talk: a < b</description>",
    '<translator href="http://ted.com/t">Liv</translator>',
    '<reviewer href="http://ted.com/r">Per</reviewer>',
]


def tags(*talks: list[str]) -> list[str]:
    return [
        line
        for number, lines in enumerate(talks)
        for line in (*(tag.format(talk=number + 10) for tag in HEAD), *lines)
    ]


def xml(*talks: list[str]) -> list[str]:
    lines = ['<?xml version="1.0" encoding="UTF-8"?>', "<mteval>", '<refset setid="x" trglang="de">']
    for number, segments in enumerate(talks):
        lines += [
            f'<doc docid="{number + 10}" genre="lectures">',
            "<title>Bo Ek</title>",
            "<url>http://x</url>",
        ]
        lines += [f'<seg id="{index}"> {text} </seg>' for index, text in enumerate(segments, 1)]
        lines += ["</doc>"]
    return [*lines, "</refset>", "</mteval>"]


def read_train(files: FolderFiles, english: list[str], german: list[str]) -> list[Example]:
    write_lines(files.folder / "train.tags.de-en.en", english)
    write_lines(files.folder / "train.tags.de-en.de", german)
    return read_form(IWSLT_EN_DE, "de-en files", "train", files)


def read_xml(files: FolderFiles, english: list[str], german: list[str]) -> list[Example]:
    write_lines(files.folder / "IWSLT16.TED.tst2013.de-en.en.xml", english)
    write_lines(files.folder / "IWSLT16.TED.tst2013.de-en.de.xml", german)
    return read_form(IWSLT_EN_DE, "de-en files", "validation", files)


def expected(split: str, *rows: tuple[str, str, str]) -> list[Example]:
    return [
        Example(
            f"iwslt.en.de.{split}.{index}",
            QUESTION,
            english,
            (german,),
            (f"iwslt.en.de.{split}.talk.{talk}",),
        )
        for index, (talk, english, german) in enumerate(rows)
    ]


def test_an_empty_segment_is_left_out(files: FolderFiles) -> None:
    examples = read_xml(files, xml(["", "Two"]), xml(["Eins", "Zwei"]))
    assert examples == expected("validation", ("10", "Two", "Zwei"))


@pytest.mark.parametrize(
    ("english", "german"),
    [(["One"], ["Eins", "Zwei"]), (["One", "Two"], ["Eins"])],
    ids=["german", "english"],
)
def test_sides_of_unequal_length(files: FolderFiles, english: list[str], german: list[str]) -> None:
    for read, form in ((read_train, tags), (read_xml, xml)):
        with pytest.raises(DataError, match=r"are not aligned: .*the end of the file"):
            read(files, form(english), form(german))


def test_cut_xml_is_one_sentence(files: FolderFiles) -> None:
    with pytest.raises(DataError, match=r"IWSLT16\.TED\.tst2013\.de-en\.de\.xml is not valid XML"):
        read_xml(files, xml(["One", "Two"]), xml(["Eins", "Zwei"])[:-3])


def test_archives_are_like_files(files: FolderFiles) -> None:
    english, german = xml(["One", "Two"]), xml(["Eins", "Zwei"])
    plain = read_xml(files, english, german)
    members = {
        f"en-de/IWSLT16.TED.tst2013.en-de.{side}.xml": "\n".join(lines).encode()
        for side, lines in (("en", english), ("de", german))
    }
    inner = tar_bytes(members)
    outer = tar_bytes({"2016-01/README": b"", "2016-01/texts/en/de/en-de.tgz": inner})
    for form, name, content in (
        ("en-de archive", "en-de.tgz", inner),
        ("all pairs archive", "2016-01.tgz", outer),
    ):
        source = next(source for source in IWSLT_EN_DE.sources if source.name == form)
        files.path(name).write_bytes(content)
        with SourceFiles(source, {name: files.path(name)}, files.folder / "scratch") as local:
            assert list(source.read(local, "validation")) == plain


def write_hub(files: FolderFiles, pairs: list[tuple[str, str]]) -> None:
    rows = [{"translation": {"en": english, "de": german}} for english, german in pairs]
    write_parquet(files.folder / translation._HUB_FILE.name, rows)


def test_hub_slice(files: FolderFiles, monkeypatch: pytest.MonkeyPatch) -> None:
    write_hub(files, [("no", "nein"), ("Bob &amp; I ", "Bob &amp; ich"), (" Go", "Geh"), ("no", "nein")])
    english, german = (hashlib.sha256(text).hexdigest() for text in (b"Bob & I\nGo\n", b"Bob & ich\nGeh\n"))
    part = translation._Slice(1, english, german, "7:1 8:1")
    monkeypatch.setitem(translation._SLICES, "validation", part)
    examples = read_form(IWSLT_EN_DE, "hub parquet (2017)", "validation", files)
    assert examples == expected("validation", ("7", "Bob & I", "Bob & ich"), ("8", "Go", "Geh"))
    back = read_form(IWSLT_OTHERS["iwslt.de.en"], "hub parquet (2017)", "validation", files)
    assert [(example.context, example.answers[0]) for example in back] == [
        ("Bob & ich", "Bob & I"),
        ("Geh", "Go"),
    ]
    monkeypatch.setitem(translation._SLICES, "validation", replace(part, start=2))
    with pytest.raises(DataError, match="English text of tst2013 on the hub"):
        read_form(IWSLT_EN_DE, "hub parquet (2017)", "validation", files)


@pytest.mark.mirror
@pytest.mark.parametrize("split", ["validation", "test"])
def test_hub_is_like_the_archive(files: FolderFiles, prepared: Prepared, split: str) -> None:
    archive = list(prepared.store.examples("iwslt.en.de", split))
    before = [("no", "nein")] * translation._SLICES[split].start
    write_hub(files, before + [(html.escape(e.context), html.escape(e.answers[0])) for e in archive])
    assert read_form(IWSLT_EN_DE, "hub parquet (2017)", split, files) == archive


def test_the_other_direction(files: FolderFiles) -> None:
    forward = read_xml(files, xml(["One"], ["Two"]), xml(["Eins"], ["Zwei"]))
    back = read_form(IWSLT_OTHERS["iwslt.de.en"], "de-en files", "validation", files)
    assert [(example.context, example.answers) for example in back] == [
        (example.answers[0], (example.context,)) for example in forward
    ]
    assert back[1] == Example(
        "iwslt.de.en.validation.1",
        "Translate from German to English",
        "Zwei",
        ("Two",),
        ("iwslt.de.en.validation.talk.11",),
    )


@pytest.mark.parametrize(
    ("name", "archive", "sets"),
    [
        ("iwslt.en.fr", "en-fr", ("tst2013", "tst2014")),
        ("iwslt.fr.en", "en-fr", ("tst2013", "tst2014")),
        ("iwslt.ar.en", "en-ar", ("tst2013", "tst2014")),
        ("iwslt.cs.en", "en-cs", ("tst2012", "tst2013")),
    ],
)
@pytest.mark.parametrize("nested", [False, True])
def test_other_pairs(
    files: FolderFiles, name: str, archive: str, sets: tuple[str, str], nested: bool
) -> None:
    _, source, target = name.split(".")
    for language in (source, target):
        write_lines(files.folder / f"train.tags.{archive}.{language}", tags([f"train {language}"]))
        for year in sets:
            path = files.folder / f"IWSLT16.TED.{year}.{archive}.{language}.xml"
            write_lines(path, xml([f"{year} {language}"]))
    task = IWSLT_OTHERS[name]
    form = "all pairs archive" if nested else f"{archive} archive"
    found = {split: read_form(task, form, split, files) for split in ("train", "validation", "test")}
    assert {split: (rows[0].context, rows[0].answers[0]) for split, rows in found.items()} == {
        "train": (f"train {source}", f"train {target}"),
        "validation": (f"{sets[0]} {source}", f"{sets[0]} {target}"),
        "test": (f"{sets[1]} {source}", f"{sets[1]} {target}"),
    }
    read = next(each for each in task.sources if each.name == form)
    assert all(name.endswith((".xml", f".{source}", f".{target}")) for name in read.members)
    assert len(read.members) == 6
    assert task.shared_folder == f"iwslt.{archive.replace('-', '.')}"


# Multi30k: two compressed files line by line.


def write(files: FolderFiles, english: bytes, german: bytes) -> None:
    files.folder.mkdir(exist_ok=True)
    (files.folder / "val.en.gz").write_bytes(gzip.compress(english))
    (files.folder / "val.de.gz").write_bytes(gzip.compress(german))


def read_captions(files: FolderFiles) -> list[Example]:
    return read_form(MULTI30K_EN_DE, "gzip files", "validation", files)


def test_pairs(files: FolderFiles) -> None:
    write(files, b"A man .\nTwo\xe2\x80\xa8dogs .\n", "Ein Mann .\nZwei Hunde ä .\n".encode())
    first, second = read_captions(files)
    assert first == Example(
        "multi30k.en.de.validation.0",
        "Translate from English to German",
        "A man .",
        ("Ein Mann .",),
        ("multi30k.en.de.validation.0",),
    )
    assert (second.context, second.answers) == ("Two\u2028dogs .", ("Zwei Hunde ä .",))


def test_a_file_that_was_cut_off(files: FolderFiles) -> None:
    write(files, b"a\n" * 999, b"a\n" * 999)
    path = files.folder / "val.de.gz"
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(DataError, match=r"val\.de\.gz is damaged"):
        read_captions(files)
