"""Data files: scripts that contain only data, and CSV and JSON with the table's numbers and without formulas."""

from __future__ import annotations

import csv
import io
import json
import re

import pytest

from decabench.leaderboard.datafiles import board_csv, board_json, describe_board, make_script, overview_data
from decabench.tasks import DECATHLON, TASKS
from tests.leaderboard.small import board, results, without


def test_csv_and_json_agree() -> None:
    files = [results("a", 60.0), results("b", without("sst")), results("f", {}, {"sst": "no file"})]
    files[0]["tasks"]["sst"] |= {"interval": [55.0, 65.0], "units": {"number": 48, "effective": 41.2}}
    found = board(*files)
    pages = {row.entry.path: f"page-{index}" for index, row in enumerate(found.tables[0].rows)}
    described = describe_board(found, pages)
    lines = list(csv.DictReader(io.StringIO(board_csv(described))))
    content = json.loads(board_json(described))
    assert (
        [line["name"] for line in lines] == [one["name"] for one in content["submissions"]] == ["a", "b", "f"]
    )
    assert (lines[0]["total"], lines[0]["rank"], lines[0]["sst_low"]) == ("600.0", "1", "55.0")
    assert (lines[1]["total"], lines[1]["rank"], lines[1]["sst"]) == ("", "", "")
    assert content["submissions"][0]["tasks"]["sst"]["interval"] == [55.0, 65.0]
    assert lines[0]["sst_units"] == content["submissions"][0]["tasks"]["sst"]["units"] != ""
    assert (lines[1]["sst_units"], "units" in content["submissions"][0]["tasks"]["srl"]) == ("", False)
    assert content["submissions"][1]["tasks"]["sst"] == {"status": "missing"}
    assert content["submissions"][2]["tasks"]["sst"] == {"status": "failed", "reason": "no file"}
    assert len(content["reported_not_verified"]["rows"]) == len(DECATHLON.published)


@pytest.mark.parametrize("name", ["=1+1", "-1", "@SUM(A1)", " =1", "\uff1dcmd|'/C calc'!A0", " \uff0bx"])
def test_no_name_is_a_formula(name: str) -> None:
    """East Asian versions of spreadsheets treat full-width signs as ordinary signs."""
    found = board(results(name, 60.0))
    described = describe_board(found, {found.tables[0].rows[0].entry.path: "x"})
    (line,) = csv.DictReader(io.StringIO(board_csv(described)))
    assert line["name"].startswith("'")


def test_a_limited_run_has_no_number_in_a_table_of_numbers() -> None:
    file = {**results("limited", {"sst": 91.0}), "decascore": None}
    file["tasks"]["sst"] |= {
        "status": "partial",
        "partial": {"answered": 100, "of": 872, "chosen": "limit 100"},
    }
    found = board(file)
    described = describe_board(found, {found.tables[0].rows[0].entry.path: "x"})
    (line,) = csv.DictReader(io.StringIO(board_csv(described)))
    assert (line["sst"], line["state"]) == ("", "partial")
    (one,) = json.loads(board_json(described))["submissions"]
    expected = {
        "status": "partial",
        "score": 91.0,
        "answered": 100,
        "of": 872,
        "chosen": "limit 100",
        "without": [],
    }
    assert one["tasks"]["sst"] == {**expected, "evidence": "verified"}


def test_further_columns_have_what_was_recorded_and_nothing_of_hidden_labels() -> None:
    usage = {"sst.validation": {"prompt_tokens": 1_500, "completion_tokens": 500, "cost": 0.25}, "x": 3}
    times = {
        "sst.validation": {"seconds": 60.0, "answers": 800},
        "zre.validation": {"seconds": 20.0, "answers": 200},
        "squad.validation": {"seconds": 5.0},
        "schema.validation": {"seconds": 5.0, "answers": "many"},
    }
    file = results("a", 60.0, about={"predictor": {"name": "x", "usage": usage, "time": times}})
    file["tasks"]["sst"] |= {"answers": {"unparseable": 50, "refused": 10, "truncated": 50}}
    file["tasks"]["squad"] |= {"answers": {"not_in_context": 100}}
    file["tasks"]["zre"] |= {
        "variants": {"scores": {"0": 60.0, "1": 52.0}, "mean": 56.0, "worst": 52.0, "spread": 8.0}
    }
    found = board(file, results("b", 50.0))
    pages = {row.entry.path: "p" for row in found.tables[0].rows}
    names = dict.fromkeys(DECATHLON.tasks, "t")

    def more(*hidden: str) -> list[object]:
        data = overview_data(found, found.tables, pages, names, TASKS, lambda task, split: task in hidden)
        return [row.get("more") for row in data["tables"][0]["rows"][:2]]

    assert more() == [
        {"form": 6.0, "outside": 10.0, "wording": 8.0, "tokens": 2.0, "time": 80.0, "cost": 0.25},
        None,
    ]
    assert more("squad", "zre", "sst") == [{"tokens": 2.0, "time": 80.0, "cost": 0.25}, None]


@pytest.mark.parametrize(
    "text",
    [
        "</script><script>alert(1)</script>",
        "<!--",
        "]]>",
        "\u2028\u2029",
        "\\",
        '"',
        "\\u003c/script",
        "Ä",
        "😀",
    ],
)
def test_a_script_gives_back_what_it_was_given_and_nothing_else(text: str) -> None:
    made = make_script("examples/x", {"__proto__": text}).decode("ascii")
    assert not re.search(r"[<>\x00-\x09\x0b-\x1f\x7f-\uffff]", made)
    match = re.fullmatch(r'decabench\.put\("examples/x",(".*")\);\n', made)
    assert match is not None
    assert json.loads(json.loads(match[1])) == {"__proto__": text}
