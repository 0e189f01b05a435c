"""Evaluating submissions: results computed by hand, and refusals."""

import json
import os
import random
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import scipy.stats
import sklearn.metrics

from decabench.errors import DataError, SubmissionError
from decabench.metrics import Item
from decabench.scoring import (
    LimitedRun,
    Results,
    ScoringOptions,
    compare,
    evaluate,
    find_examples,
    score_submission,
    task_results,
    verify,
    write_results_file,
)
from decabench.scoring.significance import total_interval
from decabench.submission import SubmissionInfo, write_submission
from decabench.tasks import DECATHLON, TASKS, Store, Suite
from decabench.tasks.preparation import Request, prepare_task
from decabench.tasks.registry import load_included


def column(home, task, split, name="answers"):
    return [row[name] for row in Store(home).read(task, split, (name,))]


def first_answers(home, task, split):
    return [answers[0] for answers in column(home, task, split)]


def lines(folder, task):
    path = folder / "predictions" / f"{task}.validation.jsonl"
    return path, path.read_text(encoding="utf-8").splitlines(keepends=True)


def share(hits, of):
    return pytest.approx(100 * hits / of)


def test_gold_is_a_thousand(home, submit):
    results = evaluate(submit("oracle"), home=home)
    assert results.decascore == pytest.approx(1000)
    assert [task.score for task in results.tasks.values()] == pytest.approx([100] * 10)
    assert list(results.tasks) == list(DECATHLON.tasks)
    assert results.ok


@pytest.mark.parametrize(
    ("damage", "code", "faults"),
    [
        (lambda lines: [*lines, lines[0]], "duplicate-id", 1),
        (lambda lines: lines[:-3], "missing-id", 3),
        (lambda lines: ["{\n", *lines[1:]], "bad-json", 1),
        (lambda lines: [], "missing-id", 1),
    ],
)
def test_a_failed_task_is_not_averaged_away(home, submit, damage, code, faults):
    folder = submit("oracle")
    path, whole = lines(folder, "sst")
    path.write_text("".join(damage(whole)), encoding="utf-8")
    results = evaluate(folder, home=home)
    task = results.tasks["sst"]
    assert (task.status, task.score, task.scores, task.n) == ("failed", None, {}, 0)
    assert code in task.reason and "sst.validation.jsonl" in task.reason
    assert task.faults == faults
    assert not results.ok
    assert results.decascore is None
    assert results.total.text == "900.0 of 900 (9 of 10 tasks)"
    assert results.total.failed == ("sst",) and results.total.missing == ()


def test_gold_that_the_metric_cannot_read_fails_its_task_alone(home, own_task, submit, tmp_path, monkeypatch):
    """`prepare` refuses such gold answers, but earlier versions did not."""
    monkeypatch.setattr("decabench.tasks.taskfile.find_fault", lambda *_: "")
    own = own_task(["one", "two"], metric="pearson")
    folder = submit("oracle", ["sst"])
    shutil.copytree(home / "tasks" / "sst", tmp_path / "home" / "tasks" / "sst")
    prepare_own(own, tmp_path / "home")
    (folder / "predictions" / "own.validation.jsonl").write_text(
        '{"id": "own.validation.0", "answer": "1"}\n{"id": "own.validation.1", "answer": "2"}\n'
    )
    results = evaluate(folder, home=tmp_path / "home", include=[own])
    assert results.tasks["sst"].score == 100
    assert results.tasks["own"].status == "failed"
    reason = results.tasks["own"].reason
    assert (
        "The gold answer 'one' in example own.validation.0 can't be scored because it has no number" in reason
    )


def prepare_own(own, home):
    from decabench.tasks.preparation import Request, prepare_task
    from decabench.tasks.registry import load_included

    prepare_task(load_included(own)[0], Request(home, progress=False))


def test_a_task_of_ones_own_stays_out_of_the_sum(own_task, tmp_path):
    own = own_task(["one", "two", "two", "two"])
    prepare_own(own, tmp_path / "home")
    ids = column(tmp_path / "home", "own", "validation", "id")
    answers = dict.fromkeys(ids, "Two").items()
    write_submission(tmp_path / "s", SubmissionInfo("s"), {("own", "validation"): answers})
    results = evaluate(tmp_path / "s", home=tmp_path / "home", include=[own])
    assert results.tasks["own"].score == 75
    assert results.tasks["own"].data.origin == "user"
    assert results.total.tasks == 0
    with pytest.raises(SubmissionError, match="answers for any known task"):
        evaluate(tmp_path / "s", home=tmp_path / "home")


