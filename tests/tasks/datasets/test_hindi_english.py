"""Hindi-English posts in GIRNet's split, and the stand-in for Hindi."""

from __future__ import annotations

from pathlib import Path

import pytest

from decabench.tasks.datasets.hindi_english import HI_POS, HIEN_POS
from tests.tasks.conftest import shared
from tests.tasks.fixtures import FolderFiles, read_form

__all__ = ["shared"]

NAMES = ("FB_HI_EN_CR.txt", "TWT_HI_EN_CR.txt", "WA_HI_EN_CR.txt")


def posts(number: int, ended: bool) -> bytes:
    blocks = [f"w{index}\thi\tG_N\n!\tuniv\tG_X\n" for index in range(number)]
    return ("\n".join(blocks) + ("\n" if ended else "")).encode()


def test_a_post_that_nothing_ends_is_left_out(files: FolderFiles) -> None:
    files.folder.mkdir(parents=True)
    for name, ended in zip(NAMES, (False, True, True), strict=True):
        (files.folder / name).write_bytes(posts(26 if ended else 27, ended))
    splits = {split: read_form(HIEN_POS, "upstream text", split, files) for split in HIEN_POS.counts}
    assert {split: len(examples) for split, examples in splits.items()} == {
        "train": 3 * 18,
        "validation": 3 * 2,
        "test": 3 * 6,
    }
    assert splits["test"][5].context == "w25 !"
    first = splits["validation"][0]
    assert (first.id, first.context, first.answers) == (
        "hien.pos.validation.facebook.0",
        "w18 !",
        ("G_N G_X",),
    )
    assert (first.units, first.meta) == (("facebook", first.id), {"languages": "hi univ"})


@pytest.mark.mirror
def test_the_posts_of_the_mirror_are_rebuilt(shared: Path) -> None:
    files = FolderFiles(shared / "mirror" / "hien.pos")
    splits = {split: read_form(HIEN_POS, "upstream text", split, files) for split in HIEN_POS.counts}
    counts = {}
    for network, name in zip(("facebook", "twitter", "whatsapp"), NAMES, strict=True):
        text = ""
        for split, examples in splits.items():
            chosen = [example for example in examples if example.units[0] == network]
            counts[network, split] = len(chosen)
            for example in chosen:
                texts = (example.context, example.meta["languages"], example.answers[0])
                rows = zip(*(column.split(" ") for column in texts), strict=True)
                text += "".join("\t".join(row) + "\n" for row in rows) + "\n"
        original = files.path(name).read_bytes().decode()
        rest = original.removeprefix(text)
        assert rest != original and "\n\n" not in rest  # at most one post, which no empty line ends
        assert (rest != "") == (network == "facebook")
    assert [
        counts[network, "train"] + counts[network, "validation"]
        for network in ("facebook", "twitter", "whatsapp")
    ] == [
        616,
        876,
        610,
    ]
    assert [counts[network, "test"] for network in ("facebook", "twitter", "whatsapp")] == [155, 220, 153]
    assert {split: len(examples) for split, examples in splits.items()} == HIEN_POS.counts
    tags = {tag for examples in splits.values() for example in examples for tag in example.answers[0].split()}
    assert tags == set(HIEN_POS.answer_form.labels) and len(tags) == 18


@pytest.mark.mirror
def test_the_most_frequent_tag_of_each_word_is_as_measured(shared: Path) -> None:
    """68.1, above every model of the paper: trained on all training posts, lower-cased, nouns where unseen."""
    from collections import Counter, defaultdict

    files = FolderFiles(shared / "mirror" / "hien.pos")
    train, validation, test = (
        read_form(HIEN_POS, "upstream text", split, files) for split in HIEN_POS.counts
    )
    tags: dict[str, Counter[str]] = defaultdict(Counter)
    for example in [*train, *validation]:
        for word, tag in zip(example.context.lower().split(), example.answers[0].split(), strict=True):
            tags[word][tag] += 1
    most = Counter(tag for counts in tags.values() for tag in counts.elements()).most_common(1)[0][0]
    right = total = 0
    for example in test:
        for word, tag in zip(example.context.lower().split(), example.answers[0].split(), strict=True):
            right += (tags[word].most_common(1)[0][0] if word in tags else most) == tag
            total += 1
    assert 100 * right / total == pytest.approx(68.1, abs=0.1)


@pytest.mark.mirror
def test_the_treebank_of_the_mirror_is_rebuilt(shared: Path) -> None:
    files = FolderFiles(shared / "mirror" / "hien.pos")
    splits = {split: read_form(HI_POS, "treebank csv", split, files) for split in HI_POS.counts}
    assert {split: len(examples) for split, examples in splits.items()} == HI_POS.counts
    for name, parts in (
        ("hi_hdtb_dev_set.csv", ("train", "validation")),
        ("hi_hdtb_test_set.csv", ("test",)),
    ):
        lines = ["tokens~tags"]
        for example in (example for part in parts for example in splits[part]):
            words, tags = example.context.split(" "), example.answers[0].split(" ")
            lines += [f"{word}~{tag}" for word, tag in zip(words, tags, strict=True)] + [" ~ "]
        assert "".join(f"{line}\r\n" for line in lines).encode() == files.path(name).read_bytes()
