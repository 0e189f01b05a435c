"""The pages on reproductions and experiments quote their records."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parent.parent


OTHER_RANGES = {
    (-0.8, 2.1),  # the authors' network, which reproductions/authors-network has
    (0.1, 2.3),
    (
        -8.2,
        -6.9,
    ),  # what the page of MQAN had for one seed, over texts, and over seeds too, which was an error
    (-10.1, -5.0),
    (23.3, 42.6),  # two scores
}


def test_the_experiments_quote_the_page_of_mqan() -> None:
    """An interval depends on other rows too: those of wikisql changed when runs of another row were added."""
    text = (ROOT / "docs" / "mqan-experiments.md").read_text(encoding="utf-8")
    contrasts = json.loads((ROOT / "docs" / "reproductions" / "mqan.json").read_text())["contrasts"]
    intervals = [(one["over_seeds"], verdict(one)) for one in contrasts if one["over_seeds"]]
    intervals += [(one["over_texts"], "") for one in contrasts if one["over_texts"]]
    quoted = re.findall(
        r"(-?\d+\.\d) to (-?\d+\.\d)\b(?:\)?, (open|shown|not\s+after\s+the\s+correction))?", text
    )
    assert len(quoted) > 15
    for low, high, said in quoted:
        ends = (float(low), float(high))
        words = {word for own, word in intervals if own == pytest.approx(ends, abs=0.0501)}  # two roundings
        assert ends in OTHER_RANGES or words, f"{low} to {high}"
        assert not said or " ".join(said.split()) in words, (low, high, said)


def verdict(contrast: dict[str, Any]) -> str:
    low, high = contrast["over_seeds"]
    if low <= 0 <= high:
        return "open"
    several = min(contrast["seeds"].values()) > 1
    return "shown" if several and contrast["p_holm"] < 0.05 else "not after the correction"


def test_means_over_seeds_are_those_of_the_page_of_mqan() -> None:
    text = (ROOT / "docs" / "mqan-experiments.md").read_text(encoding="utf-8")
    known = (ROOT / "docs" / "reproductions" / "mqan.md").read_text(encoding="utf-8")
    quoted = set(re.findall(r"\d\d\.\d ± \d\.\d", text))
    assert len(quoted) > 8 and not {one for one in quoted if one not in known}