def test_answers_to_other_data_are_refused(home, submit):
    folder = submit("oracle", ["sst", "schema"])
    text = (folder / "submission.toml").read_text()
    stated = tomllib.loads(text)["data"]["sst.validation"]
    (folder / "submission.toml").write_text(text.replace(stated, "sha256:" + "0" * 64))
    with pytest.raises(DataError, match=r"not made for the prepared data: sst \(made for sha256:0000"):
        evaluate(folder, home=home)
    assert evaluate(folder, home=home, tasks=["schema"]).tasks["schema"].score == 100


def test_data_that_is_not_what_its_record_says_is_refused(home, submit, tmp_path):
    """Otherwise, a result would have the fingerprint of other data."""
    shutil.copytree(home / "tasks" / "sst", tmp_path / "home" / "tasks" / "sst")
    data = tmp_path / "home" / "tasks" / "sst"
    folder = submit("oracle", ["sst"])
    shutil.copy(data / "test.parquet", data / "validation.parquet")
    with pytest.raises(
        DataError, match=r"validation split of sst has changed since it was prepared.*--force"
    ):
        evaluate(folder, home=tmp_path / "home")
    (data / "validation.parquet").write_bytes((data / "test.parquet").read_bytes()[:-100])
    with pytest.raises(DataError, match=r"damaged|has changed since it was prepared"):
        evaluate(folder, home=tmp_path / "home")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"split": "test"}, "no test answers for any known task"),
        ({"tasks": ["squad"]}, "no validation answers for squad"),
    ],
)
def test_nothing_to_score(home, submit, arguments, sentence):
    with pytest.raises(SubmissionError, match=sentence):
        evaluate(submit("oracle", ["sst"]), home=home, **arguments)


def packed_zip(folder, target):
    with zipfile.ZipFile(target.with_suffix(".zip"), "w") as archive:
        for path in sorted(folder.rglob("*")):
            archive.write(path, path.relative_to(folder))
    return target.with_suffix(".zip")


def test_a_fault_of_an_archive_names_the_archive(home, submit, tmp_path):
    folder = submit("oracle", ["sst"])
    (folder / "submission.toml").unlink()
    archive = packed_zip(folder, tmp_path / "packed")
    with pytest.raises(SubmissionError, match=f"^{re.escape(archive.name)}: no-submission-toml"):
        evaluate(archive, home=home)


def test_packing_and_order_of_answers_change_nothing(home, submit):
    folder = submit("random", ["sst", "woz.en", "zre"])
    plain = evaluate(folder, home=home).to_json()
    for task in ("sst", "woz.en", "zre"):
        path, whole = lines(folder, task)
        path.write_text("".join(reversed(whole)), encoding="utf-8")
    assert evaluate(folder, home=home).to_json() == plain
    packed = submit("random", ["sst", "woz.en", "zre"], "packed", compress="zst")
    assert evaluate(packed, home=home).to_json() == plain


@pytest.mark.slow
def test_processes_change_no_byte(home, submit, monkeypatch):
    folder = submit("random")
    alone = evaluate(folder, home=home).to_json()
    started = []
    pool = task_results.process_pool
    monkeypatch.setattr(task_results.Ledger, "find", lambda *_: None)
    monkeypatch.setattr(task_results, "_WORTH_A_PROCESS", 1)
    monkeypatch.setattr(task_results, "_CHUNK", 7)
    monkeypatch.setattr(task_results, "_WORTH_SECONDS", 0.0)
    monkeypatch.setattr(task_results, "process_pool", lambda jobs: started.append(jobs) or pool(jobs))
    assert evaluate(folder, home=home, jobs=2).to_json() == alone
    assert started == [2]


def test_what_a_result_says_of_its_data(home, submit):
    results = evaluate(submit("oracle", ["squad", "iwslt.en.de"]), home=home)
    record = Store(home).record("squad", "validation")
    data = results.tasks["squad"].data
    assert (data.fingerprint, data.origin, data.rows) == (record.fingerprint, "sample", 32)
    assert data.published_count == 10_570
    assert "instead of TED talks" in results.tasks["iwslt.en.de"].data.note
    assert results.tasks["squad"].signature.startswith("nf1|")
    assert "sacrebleu:" in results.tasks["iwslt.en.de"].signature
    assert results.tasks["iwslt.en.de"].signatures.keys() == {"bleu", "nf1"}
    assert results.submission["name"] == "oracle" and results.submission["date"] == "2026-01-31"


