"""`decabench show`: right and wrong answers in the terminal, as JSON and as a page."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from click.testing import Result

from decabench.commands import show as module
from decabench.submission import SubmissionInfo, write_submission
from decabench.tasks import Store

Command = Callable[..., Result]
Submit = Callable[..., Path]
HOSTILE = "</script>\x1b[31mred\x1b[0m\u202etxt.exe\x07"


@pytest.fixture
def wrong_and_right(home: Path, tmp_path: Path) -> Path:
    """Answers to squad: one third right, one third hostile, and one third part of the gold answer."""
    lines = []
    for number, example in enumerate(Store(home).examples("squad", "validation")):
        text = (example.answers[0], HOSTILE, f"about {example.answers[0]} or so")[number % 3]
        lines.append({"id": example.id, "answer": text})
    write_submission(tmp_path / "mine", "mine", {("squad", "validation"): lines})
    return tmp_path / "mine"


def shown(done: Result) -> dict[str, Any]:
    assert done.exit_code == 0, done.stderr
    content: dict[str, Any] = json.loads(done.stdout)
    return content


def test_wrong_ones_with_question_context_and_answers(
    command: Command, home: Path, wrong_and_right: Path
) -> None:
    done = command("show", wrong_and_right, "--wrong", "--limit", "2", "--home", home)
    assert done.exit_code == 0
    lines = done.stdout.splitlines()
    assert re.fullmatch(r"mine, squad, validation: nf1 \d+\.\d\d, 21 of 32 wrong", lines[0])
    example = list(Store(home).examples("squad", "validation"))[1]
    assert f"1/21  {example.id}  wrong, nf1 0.00" in lines
    assert example.question in done.stdout and example.answers[0] in done.stdout
    assert lines[-1] == "2 of 21 shown. Use --limit 0 to show all, or --open for a page."


def test_hostile_answers_do_nothing(command: Command, home: Path, wrong_and_right: Path) -> None:
    done = command("show", wrong_and_right, "--limit", "0", "--home", home)
    assert "\\u001b[31mred" in done.stdout
    assert not set(done.stdout) & set("\x1b\x07\u202e")
    content = shown(command("show", wrong_and_right, "--json", "--limit", "0", "--home", home))
    assert HOSTILE in {one["prediction"] for one in content["shown"]}  # the same text, as ASCII escapes


def test_orders(command: Command, home: Path, wrong_and_right: Path) -> None:
    by_loss = shown(
        command("show", wrong_and_right, "--sort", "loss", "--json", "--limit", 0, "--home", home)
    )
    scores = [one["score"] for one in by_loss["shown"]]
    assert scores == sorted(scores) and scores[0] < 1 and scores[-1] == 100
    by_length = shown(
        command("show", wrong_and_right, "--sort", "length", "--json", "--limit", 0, "--home", home)
    )
    lengths = [len(one["prediction"]) for one in by_length["shown"]]
    assert lengths == sorted(lengths, reverse=True)


def test_by_id_flag_and_text(command: Command, home: Path, wrong_and_right: Path) -> None:
    example = list(Store(home).examples("squad", "validation"))[4]
    options = ("--json", "--home", home)
    (one,) = shown(command("show", wrong_and_right, "--id", example.id, *options))["shown"]
    assert one["id"] == example.id and one["context"] == example.context
    assert shown(command("show", wrong_and_right, "--search", "TXT.EXE", *options))["matching"] == 11
    assert shown(command("show", wrong_and_right, "--flag", "empty", *options))["matching"] == 0
    assert "No examples match." in command("show", wrong_and_right, "--flag", "cut", "--home", home).stdout
    done = command("show", wrong_and_right, "--id", example.id + "0", "--home", home)
    assert done.exit_code == 2 and f"Did you mean {example.id}" in done.stderr


def test_what_one_has_right_and_the_other_wrong(
    command: Command, home: Path, wrong_and_right: Path, tmp_path: Path
) -> None:
    lines = [
        (each.id, each.answers[0] if number % 2 else "no")
        for number, each in enumerate(Store(home).examples("squad", "validation"))
    ]
    write_submission(tmp_path / "other", "other", {("squad", "validation"): lines})
    options = ("--against", tmp_path / "other", "--json", "--limit", 0, "--home", home)
    both = shown(command("show", wrong_and_right, *options))
    expected = [number for number in range(32) if (number % 3 == 0) != (number % 2 == 1)]
    ids = [each[0] for each in lines]
    assert [one["id"] for one in both["shown"]] == [ids[number] for number in expected]
    assert all({one["right"], one["against"]["right"]} == {True, False} for one in both["shown"])
    wrong = shown(command("show", wrong_and_right, "--wrong", *options))
    assert [one["id"] for one in wrong["shown"]] == [ids[number] for number in expected if number % 3]
    text = command("show", wrong_and_right, "--against", tmp_path / "other", "--home", home).stdout
    mine = sum(number % 3 == 0 for number in expected)
    assert f"{mine} right only in mine, {len(expected) - mine} right only in other" in text


def test_wordings_stand_below_each_other(command: Command, home: Path, submit: Submit) -> None:
    from decabench.runs import ALL_VARIANTS

    folder = submit("first-choice", ["sst"], variant=ALL_VARIANTS)
    done = command("show", folder, "--limit", "1", "--home", home)
    assert re.search(r"\n  wording 1 +.+  \((right|wrong), em \d+\.00\)", done.stdout)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "several tasks (schema, sst). Choose a task with --task."),
        (
            ("--split", "test"),
            "has no test answers, only validation answers. Choose another split with --split.",
        ),
    ],
)
def test_what_is_missing_is_said(
    command: Command, home: Path, submit: Submit, arguments: tuple[str, ...], said: str
) -> None:
    done = command("show", submit("majority", ["sst", "schema"]), *arguments, "--home", home)
    assert done.exit_code != 0 and said in " ".join(done.stderr.split())


def test_faulty_answers_are_refused(command: Command, home: Path, wrong_and_right: Path) -> None:
    with (wrong_and_right / "predictions/squad.validation.jsonl").open("a") as file:
        file.write('{"id": "nobody", "answer": ""}\n')
    done = command("show", wrong_and_right, "--home", home)
    assert done.exit_code == 3 and "squad can't be shown: " in done.stderr and "unknown-id" in done.stderr


def test_differing_words_are_coloured_and_nothing_is_lost(home: Path) -> None:
    answer, nearest, gold = module._differing("in  Paris, France now", ["London", "Paris France"])
    assert (str(answer), nearest, str(gold)) == ("in  Paris, France now", "Paris France", "Paris France")
    coloured = [str(answer)[span.start : span.end] for span in answer.spans if span.style]
    assert coloured == ["in", "now"] and not [span for span in gold.spans if span.style]


DIALOGUE = """
2/3  en_1_1  wrong, joint_goal_em 0.00
  question   What is the change in state?
  before     I'm looking for decent BBQ - what do you know about BBQ?
  context    Ok, what about Italian?
  gold       food: italian;
  answer     food: italian;
  gold state food: italian
  state      area: east, food: italian
  diverged   at en_1_0: gold 'food: barbeque;', answer 'area: east;'
