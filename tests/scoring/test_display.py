"""Results and comparisons in notebooks and terminals."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import decabench
from decabench.scoring import Results, read_results_file
from decabench.scoring.results import show_html, show_lines

Submit = Callable[..., Path]


def test_results_are_a_table(home: Path, submit: Submit) -> None:
    results = decabench.evaluate(submit("majority"), home=home)
    html = results._repr_html_()
    assert html.startswith("<table>") and html.count("<tr>") == 11
    for name, task in results.tasks.items():
        assert f">{name}</td>" in html and f"{task.score:.2f}" in html
    assert f"decaScore {results.total.text}" in html


def test_results_are_short_in_a_terminal(home: Path, submit: Submit) -> None:
    lines = repr(decabench.evaluate(submit("majority"), home=home)).splitlines()
    assert re.fullmatch(r"majority, validation: decaScore \d+\.\d", lines[0])
    assert len(lines) == 11 and all(len(line) <= 80 for line in lines)
    assert any(re.fullmatch(r"  sst +em +\d+\.\d\d", line) for line in lines)


def test_comparisons_are_a_table_and_short(home: Path, submit: Submit) -> None:
    found = decabench.compare(
        submit("majority", ["sst", "squad"]), submit("oracle", ["sst", "squad"]), home=home
    )
    html, lines = found._repr_html_(), repr(found).splitlines()
    assert html.count("<tr>") == 3 and "p (Holm)" in html
    assert lines[0] == "A majority, B oracle, validation" and len(lines) == 3
    assert all(len(line) <= 80 for line in lines)


def test_hostile_names_do_nothing(home: Path, submit: Submit) -> None:
    text = decabench.evaluate(submit("majority", ["sst"]), home=home).to_json()
    results = Results.from_json(text.replace('"name": "majority"', '"name": "<script>x</script>\\u001b[31m"'))
    assert "<script>" not in results._repr_html_() and "&lt;script&gt;" in results._repr_html_()
    assert "\x1b" not in results._repr_html_() + repr(results)


def test_tables_of_nothing() -> None:
    assert show_lines("nothing", []) == "nothing"
    assert "<tbody></tbody>" in show_html("nothing", ("task",), [])


def test_results_from_a_file_show_the_same(
    command: Callable[..., object], home: Path, submit: Submit
) -> None:
    folder = submit("majority", ["sst"])
    command("evaluate", folder, "--home", home)
    assert repr(read_results_file(folder / "results/validation/results.json")) == repr(
        decabench.evaluate(folder, home=home)
    )