@pytest.mark.heavy
def test_a_plain_script_may_evaluate(home, submit, tmp_path):
    """A script without `if __name__ == "__main__":` can't start processes, so evaluating must not need them."""
    folder = submit("oracle", ["sst"])
    script = tmp_path / "script.py"
    script.write_text(
        "import decabench, decabench.scoring.task_results\n"
        "decabench.scoring.task_results._WORTH_A_PROCESS = 1\n"
        f"print(decabench.evaluate({str(folder)!r}, home={str(home)!r}).total.text)\n"
    )
    root = str(Path(__file__).parents[2])
    done = subprocess.run(
        [sys.executable, script],
        env={**os.environ, "PYTHONPATH": root},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.stdout, done.stderr) == ("100.0 of 100 (1 of 10 tasks)\n", "")


def gold_lines(home, task, **more):
    """Return lines with the first gold answer of each example. `more` adds fields to lines by index."""
    examples = list(Store(home).examples(task, "validation"))
    rows = [{"id": example.id, "answer": example.answers[0]} for example in examples]
    for index, line in more.items():
        rows[int(index.removeprefix("at"))] |= line
    return rows


def put(folder, task, rows, variant=0):
    above = folder / "variants" / str(variant) if variant else folder
    path = above / "predictions" / f"{task}.validation.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder


def mark(folder, table, key, **fields):
    """Write submission.toml with the mark of a limited or failed run."""
    values = "".join(f"{name} = {json.dumps(value)}\n" for name, value in fields.items())
    head = 'format = "decabench.submission/1"\nname = "n"\n'
    (folder / "submission.toml").write_text(f'{head}[{table}."{key}"]\n{values}')
    return folder


def test_a_limited_run_is_scored_on_what_it_answered_and_stays_out_of_every_sum(home, submit):
    folder = submit("oracle")
    whole = evaluate(folder, home=home)
    put(folder, "sst", gold_lines(home, "sst", at0={"answer": "neither"})[:8])
    text = (folder / "submission.toml").read_text()
    more = '[partial."sst.validation"]\nanswered = 8\nof = 32\nchosen = "limit 8"\n'
    (folder / "submission.toml").write_text(f"{text}\n{more}")
    results = evaluate(folder, home=home)
    task = results.tasks["sst"]
    assert (task.status, task.n, task.score) == ("partial", 8, share(7, 8))
    assert task.partial == LimitedRun(8, 32, "limit 8")
    assert task.interval is not None and task.data == whole.tasks["sst"].data
    assert results.decascore is None and results.interval is None
    assert results.total.text == "900.0 of 900 (9 of 10 tasks; 1 partial, not summed)"
    assert (results.total.partial, results.total.missing, results.total.failed) == (("sst",), (), ())
    assert results.ok


def test_a_limited_run_cuts_dialogues_where_it_must(home, tmp_path):
    whole = gold_lines(home, "woz.en")
    rows = whole[1::2]
    numbers = {"answered": len(rows), "of": len(whole)}
    folder = mark(put(tmp_path, "woz.en", rows), "partial", "woz.en.validation", **numbers)
    assert evaluate(folder, home=home).tasks["woz.en"].score == pytest.approx(100)


@pytest.mark.parametrize(("answered", "of", "kept"), [(8, 32, 9), (8, 32, 7), (8, 33, 8)])
def test_a_limited_run_with_other_numbers_fails(home, tmp_path, answered, of, kept):
    folder = put(tmp_path, "sst", gold_lines(home, "sst")[:kept])
    mark(folder, "partial", "sst.validation", answered=answered, of=of)
    task = evaluate(folder, home=home).tasks["sst"]
    assert (task.status, task.score, task.partial) == ("failed", None, None)
    assert "wrong-count" in task.reason


