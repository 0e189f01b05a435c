from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from decabench.tasks import Store

Rows = list[dict[str, str]]


def lines(rows: Rows) -> bytes:
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


MISTAKES: dict[str, tuple[str, Callable[[Rows], bytes], str]] = {
    "array": (
        "",
        lambda rows: json.dumps(rows).encode(),
        "looks like a JSON array; decabench reads one object per line",
    ),
    "tall array": ("", lambda rows: json.dumps(rows, indent=1).encode(), "looks like a JSON array"),
    "tall object": (
        "",
        lambda rows: json.dumps(rows[0], indent=1).encode(),
        "looks like a JSON object spread over several lines",
    ),
    "a map of ids to answers": (
        "",
        lambda rows: json.dumps({row["id"]: row["answer"] for row in rows}).encode(),
        "looks like one JSON object that maps ids to answers; decabench reads one object per line, so convert it "
        "with decabench import squad",
    ),
    "a tall map of ids to answers": (
        "",
        lambda rows: json.dumps({row["id"]: row["answer"] for row in rows}, indent=1).encode(),
        "If its keys are ids, use decabench import squad",
    ),
    "CSV": (
        "",
        lambda rows: "".join(
            f"{','.join(row.values())}\n" for row in [{"id": "id", "answer": "answer"}, *rows]
        ).encode(),
        "this looks like CSV; decabench reads one JSON object per line",
    ),
    "single quotes": (
        "",
        lambda rows: "\n".join(map(str, rows)).encode(),
        "a key in double quotes is missing",
    ),
    "ids that are numbers": (
        "",
        lambda rows: lines([{**row, "id": at} for at, row in enumerate(rows)]),
        "lines 1, 2, 3 and 29 more: for example, 'id' must be a string in quotes, but is the number 0",
    ),
    "commas between lines": (
        "",
        lambda rows: lines(rows).replace(b"}\n", b"},\n"),
        "lines 1, 2, 3 and 29 more: the line ends in a comma after its JSON object; remove the comma",
    ),
    "Latin-1": (
        "",
        lambda rows: lines(rows).replace(b"positive", b"caf\xe9"),
        "lines 2, 5, 7 and 10 more: for example, byte 42 of the line is not UTF-8; save the file as UTF-8",
    ),
    "other ids": (
        "",
        lambda rows: lines([{**row, "id": row["id"].upper()} for row in rows]),
        "the id 'SST.VALIDATION.0' differs from 'sst.validation.0' only in case",
    ),
    "half of the lines": (
        "",
        lambda rows: lines(rows[:16]),
        "missing-id: the example 'sst.validation.16' has no answer; add a line for this example (15 more like this)",
    ),
    "gzip without .gz": (
        "",
        lambda rows: gzip.compress(lines(rows)),
        "its name does not end in .gz; rename the file",
    ),
    "text named .gz": (".gz", lines, "the file is not compressed; remove .gz from its name"),
    "text named .zst": (".zst", lines, "the file is not compressed; remove .zst from its name"),
    "another key": (
        "",
        lambda rows: lines([{"id": row["id"], "prediction": row["answer"]} for row in rows]),
        "missing-field: lines 1, 2, 3 and 29 more: the line has no 'answer', only these keys: 'id', 'prediction'",
    ),
    "two other keys": (
        "",
        lambda rows: lines([{"ID": row["id"], "Answer": row["answer"]} for row in rows]),
        "missing-field: lines 1, 2, 3 and 29 more: the line has no 'id' and no 'answer', only these keys: 'ID', "
        "'Answer'",
    ),
    "answers without JSON": (
        "",
        lambda rows: "".join(f"{row['answer']}\n" for row in rows).encode(),
        "lines 1, 2, 3 and 29 more: the line is not a JSON object such as",
    ),
    "a space after each id": (
        "",
        lambda rows: lines([{**row, "id": f"{row['id']} "} for row in rows]),
        "the id 'sst.validation.0 ' has spaces around it; write 'sst.validation.0', as in the data",
    ),
    "a line end in each label": (
        "",
        lambda rows: lines([{**row, "answer": f"{row['answer']}\n"} for row in rows]),
        r"line 1 has 'negative\n' instead of 'negative'. Write only the label",
    ),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_one_message(name: str, command: Any, home: Path, submit: Any) -> None:
    suffix, write, said = MISTAKES[name]
    folder = submit("majority", ["sst"])
    path = folder / "predictions" / "sst.validation.jsonl"
    rows = [{"id": row.id, "answer": row.answers[0]} for row in Store(home).examples("sst", "validation")]
    path.unlink()
    path.with_name(path.name + suffix).write_bytes(write(rows))
    printed = command("check", folder, "--home", home).stdout
    assert printed.count(said) == 1, printed
    assert len(printed.splitlines()) <= 4, printed


def test_ids_that_count_the_lines(command: Any, home: Path, submit: Any) -> None:
    folder = submit("majority", ["sst"])
    rows = [{"id": str(at), "answer": "positive"} for at in range(32)]
    (folder / "predictions" / "sst.validation.jsonl").write_bytes(lines(rows))
    said = " ".join(command("evaluate", folder, "--home", home).output.split())
    assert (
        "line numbers are not ids; if the answers are in the order of the data, use decabench import text"
        in said
    )
