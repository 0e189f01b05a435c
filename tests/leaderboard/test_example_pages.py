"""The examples behind scores, on boards and on the page of `decabench show`, and the cases without examples.

tests/browser/test_examples.py tests them in a browser.
"""

from __future__ import annotations

import gzip
import json
import re
import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import unescape
from pathlib import Path
from typing import Any

import pytest

from decabench.leaderboard import BoardOptions, Policy, example_pages, write_example_pages, write_leaderboard
from decabench.leaderboard.example_pages import read_answers_shown, read_texts
from decabench.leaderboard.publishing import File
from decabench.leaderboard.ranking import suite_columns
from decabench.leaderboard.scores import Keeper, find_submissions, score_submissions
from decabench.metrics import METRICS
from decabench.scoring import ScoringOptions, find_examples
from decabench.submission import write_submission
from decabench.tasks import DECATHLON, TASKS
from decabench.tasks.store import Store
from tests.folders import contents
from tests.leaderboard.small import results, write
from tests.leaderboard.synthetic import HOSTILE_ANSWER
from tests.tasks.fixtures import SAMPLED

Submit = Callable[..., Path]


def parse(script: bytes) -> Any:
    """Return the value in a data file."""
    found = re.fullmatch(r'decabench\.put\("[a-z0-9/.-]+",(".*")\);\n', script.decode("ascii"))
    assert found is not None
    return json.loads(json.loads(found[1]))


def read(files: Iterable[File], name: str) -> tuple[dict[str, Any], list[Any]]:
    """Return an index and the rows of all its shards."""
    given = {path: content if isinstance(content, bytes) else content.read_bytes() for path, content in files}
    index = parse(given[f"data/{name}.js"])
    pieces = [parse(given[f"data/{name}-{number}.js"]) for number in range(index.get("pieces", 0))]
    rows = [row for piece in pieces for row in piece]
    if "starts" in index:
        assert index["starts"] == [sum(map(len, pieces[:number])) for number in range(len(pieces))]
    return index, rows


@dataclass(frozen=True)
class Shown:
    """The data that the page shows for a task of a submission."""

    why: str
    rows: Sequence[dict[str, Any]]


def copy_of(made_up: Path, tmp_path: Path, *names: str) -> Path:
    """Copy some submissions to a folder that a test may change."""
    for name in names:
        shutil.copytree(made_up / name, tmp_path / "submissions" / name)
    return tmp_path / "submissions"


def shown(folder: Path, home: Path, policy: Policy = "free") -> dict[str, dict[str, Shown]]:
    """Return the shown answers by submission and task, with the example's text, the verdict and the flags."""
    keeper = Keeper(Store(home), [DECATHLON], TASKS, options=BoardOptions(examples=policy))
    top, paths, _ = find_submissions(folder)
    entries, _ = score_submissions(top, paths, keeper)
    found: dict[str, dict[str, Shown]] = {}
    for column in suite_columns(DECATHLON, TASKS, METRICS, entries):
        data = read_texts(column.name, "validation", keeper)
        texts, asked = read(data.files("texts/x", []), "texts/x") if not data.why else ({"ids": []}, [])
        for entry in entries:
            if entry.score(column.name) is None:
                continue
            one = read_answers_shown(entry, column, data, keeper, "answers/x")
            index, answers = read(one.files, "answers/x")
            assert one.count == len(answers) and one.why == index.get("why", "")
            rows = [
                {
                    "id": texts["ids"][place],
                    "score": index["score"][place],
                    "right": index["right"][place],
                    "words": index["words"][place],
                    "flags": {flag for flag, places in index["flags"].items() if place in places},
                    **asked[place],
                    **(answer if isinstance(answer, Mapping) else {"answer": answer}),
                }
                for place, answer in enumerate(answers)
            ]
            found.setdefault(entry.path.split("/")[0], {})[column.name] = Shown(one.why, rows)
    return found


def test_every_example_is_shown_with_its_verdict(made_up: Path, home: Path) -> None:
    found = shown(made_up, home)
    schema = found["system-03"]["schema"].rows
    assert [one["id"] for one in schema] == [each.id for each in Store(home).examples("schema", "validation")]
    assert {one["right"] for one in schema} == {"0", "1"}
    for example in schema:
        assert (example["right"] == "1") == (example["score"] == 100)
        assert (example["flags"] == {"empty"}) == (not example["answer"].strip())
        assert example["words"] == len(example["answer"].split())