def test_what_lines_tell_of_their_answers_is_counted_and_changes_no_score(home, tmp_path):
    told = {
        "at0": {"rule": "label+unparseable", "raw": "well"},
        "at1": {"rule": "unparseable", "finish": "length"},
        "at2": {"rule": "refused", "finish": "refused"},
        "at3": {"context_kept": [0, 1]},
        "at4": {"rule": "marker", "raw": "It is positive"},
    }
    plain = evaluate(mark(put(tmp_path / "a", "sst", gold_lines(home, "sst")), "x", "y"), home=home)
    rich = evaluate(mark(put(tmp_path / "b", "sst", gold_lines(home, "sst", **told)), "x", "y"), home=home)
    counts = {"unparseable": 2, "truncated": 1, "refused": 1, "context_cut": 1}
    assert rich.tasks["sst"].answers == counts
    assert rich.tasks["sst"].ceiling is None
    plain_task, rich_task = plain.tasks["sst"], rich.tasks["sst"]
    assert (rich_task.score, rich_task.predictions) == (plain_task.score, plain_task.predictions)
    assert plain_task.answers == {}


def test_an_answer_is_counted_under_one_name(home, tmp_path):
    told = {
        "at0": {"answer": "", "rule": "tag+unparseable"},
        "at1": {"answer": "", "finish": "refused"},
        "at2": {"answer": ""},
    }
    folder = mark(put(tmp_path, "sst", gold_lines(home, "sst", **told)), "x", "y")
    task = evaluate(folder, home=home).tasks["sst"]
    assert (task.empty, task.answers["unparseable"], task.answers["refused"]) == (1, 1, 1)


def test_raw_answers_are_another_score(home, tmp_path):
    told = {"at0": {"raw": "I think so"}, "at1": {"raw": ""}, "at2": {"rule": "as-is"}}
    folder = mark(put(tmp_path, "sst", gold_lines(home, "sst", **told)), "x", "y")
    extracted, raw = (evaluate(folder, home=home, answers=kind) for kind in ("extracted", "raw"))
    assert (extracted.tasks["sst"].score, raw.tasks["sst"].score) == (100, share(30, 32))
    assert (extracted.tasks["sst"].empty, raw.tasks["sst"].empty) == (0, 1)
    assert extracted.tasks["sst"].predictions != raw.tasks["sst"].predictions
    assert '"answers": "raw"' in raw.to_json() and '"answers"' not in extracted.to_json()


def test_the_ceiling_is_the_share_whose_gold_answer_was_not_cut_off(home, tmp_path):
    examples = list(Store(home).examples("squad", "validation"))
    start = examples[0].context.index(examples[0].answers[0])
    told = {"at0": {"context_kept": [0, start]}, "at1": {"context_kept": [0, len(examples[1].context)]}}
    folder = mark(put(tmp_path, "squad", gold_lines(home, "squad", **told)), "x", "y")
    task = evaluate(folder, home=home).tasks["squad"]
    lost = any(answer in examples[0].context[:start] for answer in examples[0].answers)
    assert not lost
    assert task.ceiling == share(31, 32)
    assert task.answers == {"context_cut": 2}


def test_other_wordings_have_mean_worst_and_spread(home, tmp_path):
    gold = gold_lines(home, "sst")
    wrong = [row | {"answer": "neither"} for row in gold]
    put(tmp_path, "sst", wrong[:4] + gold[4:])
    put(tmp_path, "sst", wrong[:16] + gold[16:], variant=1)
    put(tmp_path, "sst", wrong[:20] + gold[20:], variant=2)  # retired
    put(tmp_path, "sst", gold, variant=4)
    results = evaluate(mark(tmp_path, "x", "y"), home=home)
    found = results.tasks["sst"].variants
    assert found.scores == {"0": share(28, 32), "1": share(16, 32), "4": share(32, 32)}
    assert found.retired == {"2": share(12, 32)}
    assert found.mean == pytest.approx(100 * (28 + 16 + 32) / 96)
    assert (found.worst, found.spread) == (50, 50)
    assert results.tasks["sst"].score == found.scores["0"]
    assert found.predictions.keys() == {"1", "2", "4"} and not found.failed


def test_a_wording_with_faults_has_no_score_and_leaves_the_others_theirs(home, tmp_path):
    gold = gold_lines(home, "sst")
    for variant, rows in ((0, gold), (1, gold[1:]), (4, gold), (99, gold)):
        put(tmp_path, "sst", rows, variant)
    found = evaluate(mark(tmp_path, "x", "y"), home=home).tasks["sst"].variants
    assert found.scores.keys() == {"0", "4"}
    assert "missing-id" in found.failed["1"]
    assert found.failed["99"].startswith("sst has 6 variants, but the answers are for variant 99")


