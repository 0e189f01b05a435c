"""Which examples a page shows, and when it shows none."""

from __future__ import annotations

import gzip
import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from decabench.leaderboard import excerpts
from decabench.leaderboard.excerpts import Excerpts, Policy, read_answers_shown, read_texts
from decabench.leaderboard.ranking import suite_columns
from decabench.leaderboard.scores import Keeper, find_submissions, score_submissions
from decabench.metrics import METRICS
from decabench.tasks import DECATHLON, TASKS
from decabench.tasks.store import Store
from tests.leaderboard.small import results, write
from tests.leaderboard.synthetic import HOSTILE_ANSWER
from tests.tasks.fixtures import SAMPLED


def shown(folder: Path, home: Path, policy: Policy = "free") -> dict[str, dict[str, Excerpts]]:
    """What is shown, by submission and task; each answer with the text of its example."""
    keeper = Keeper(Store(home), [DECATHLON], TASKS)
    top, paths, _ = find_submissions(folder)
    entries, _ = score_submissions(top, paths, keeper)
    found: dict[str, dict[str, Excerpts]] = {}
    for column in suite_columns(DECATHLON, TASKS, METRICS, entries):
        data = read_texts(column.name, "validation", keeper, policy)
        for entry in entries:
            if entry.score(column.name) is not None:
                one = read_answers_shown(entry, column, data, keeper)
                answers = tuple(
                    text | answer for text, answer in zip(data.texts, one.answers, strict=bool(one.answers))
                )
                found.setdefault(entry.path.split("/")[0], {})[column.name] = replace(one, answers=answers)
    return found


def test_every_example_is_shown_with_its_verdict(made_up: Path, home: Path) -> None:
    found = shown(made_up, home)
    schema = found["system-03"]["schema"].answers
    assert [one["id"] for one in schema] == [each.id for each in Store(home).examples("schema", "validation")]
    assert {one["kind"] for one in schema} == {"right", "wrong", "empty"}
    for example in schema:
        assert (example["kind"] == "right") == (example["score"] == 100.0)
        assert (example["kind"] == "empty") == (not example["answer"].strip())


def test_of_many_examples_all_systems_show_the_same(
    made_up: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(excerpts, "MOST", 10)
    found = shown(made_up, home)
    one, other = ([each["id"] for each in found[name]["sst"].answers] for name in ("system-00", "system-04"))
    assert one == other and len(one) == 10


def test_answers_are_those_of_the_submission(made_up: Path, home: Path) -> None:
    found = shown(made_up, home)
    assert HOSTILE_ANSWER in {example["answer"] for example in found["system-01"]["squad"].answers}
    gold = found["oracle"]["squad"].answers
    assert all(example["answer"] == example["golds"][0] and example["score"] == 100.0 for example in gold)


def test_of_plain_files_only_what_is_shown_is_read(
    made_up: Path, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "submissions"
    shutil.copytree(made_up, folder)
    for path in folder.glob("*/predictions/woz.en.*"):
        path.unlink()  # what is shown of a dialogue rests on all of its answers
    for path in sorted(folder.glob("*/predictions/s*.validation.jsonl"))[::2]:
        lines = [json.loads(line) for line in path.read_bytes().splitlines()]
        for line, answer in zip(lines, ("", "\u3000 \n", '\u00e9 "q"\t', "\\", "\U0001f600 x"), strict=False):
            line["answer"] = answer
        texts = (json.dumps(line, ensure_ascii=bool(number % 2)) for number, line in enumerate(lines))
        path.write_text("\n".join(texts), encoding="utf-8")
    monkeypatch.setattr(excerpts, "_read_shown", lambda *given: None)
    whole = shown(folder, home)
    monkeypatch.undo()
    monkeypatch.setattr(excerpts, "read_answers", None)
    monkeypatch.setattr(excerpts, "file_digest", lambda path: "other code")
    assert shown(folder, home) == whole
    monkeypatch.setattr(excerpts, "_read_answers", None)  # a later build reads no answers at all
    assert shown(folder, home) == whole
    kinds = {one["kind"] for tasks in whole.values() for found in tasks.values() for one in found.answers}
    assert kinds == {"empty", "right", "wrong"}


def test_answers_in_another_form_are_shown_too(made_up: Path, home: Path, tmp_path: Path) -> None:
    folder = tmp_path / "submissions"
    shutil.copytree(made_up, folder)
    whole = shown(folder, home)
    for number, path in enumerate(sorted(folder.glob("*/predictions/*.jsonl"))):
        if number % 2:
            path.with_name(f"{path.name}.gz").write_bytes(gzip.compress(path.read_bytes()))
            path.unlink()
        else:
            lines = map(json.loads, path.read_bytes().splitlines())
            text = "".join(f"{json.dumps(line, sort_keys=True, separators=(',', ':'))}\n" for line in lines)
            path.write_text(text, encoding="utf-8")
    assert shown(folder, home) == whole


def test_a_dialogue_has_its_states(made_up: Path, home: Path) -> None:
    """An answer that equals gold is wrong if an earlier turn lost the goal; then the page says which."""
    turns = {each.id: each for each in Store(home).examples("woz.en", "validation")}
    seen = set()
    for one in shown(made_up, home)["system-03"]["woz.en"].answers:
        name, _, number = one["id"].rpartition("_")
        assert one["before"] == [turns[f"{name}_{at}"].context for at in range(int(number))]
        assert (one["kind"] == "right") == (one["state"] == one["goldState"]) or one["kind"] == "empty"
        assert bool(one["parted"]) == (one["state"] != one["goldState"])
        seen.add(one["parted"].partition("_")[0].partition(" ")[0])
    assert seen == {"", "here", "at"}


def why(made_up: Path, home: Path, policy: Policy = "free", task: str = "squad") -> str:
    return shown(made_up, home, policy)["system-00"][task].why


def test_why_there_are_none(made_up: Path, home: Path, tmp_path: Path) -> None:
    assert why(made_up, home, "none") == "The site was built without examples."
    shutil.copytree(made_up / "system-00", tmp_path / "in" / "system-00")
    shutil.make_archive(str(tmp_path / "zipped" / "system-00"), "zip", made_up / "system-00")
    (found,) = shown(tmp_path / "zipped", home).values()
    assert found["squad"].why == "The answers are not in a folder."
    write(tmp_path / "stated", [results(scores={"squad": 50.0})])
    (found,) = shown(tmp_path / "stated", home).values()
    assert found["squad"].why == "The answers were not scored here."


@pytest.mark.parametrize(
    "task", [name for name in SAMPLED if TASKS[name].withhold_texts and name in DECATHLON.tasks]
)
def test_text_that_may_not_be_passed_on(made_up: Path, home: Path, tmp_path: Path, task: str) -> None:
    shutil.copytree(home / "tasks", tmp_path / "tasks")
    record = tmp_path / "tasks" / task / "task.json"
    record.write_text(record.read_text(encoding="utf-8").replace('"sample"', '"mirror"'), encoding="utf-8")
    assert Store(tmp_path).record(TASKS[task].name, "validation").origin == "mirror"
    assert why(made_up, tmp_path, "free", task) == "The text of this dataset may not be redistributed."
    assert why(made_up, tmp_path, "all", task) == ""
    assert why(made_up, home, "free", task) == ""
