from __future__ import annotations

from decabench.tasks.datasets.hindi_english import HIEN_POS
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