def test_a_wording_of_a_limited_run_answers_the_same_examples(home, tmp_path):
    gold = gold_lines(home, "sst")
    for variant, rows in ((0, gold[:8]), (1, gold[:8]), (2, gold[1:9])):
        put(tmp_path, "sst", rows, variant)
    mark(tmp_path, "partial", "sst.validation", answered=8, of=32)
    task = evaluate(tmp_path, home=home).tasks["sst"]
    assert (task.status, task.variants.scores) == ("partial", {"0": 100, "1": 100})
    assert "answer different examples" in task.variants.failed["2"]


def test_a_refused_answer_is_wrong_even_where_an_empty_one_is_right(home, submit):
    """An empty answer is right in a turn without changes, but a refusal is not. Later turns keep the state."""
    folder = submit("oracle", ["woz.en"])
    path, found = lines(folder, "woz.en")
    ids = [json.loads(line)["id"] for line in found]
    at = next(at for at, answer in enumerate(first_answers(home, "woz.en", "validation")) if answer == "None")
    scores = {}
    for finish in ("stop", "refused"):
        found[at] = json.dumps({"id": ids[at], "answer": "", "finish": finish}) + "\n"
        path.write_text("".join(found))
        scores[finish] = evaluate(folder, tasks="woz.en", home=home).tasks["woz.en"].scores
    for name in ("joint_goal_em", "turn_goal_em", "turn_request_em"):
        assert scores["refused"][name] == share(len(ids) - 1, len(ids))
    assert scores["stop"]["joint_goal_em"] == 100


def test_a_refusal_is_no_claim_that_a_question_has_no_answer():
    gold = [Item(("unanswerable",)), Item(("Paris",))]
    texts, metrics = ["", "Paris"], ("squad2",)
    assert task_results.score_task(metrics, texts, gold, None).scores["f1"] == 100
    assert task_results.score_task(metrics, texts, gold, None, refused=[0]).scores["f1"] == 50


# Totals by suite, and metrics of which lower is better: evaluated, verified and compared the right way round


PAIR = Suite("pair", "Two tasks", ("schema", "sst"), "mean", "average")


def test_an_eleventh_task_in_the_registry_changes_no_total(
    home: Path,
    submit: Callable[..., Path],
    own_task: Callable[..., Path],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    before = evaluate(submit("oracle"), home=home)
    (own,) = load_included(own_task(["one", "two"]))
    monkeypatch.setitem(TASKS, "own", own)
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "tasks").mkdir()
    for folder in (home / "tasks").iterdir():
        (tmp_path / "home" / "tasks" / folder.name).symlink_to(folder)
    prepare_task(own, Request(tmp_path / "home", progress=False))
    gold = [
        (example.id, example.answers[0]) for example in Store(tmp_path / "home").examples("own", "validation")
    ]
    (tmp_path / "oracle" / "predictions" / "own.validation.jsonl").write_text(
        "".join(json.dumps({"id": id_, "answer": answer}) + "\n" for id_, answer in gold)
    )
    results = evaluate(tmp_path / "oracle", home=tmp_path / "home")
    assert list(results.tasks) == [*DECATHLON.tasks, "own"]
    assert results.tasks["own"].score == 100
    assert results.decascore == before.decascore == pytest.approx(1000)
    assert (results.total, results.interval) == (before.total, before.interval)


def test_the_total_of_another_suite(home: Path, submit: Callable[..., Path]) -> None:
    results, scored = score_submission(submit("majority"), ScoringOptions(home=home, suite=PAIR))
    total = results.total
    assert list(results.tasks)[:2] == ["schema", "sst"] and len(results.tasks) == 10
    assert total.score == pytest.approx((results.tasks["schema"].score + results.tasks["sst"].score) / 2)
    assert total.text == f"{total.score:.1f} (mean of 2)"
    assert results.decascore is None
    assert results.interval == total_interval([scored[name].sample for name in PAIR.tasks], "mean").ends


def test_a_suite_that_is_not_whole_has_no_interval(home: Path, submit: Callable[..., Path]) -> None:
    results = evaluate(submit("majority", ["sst"]), home=home, suite=PAIR)
    assert results.total.text == f"{results.tasks['sst'].score:.1f} (mean of 1 of 2 tasks)"
    assert results.total.missing == ("schema",)
    assert results.interval is None and results.tasks["sst"].interval is not None


