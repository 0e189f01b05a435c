"""Packed examples; test_bundle.py has forged ones."""

from __future__ import annotations

import lzma

import numpy as np
import pytest

pytest.importorskip("torch", reason="torch is not installed: pip install 'decabench[train]'")

from safetensors.numpy import load

from decabench.training.data import Ragged, TaskData
from decabench.training.packing import pack, unpack


@pytest.mark.parametrize("quick", [False, True])
@pytest.mark.parametrize(("most", "kind"), [(65_535, np.uint16), (65_536, np.int32)])
def test_numbers_come_back_from_the_smallest_type(most, kind, quick, tmp_path):
    rows = [np.array(row, dtype=np.int32) for row in ([4, most], [], [7])]
    pack(tmp_path, TaskData("sst", {"text": Ragged.of(rows)}), quick)
    path = tmp_path / "sst.safetensors.xz"
    assert load(lzma.decompress(path.read_bytes()))["text/values"].dtype == kind
    found = unpack(tmp_path, "sst", {"text": most + 1})
    assert [found.item(row)["text"].tolist() for row in range(3)] == [[4, most], [], [7]]
    with pytest.raises(ValueError, match="not from 0 to"):
        unpack(tmp_path, "sst", {"text": most})