"""


def test_a_dialogue_is_shown_with_its_states(command: Command, home: Path, tmp_path: Path) -> None:
    """A wrong answer can equal gold, because an earlier turn lost the goal. The page says so."""
    lines = [(each.id, each.answers[0]) for each in Store(home).examples("woz.en", "validation")]
    wrong = {"en_1_0": "area: east;", "en_1_2": "area: west, price range: dontcare, food: thai;"}
    write_submission(
        tmp_path / "s", "s", {("woz.en", "validation"): [(id_, wrong.get(id_, text)) for id_, text in lines]}
    )
    for _ in range(2):  # scored by show, and then read from evaluate's files
        done = command("show", tmp_path / "s", "--wrong", "--home", home)
        assert DIALOGUE in done.stdout, done.output
        assert "3/3  en_1_2  wrong" in done.stdout and "diverged   here\n" in done.stdout
        content = shown(command("show", tmp_path / "s", "--json", "--limit", "0", "--home", home))["shown"]
        courses = {one["id"]: one["course"] for one in content}
        assert [name for name, course in courses.items() if course["parted"]] == [
            "en_1_0",
            "en_1_1",
            "en_1_2",
        ]
        assert [len(courses[f"en_1_{number}"]["before"]) for number in range(4)] == [0, 1, 2, 3]
        assert courses["en_1_3"]["predicted"] == courses["en_1_3"]["gold"] != ""
        command("evaluate", tmp_path / "s", "--home", home)


def test_a_page_is_written(command: Command, home: Path, wrong_and_right: Path, tmp_path: Path) -> None:
    done = command("show", wrong_and_right, "--output", tmp_path / "page", "--home", home)
    assert done.stdout == f"Page: {(tmp_path / 'page/index.html').as_uri()}\n"
    (tmp_path / "other").mkdir()
    (tmp_path / "other/keep.txt").write_text("mine")
    (tmp_path / "other/sub").mkdir()
    done = command("show", wrong_and_right, "--output", tmp_path / "other", "--home", home)
    assert done.exit_code != 0 and (tmp_path / "other/keep.txt").read_text() == "mine"


def test_a_page_is_opened(
    command: Command, home: Path, wrong_and_right: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[str] = []
    monkeypatch.setattr("webbrowser.open", opened.append)
    done = command("show", wrong_and_right, "--open", "--wrong", "--home", home)
    assert done.stdout == f"Page: {opened[0]}\n" and opened[0].endswith("/index.html#kind=wrong")
    index = Path(urlsplit(opened[0]).path)
    assert (index.parent / "data/texts/all.js").read_bytes().startswith(b'decabench.put("texts/all",')
    shutil.rmtree(index.parents[1])
    done = command("show", wrong_and_right, "--open", "--hidden", "--home", home)
    assert done.exit_code == 2 and "--output" in done.stderr and len(opened) == 1


def test_a_page_begins_with_the_filters_that_were_given(
    command: Command, home: Path, wrong_and_right: Path, tmp_path: Path
) -> None:
    """Before, `--output` ignored the filters."""
    page = ("show", wrong_and_right, "--output", tmp_path / "page", "--home", home)
    address = (tmp_path / "page/index.html").as_uri()
    done = command(*page, "--wrong", "--sort", "loss", "--search", "a & b", "--flag", "empty")
    assert done.stdout == f"Page: {address}#q=a%20%26%20b&kind=wrong&flag=empty&sort=loss\n"
    first = next(iter(Store(home).read("squad", "validation")))["id"]
    assert command(*page, "--id", first).stdout == f"Page: {address}#id={first}\n"
    assert "nope" in command(*page, "--id", "nope").stderr
    for options, said in (
        (("--id", "a", "--id", "b"), "at most one --id and one --flag"),
        (("--flag", "empty", "--flag", "cut"), "at most one --id and one --flag"),
    ):
        done = command(*page, *options)
        assert done.exit_code == 2 and said in done.stderr


def test_a_page_against_another_begins_with_what_differs(
    command: Command, home: Path, wrong_and_right: Path, submit: Submit, tmp_path: Path
) -> None:
    """Before, the page began with all examples. The terminal shows those that only one of the two has right."""
    page = ("show", wrong_and_right, "--output", tmp_path / "page", "--home", home)
    page += ("--against", submit("majority", ["squad"]))
    first = next(iter(Store(home).read("squad", "validation")))["id"]
    address = (tmp_path / "page/index.html").as_uri()
    for options, state in (
        ((), "kind=differ"),
        (("--wrong",), "kind=other"),
        (("--right", "--sort", "loss"), "kind=only&sort=loss"),
        (("--id", first), f"id={first}"),
    ):
        assert command(*page, *options).stdout == f"Page: {address}#{state}\n"
    kinds = re.findall('<option value="(only|other|differ)">', (tmp_path / "page/index.html").read_text())
    assert kinds == ["differ", "only", "other"]


def test_the_model_its_cost_the_counts_and_the_calibration(
    command: Command, home: Path, tmp_path: Path
) -> None:
    lines = []
    for number, example in enumerate(Store(home).examples("sst", "validation")):
        choices = {"positive": {"probability": 0.75}, "negative": {"probability": 0.25}}
        given = (
            {"answer": "", "rule": "unparseable"}
            if number == 0
            else {"answer": "positive", "choices": choices}
        )
        lines.append({"id": example.id, **given})
    usage = {"prompt_tokens": 1234, "cost": 0.5}
    predictor = {"model": "m\x1b[31m", "protocol": "choices", "usage": {"sst.validation": usage}}
    write_submission(
        tmp_path / "s", SubmissionInfo("mine", predictor=predictor), {("sst", "validation"): lines}
    )
    done = command("show", tmp_path / "s", "--limit", "1", "--home", home)
    said = done.stdout.splitlines()
    assert said[1] == "model m\\u001b[31m, protocol choices, cost 0.5, prompt_tokens 1,234"
    assert said[2] == "unparseable 1, other_label 1"
    done = command("show", tmp_path / "s", "--calibration", "--home", home)
    assert (
        re.search(r"^    75\.0% +\d+\.\d% +\d+  #+$", done.stdout, re.M) and "Brier score 0." in done.stdout
    )
    content = shown(command("show", tmp_path / "s", "--json", "--limit", "1", "--home", home))
    assert content["predictor"]["cost"] == 0.5 and content["flags"]["unparseable"] == 1
    assert content["calibration"]["bins"][0]["confidence"] == pytest.approx(0.75)


def test_answers_without_probabilities_have_no_calibration(
    command: Command, home: Path, wrong_and_right: Path
) -> None:
    done = command("show", wrong_and_right, "--calibration", "--home", home)
    assert done.exit_code == 2 and "no probabilities. Predict again with --protocol choices" in done.stderr


def test_reasoning_that_arrived_apart_is_shown(command: Command, home: Path, tmp_path: Path) -> None:
    lines: list[dict[str, Any]] = [
        {"id": example.id, "answer": example.answers[0]}
        for example in Store(home).examples("sst", "validation")
    ]
    lines[3]["reasoning"] = "The tone is \x1b[31mwarm."
    write_submission(tmp_path / "mine", "mine", {("sst", "validation"): lines})
    done = command("show", tmp_path / "mine", "--search", "the tone", "--home", home)
    assert done.exit_code == 0 and "1/1  " in done.stdout
    assert "reasoning  The tone is \\u001b[31mwarm." in done.stdout
    found = shown(command("show", tmp_path / "mine", "--home", home, "--limit", "0", "--json"))["shown"]
    assert [each["id"] for each in found if each.get("reasoning")] == [lines[3]["id"]]
    assert command("show", tmp_path / "mine", "--output", tmp_path / "page", "--home", home).exit_code == 0
    assert any("The tone is" in path.read_text() for path in (tmp_path / "page").rglob("*") if path.is_file())