def test_the_results_of_another_suite_are_verified(home: Path, submit: Callable[..., Path]) -> None:
    folder = submit("majority", PAIR.tasks)
    path = write_results_file(folder / "results" / "pair", evaluate(folder, home=home, suite=PAIR))
    assert verify(folder, path, home) == []
    path.write_text(path.read_text().replace('"total": "mean"', '"total": "sum"'))
    places = [one.where for one in verify(folder, path, home)]
    assert {"interval", "total.score", "total.text"} <= set(places)


def test_suites_are_compared_by_their_total(home: Path, submit: Callable[..., Path]) -> None:
    a, b = submit("majority", PAIR.tasks), submit("oracle", PAIR.tasks)
    found = compare(a, b, home=home, suite=PAIR)
    assert found.total is not None and found.total.b == 100
    assert found.total.difference == pytest.approx(sum(task.difference for task in found.tasks.values()) / 2)
    content = json.loads(found.to_json())
    assert content["suite"] == "pair" and content["total"]["b"] == 100 and "decascore" not in content
    assert compare(a, b, home=home).total is None
    none = Suite("pair", "Two tasks", PAIR.tasks)
    assert compare(a, b, home=home, suite=none).total is None


@pytest.fixture
def numbers(own_task: Callable[..., Path], tmp_path: Path) -> Callable[..., Path]:
    """A task with the mean squared error as its metric, whose gold answers are 0 to 29."""
    own = own_task(range(30), metric="mse")
    (task,) = load_included(own)
    prepare_task(task, Request(tmp_path / "home", progress=False))

    def make(name: str, errors: dict[int, float]) -> Path:
        examples = Store(tmp_path / "home").examples("own", "validation")
        answers = [
            (example.id, str(float(example.answers[0]) + errors.get(index, 0.0)))
            for index, example in enumerate(examples)
        ]
        write_submission(tmp_path / name, SubmissionInfo(name), {("own", "validation"): answers})
        return tmp_path / name

    return make


def errors(numbers: Callable[..., Path], tmp_path: Path) -> tuple[Path, Path, dict[str, Any]]:
    """A is off by 2 on one example. B is off by 1 on it and by 3 on two others."""
    suite = Suite("errors", "Errors", ("own",), "mean", "mean error")
    options = {"home": tmp_path / "home", "include": [tmp_path / "own.toml"], "suite": suite}
    return numbers("a", {4: 2.0}), numbers("b", {4: 1.0, 7: 3.0, 9: 3.0}), options


def test_where_lower_is_better_b_gains_by_fewer_points(numbers: Callable[..., Path], tmp_path: Path) -> None:
    a, b, options = errors(numbers, tmp_path)
    found = compare(a, b, **options)
    task = found.tasks["own"]
    assert (task.a, task.b) == (pytest.approx(4 / 30), pytest.approx(19 / 30))
    assert task.difference == pytest.approx(0.5) and task.gain == pytest.approx(-0.5)
    assert (task.a_wins, task.b_wins) == (2, 1)
    assert [flip.id for flip in task.worst] == ["own.validation.7", "own.validation.9"]
    assert task.worst[0].loss == pytest.approx(9 / 30)
    assert found.total is not None and found.total.gain == pytest.approx(-0.5)
    assert json.loads(found.to_json())["tasks"]["own"]["higher_is_better"] is False
    assert compare(b, a, **options).tasks["own"].gain == pytest.approx(0.5)


def test_scores_beyond_100_are_written_and_read(numbers: Callable[..., Path], tmp_path: Path) -> None:
    a = numbers("a", dict.fromkeys(range(30), 20.0))
    results = evaluate(a, home=tmp_path / "home", include=[tmp_path / "own.toml"])
    assert results.tasks["own"].score == pytest.approx(400)
    path = write_results_file(tmp_path / "out", results)
    assert verify(a, path, tmp_path / "home", include=[tmp_path / "own.toml"]) == []