def test_answers_are_those_of_the_submission(
    made_up: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also with shards of the smallest size."""
    monkeypatch.setattr(example_pages, "_PIECE", 500)
    found = shown(made_up, home)
    assert HOSTILE_ANSWER in {example["answer"] for example in found["system-01"]["squad"].rows}
    gold = found["oracle"]["squad"].rows
    assert all(example["answer"] == example["golds"][0] and example["score"] == 100 for example in gold)


def test_answers_in_another_form_are_shown_too(made_up: Path, home: Path, tmp_path: Path) -> None:
    folder = copy_of(made_up, tmp_path, "system-01", "system-03")
    whole = shown(folder, home)
    for number, path in enumerate(sorted(folder.glob("*/predictions/*.jsonl"))):
        if number % 2:
            path.with_name(f"{path.name}.gz").write_bytes(gzip.compress(path.read_bytes()))
            path.unlink()
        else:
            lines = sorted(
                map(json.loads, path.read_bytes().splitlines()), key=lambda line: str(line["answer"])
            )
            text = "".join(f"{json.dumps(line, sort_keys=True, separators=(',', ':'))}\n" for line in lines)
            path.write_text(text, encoding="utf-8")
    assert shown(folder, home) == whole


def test_flags_and_whole_outputs_are_shown(home: Path, tmp_path: Path) -> None:
    examples = list(Store(home).examples("squad", "validation"))
    lines = [{"id": example.id, "answer": example.answers[0]} for example in examples]
    lines[0] |= {"answer": "", "raw": "I cannot say.", "rule": "unparseable"}
    lines[1] |= {"raw": "So, x", "finish": "length"}
    lines[2] |= {"context_kept": [0, 9], "rule": "not-in-context"}
    write_submission(tmp_path / "s" / "x", "x", {("squad", "validation"): lines})
    rows = shown(tmp_path / "s", home)["x"]["squad"].rows
    assert [row["flags"] for row in rows[:4]] == [
        *({"unparseable"}, {"cut"}, {"context_cut", "not_in_context"}, set()),
    ]
    assert [row.get("raw") for row in rows[:3]] == ["I cannot say.", "So, x", None]


def test_examples_have_fields_to_filter_by(made_up: Path, home: Path, tmp_path: Path) -> None:
    """Also by the number of systems, without baselines, that have the example right."""
    write_leaderboard(made_up, tmp_path / "site", home=home)

    def index(name: str) -> dict[str, Any]:
        found: dict[str, Any] = parse((tmp_path / f"site/data/texts/{name}-validation.js").read_bytes())
        return found

    golds = [each.answers[0] for each in Store(home).examples("sst", "validation")]
    gold = index("sst")["fields"]["gold"]
    assert [gold["labels"][code] for code in gold["codes"]] == golds
    relations = [each.units[0] for each in Store(home).examples("zre", "validation")]
    unit = index("zre")["fields"]["unit"]
    assert [unit["labels"][code] for code in unit["codes"]] == relations
    assert set(index("woz-en")["fields"]["turn"]["labels"]) >= {"turn 1", "turn 2"}
    assert {"how", "what", "who"} <= set(index("squad")["fields"]["question"]["labels"])
    every = shown(made_up, home)
    rights = [every[f"system-0{number}"]["squad"].rows for number in range(6)]
    assert index("squad")["systems"] == 6
    assert index("squad")["right"] == [
        sum(row["right"] == "1" for row in rows) for rows in zip(*rights, strict=True)
    ]


def test_files_of_unchanged_answers_are_used_again(
    made_up: Path, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, site = copy_of(made_up, tmp_path, "system-00", "system-01"), tmp_path / "site"
    write_leaderboard(folder, site, home=home)
    path = folder / "system-00/predictions/sst.validation.jsonl"
    path.write_text(path.read_text(encoding="utf-8").replace("positive", "negative"), encoding="utf-8")
    asked = []
    reader = example_pages._read_answers
    monkeypatch.setattr(
        example_pages, "_read_answers", lambda path, ids: asked.append(path) or reader(path, ids)
    )
    write_leaderboard(folder, site, home=home)
    assert asked == [path]
    monkeypatch.undo()
    write_leaderboard(folder, tmp_path / "new", home=home)
    files = [each.relative_to(site) for each in site.rglob("*") if each.is_file()]
    files = [each for each in files if each.stem not in ("changes", "site")]  # a new site has no history
    assert len(files) > 80 and all(
        (site / each).read_bytes() == (tmp_path / "new" / each).read_bytes() for each in files
    )


def test_a_dialogue_has_its_states(made_up: Path, home: Path) -> None:
    """An answer that equals gold is wrong if an earlier turn lost the goal. The page names the turn."""
    turns = {each.id: each for each in Store(home).examples("woz.en", "validation")}
    seen = set()
    for one in shown(made_up, home)["system-03"]["woz.en"].rows:
        name, _, number = one["id"].rpartition("_")
        assert one["before"] == [turns[f"{name}_{at}"].context for at in range(int(number))]
        assert (one["right"] == "1") == (one["state"] == one["goldState"])
        assert bool(one["parted"]) == (one["state"] != one["goldState"])
        seen.add(one["parted"].partition("_")[0].partition(" ")[0])
    assert seen == {"", "here", "at"}


def why(folder: Path, home: Path, policy: Policy = "free", task: str = "squad") -> str:
    return shown(folder, home, policy)["system-00"][task].why


def test_why_there_are_none(made_up: Path, home: Path, tmp_path: Path) -> None:
    assert why(made_up, home, "none") == "The site was built without examples."
    shutil.make_archive(str(tmp_path / "zipped" / "system-00"), "zip", made_up / "system-00")
    (found,) = shown(tmp_path / "zipped", home).values()
    assert found["squad"].why == "Answers are shown only for submissions that are folders."
    write(tmp_path / "stated", [results(scores={"squad": 50.0})])
    (found,) = shown(tmp_path / "stated", home).values()
    assert found["squad"].why == "These answers were not scored for this site."


@pytest.mark.parametrize(
    "task", [name for name in SAMPLED if TASKS[name].withhold_texts and name in DECATHLON.tasks]
)
def test_text_that_may_not_be_passed_on(made_up: Path, home: Path, tmp_path: Path, task: str) -> None:
    shutil.copytree(home / "tasks", tmp_path / "tasks")
    record = tmp_path / "tasks" / task / "task.json"
    record.write_text(record.read_text(encoding="utf-8").replace('"sample"', '"mirror"'), encoding="utf-8")
    assert Store(tmp_path).record(TASKS[task].name, "validation").origin == "mirror"
    folder = copy_of(made_up, tmp_path, "system-00")
    assert why(folder, tmp_path, "free", task) == "The text of this dataset may not be redistributed."
    assert why(folder, tmp_path, "all", task) == ""
    assert why(folder, home, "free", task) == ""


# The page of `decabench show`


def test_the_page_has_every_example(home: Path, submit: Submit, tmp_path: Path) -> None:
    found = find_examples(submit("random", ["squad"]), "squad", ScoringOptions(home=home))
    index = write_example_pages(found, tmp_path / "page")
    files = [
        (path.relative_to(tmp_path / "page").as_posix(), path.read_bytes())
        for path in (tmp_path / "page").rglob("*.js")
    ]
    content, texts = read(files, "texts/all")
    assert content["ids"] == [row.id for row in found.rows]
    assert [one["question"] for one in texts] == [question for question, _ in found.texts]
    _, answers = read(files, "answers/this/all")
    assert [one["answer"] for one in answers] == [row.prediction for row in found.rows]
    assert index == tmp_path / "page/index.html"


def test_the_page_asks_nobody_else(home: Path, submit: Submit, tmp_path: Path) -> None:
    found = find_examples(submit("random", ["sst"]), "sst", ScoringOptions(home=home))
    text = write_example_pages(found, tmp_path / "page").read_text(encoding="utf-8")
    assert "default-src 'none'; script-src 'self'" in unescape(text)
    assert not re.findall(r"(?:src|href)=\"(?!static/|#)", text)
    assert "<script>" not in text and " style=" not in text


def test_equal_answers_give_equal_bytes_and_a_page_replaces_a_page(
    home: Path, submit: Submit, tmp_path: Path
) -> None:
    found = find_examples(submit("random", ["sst"]), "sst", ScoringOptions(home=home))
    write_example_pages(found, tmp_path / "page")
    before = contents(tmp_path / "page")
    write_example_pages(found, tmp_path / "page")
    assert contents(tmp_path / "page") == before
