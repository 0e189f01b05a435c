"""Make the self-test's `rouge155` case from official ROUGE-1.5.5 figures for texts that may not be redistributed.

    python tools/make_rouge_selftest.py CONFORMANCE

Every stem is replaced by an opaque token (`q17`), which tokenizer and stemmer leave unchanged. ROUGE only sees which
tokens are equal and where sentences end, so the official figures still hold, and no word of the texts remains.
"""

from __future__ import annotations

import gzip
import json
import math
import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq

from decabench.metrics._rouge155 import sentence_tokens

TARGET = Path(__file__).resolve().parent.parent / "metrics" / "data" / "selftest" / "rouge155.jsonl.gz"
KINDS = ("rouge1", "rouge2", "rougeL")
ROWS = 40

Case = tuple[str, str, str, str, tuple[float, ...]]
"""(id, prediction, reference, what ends a sentence, official F of each kind)"""


def read_one_string_summaries(folder: Path) -> Iterator[Case]:
    """Read evenly spaced cases whose sentences end with a period."""
    lines = (folder / "cnn_dailymail.jsonl").read_text(encoding="utf-8").splitlines()
    for row in map(json.loads, lines[:: len(lines) // ROWS][:ROWS]):
        yield row["id"], row["prediction"], row["gold"][0], ".", tuple(row[kind] for kind in KINDS)


def read_line_summaries(folder: Path) -> Iterator[Case]:
    """Read evenly spaced cases with one sentence per line."""
    rows = pq.read_table(folder / "rouge155.pointer-gen-cov.parquet").to_pylist()
    for number, row in enumerate(rows[:: len(rows) // ROWS][:ROWS]):
        figures = tuple(row[f"{kind}_f"] for kind in KINDS)
        yield f"see2017-{number}", row["prediction"], row["reference"], "\n", figures


def make_opaque(text: str, separator: str, names: dict[str, str]) -> str:
    """Replace every stem of a text, and end sentences with a period."""
    sentences = sentence_tokens(text, separator)
    return " . ".join(
        " ".join(names.setdefault(stem, f"q{len(names)}") for stem in sentence) for sentence in sentences
    )


def main(folder: Path) -> None:
    """Write the case."""
    cases = [*read_one_string_summaries(folder), *read_line_summaries(folder)]
    rows = []
    for id, prediction, reference, separator, _ in cases:
        names: dict[str, str] = {}
        answers = [make_opaque(reference, separator, names)]
        rows.append({"id": id, "prediction": make_opaque(prediction, separator, names), "answers": answers})
    means = [
        100 * math.fsum(figures) / len(cases) for figures in zip(*(case[4] for case in cases), strict=True)
    ]
    head = {
        "format": 1,
        "scorer": "ROUGE-1.5.5.pl -m -n 2",
        "origin": "means of the per-example F that the Perl script gave the texts before their stems were replaced",
        "metrics": ["rouge"],
        "rows": len(rows),
        "tolerance": 1e-6,
        "expected": dict(zip(KINDS, means, strict=True)),
    }
    content = "".join(json.dumps(value) + "\n" for value in (head, *rows))
    TARGET.write_bytes(gzip.compress(content.encode(), mtime=0))
    print(f"{TARGET.name}: {len(rows)} rows, {TARGET.stat().st_size:,} bytes")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