def test_the_worst_wording_of_an_error_is_the_highest(own_task: Callable[..., Path], tmp_path: Path) -> None:
    """Errors of 0, 1 and 2 on one example of four: the mean squared errors are 0, 1/4 and 1."""
    own = own_task(range(4), metric="mse")
    own.write_text(own.read_text() + '[[variants]]\nname = "a"\nquestion = "{question} Tell."\n' * 2)
    own.write_text(own.read_text().replace('name = "a"', 'name = "b"', 1))
    (task,) = load_included(own)
    prepare_task(task, Request(tmp_path / "home", progress=False))
    ids = [example.id for example in Store(tmp_path / "home").examples("own", "validation")]
    folder = tmp_path / "sub"
    for number, error in enumerate((1, 0, 2)):
        answers = [(id_, str(index + error * (index == 0))) for index, id_ in enumerate(ids)]
        place = folder / "variants" / str(number) if number else folder
        write_submission(place, SubmissionInfo("a"), {("own", "validation"): answers})
    found = evaluate(folder, home=tmp_path / "home", include=[own]).tasks["own"].variants
    assert found.scores == {"0": 0.25, "1": 0.0, "2": 1.0}
    assert (found.worst, found.spread) == (1.0, 1.0)


def test_compare_prints_and_fails_on_errors_that_grow(
    command: Callable[..., object], numbers: Callable[..., Path], tmp_path: Path
) -> None:
    a, b, _ = errors(numbers, tmp_path)
    shared = ["--home", tmp_path / "home", "--include", tmp_path / "own.toml"]
    done = command("compare", a, b, *shared, "--fail-on-regression", "own:0.4")
    assert done.exit_code == 1
    assert "Regression: on own, B is worse than A by 0.500 points, more than the allowed 0.4" in done.stderr
    assert "own ↓" in done.stdout and "\n↓ lower is better\n" in done.stdout
    assert "0.133" in done.stdout and "0.633" in done.stdout and "+0.500" in done.stdout
    assert "own.validation.7: B is worse here (-0.3000 points)" in done.stdout
    assert command("compare", a, b, *shared, "--fail-on-regression", "own:0.6").exit_code == 0
    assert command("compare", b, a, *shared, "--fail-on-regression", "own:0").exit_code == 0


def test_evaluate_says_that_lower_is_better(
    command: Callable[..., object], numbers: Callable[..., Path], tmp_path: Path
) -> None:
    a, _, _ = errors(numbers, tmp_path)
    shared = ["--home", tmp_path / "home", "--include", tmp_path / "own.toml", "--all-scores"]
    done = command("evaluate", "--submission", a, *shared)
    assert done.exit_code == 0
    assert "mse ↓" in done.stdout and "mse ↓ 0.133, unreadable 0.000" in done.stdout
    assert "\n↓ lower is better\n" in done.stdout


# Scores without some examples: those of the rest, by scipy and scikit-learn


Score = Callable[[Sequence[str], Sequence[str], Sequence[int]], Results]


@pytest.fixture
def score(own_task: Callable[..., Path], tmp_path: Path) -> Callable[..., Any]:
    """Score answers to a task with these gold answers and metrics, with and without some examples."""

    def run(golds: Sequence[str], answers: Sequence[str], left_out: Sequence[int], metric: str) -> Any:
        file = own_task(golds, metric=metric)
        (task,) = load_included(file)
        prepare_task(task, Request(tmp_path / "home", progress=False))
        ids = [f"own.validation.{number}" for number in range(len(golds))]
        lines = {("own", "validation"): list(zip(ids, answers, strict=True))}
        write_submission(tmp_path / "sub", SubmissionInfo("sub"), lines)
        without = {"own": [ids[at] for at in left_out]} if left_out else {}
        results = evaluate(tmp_path / "sub", home=tmp_path / "home", include=[file], without=without)
        return results.tasks["own"]

    return run


def numbers_of_without(seed: int, n: int = 300) -> tuple[list[str], list[str], list[int]]:
    """Return gold answers, answers that are better on the left-out examples, and the left-out positions."""
    draw = random.Random(seed)
    left_out = sorted(draw.sample(range(n), n // 3))
    unwanted = set(left_out)
    golds = [draw.uniform(4, 5) if at in unwanted else draw.uniform(1, 3.5) for at in range(n)]
    answers = [gold + draw.gauss(0, 0.2 if at in unwanted else 1.5) for at, gold in enumerate(golds)]
    return [f"{gold:.2f}" for gold in golds], [f"{answer:.2f}" for answer in answers], left_out


@pytest.mark.parametrize(
    ("metric", "key", "expected"),
    [
        ("spearman", "spearman", lambda x, y: 100 * scipy.stats.spearmanr(x, y).statistic),
        ("pearson", "pearson", lambda x, y: 100 * scipy.stats.pearsonr(x, y).statistic),
        ("relatedness", "spearman", lambda x, y: 100 * scipy.stats.spearmanr(x, y).statistic),
        ("relatedness", "mse", lambda x, y: sum((a - b) ** 2 for a, b in zip(x, y, strict=True)) / len(x)),
    ],
)
def test_ranks_are_those_of_the_rest(score: Any, metric: str, key: str, expected: Any) -> None:
    golds, answers, left_out = numbers_of_without(1)
    rest = [at for at in range(len(golds)) if at not in set(left_out)]
    x, y = ([float(texts[at]) for at in rest] for texts in (answers, golds))
    found = score(golds, answers, left_out, metric)
    assert found.status == "partial" and found.partial.of == len(golds)
    assert found.n == len(rest)
    assert found.scores[key] == pytest.approx(expected(x, y), abs=1e-9)
    assert found.interval[0] <= found.score <= found.interval[1]


def test_an_unreadable_answer_gets_the_end_of_the_rest_s_range(score: Any) -> None:
    """With the left-out 5, gold ranges from 1 to 5, and without it from 1 to 3."""
    golds, answers = ["1", "2", "3", "5"], ["1", "?", "3", "5"]
    assert score(golds, answers, [], "mse").score == pytest.approx(3**2 / 4)
    assert score(golds, answers, [3], "mse").score == pytest.approx(1 / 3)


def test_classes_are_those_of_the_rest(score: Any) -> None:
    """If all examples of a class are left out, it isn't a gold class, and predicting it is simply wrong."""
    golds = ["a", "b", "a", "b", "c", "c"] * 10
    answers = ["a", "c", "x", "b", "c", "b"] * 10
    left_out = [at for at, gold in enumerate(golds) if gold == "c"]
    rest = [at for at in range(len(golds)) if golds[at] != "c"]
    found = score(golds, answers, left_out, "mcc")
    folded = [answers[at] if answers[at] in "ab" else "other" for at in rest]
    wanted = sklearn.metrics.matthews_corrcoef([golds[at] for at in rest], folded)
    assert found.scores["mcc"] == pytest.approx(100 * wanted)


def test_if_none_of_the_ids_is_in_the_data(score: Any, tmp_path: Path) -> None:
    score(["a", "b"], ["a", "b"], [0], "em")
    options = {"home": tmp_path / "home", "include": [tmp_path / "own.toml"]}
    with pytest.raises(DataError, match=r"The examples to leave out \(own\) are not in .*: x, y"):
        evaluate(tmp_path / "sub", without={"own": ["x", "y"]}, **options)
    with pytest.warns(UserWarning, match="can't be left out: x"):
        found = evaluate(tmp_path / "sub", without={"own": ["x", "own.validation.1"]}, **options)
    assert found.tasks["own"].partial.without == ("own.validation.1",)


def test_a_turn_keeps_the_state_that_was_answered_before(home: Path, submit: Callable[..., Path]) -> None:
    """If the first turn of each dialogue is left out, later turns still start from its state."""
    folder = submit("oracle", ["woz.en"])
    lines = (folder / "predictions" / "woz.en.validation.jsonl").read_text().splitlines()
    ids = [json.loads(line)["id"] for line in lines]
    found = evaluate(folder, home=home, without={"woz.en": [id_ for id_ in ids if id_.endswith("_0")]})
    assert found.tasks["woz.en"].score == 100 and found.tasks["woz.en"].status == "partial"


def test_flags_without_some_examples(home: Path, submit: Callable[..., Path]) -> None:
    """An unparseable answer isn't counted as empty too, and the flags of left-out examples aren't counted."""
    folder = submit("oracle", ["sst"])
    path = folder / "predictions" / "sst.validation.jsonl"
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    for line in lines[:3]:
        line.update(answer="", raw="hm", rule="unparseable")
    lines[3]["answer"] = ""
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    found = evaluate(folder, home=home, without={"sst": [lines[0]["id"], lines[9]["id"]]}).tasks["sst"]
    assert (found.n, found.empty, found.answers["unparseable"]) == (len(lines) - 2, 1, 2)
    shown = find_examples(folder, "sst", ScoringOptions(home=home))
    assert (shown.flags["unparseable"], shown.flags["empty"]) == (3, 1)
