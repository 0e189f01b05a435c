"""A submission and data in, results out: numbers worked out here by hand, and refusals."""

import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest

import decabench
from decabench import scoring
from decabench.errors import DataError, MissingDataError, SubmissionError, UnknownNameError
from decabench.evaluator import evaluate
from decabench.submission import SubmissionInfo, write_submission
from decabench.tasks import DECATHLON
from decabench.tasks.store import Store


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
    assert list(results.tasks) == list(DECATHLON)
    assert results.ok


@pytest.mark.parametrize("task", ["sst", "multinli.in.out", "schema"])
def test_majority_scores_its_share(home, submit, task):
    training, gold = first_answers(home, task, "train"), first_answers(home, task, "validation")
    commonest = max(training, key=lambda answer: (training.count(answer), -training.index(answer)))
    results = evaluate(submit("majority", [task]), home=home)
    assert results.tasks[task].score == share(gold.count(commonest), len(gold))
    assert results.tasks[task].n == len(gold)


def test_first_choice_scores_its_share(home, submit):
    gold = first_answers(home, "schema", "validation")
    asked = column(home, "schema", "validation", "question")
    offered = [question.rpartition("? ")[2].partition(" or ")[0] for question in asked]
    hits = sum(one.lower() == other.lower() for one, other in zip(offered, gold, strict=True))
    assert 0 < hits < len(gold)
    assert evaluate(submit("first-choice", ["schema"]), home=home).tasks["schema"].score == share(
        hits, len(gold)
    )


def test_best_of_several_references(home, tmp_path):
    answers = column(home, "squad", "validation")
    ids = column(home, "squad", "validation", "id")
    assert any(references[-1] != references[0] for references in answers)
    write_submission(
        tmp_path / "last",
        SubmissionInfo("last"),
        {("squad", "validation"): zip(ids, [references[-1] for references in answers], strict=True)},
    )
    assert evaluate(tmp_path / "last", home=home).tasks["squad"].score == 100


def test_mean_of_overlaps(home, tmp_path):
    """Half of the answers right, the others two words of which one is right: F1 2/3."""
    ids, answers = column(home, "srl", "validation", "id"), column(home, "srl", "validation")
    one_word = [
        (id, references[0])
        for id, references in zip(ids, answers, strict=True)
        if all(len(text.split()) == 1 for text in references)
        and references[0].isalpha()
        and references[0].lower() not in ("a", "an", "the")
    ]
    assert one_word
    texts = dict.fromkeys(ids, "") | {id: f"{answer} zzz" for id, answer in one_word}
    write_submission(tmp_path / "s", SubmissionInfo("s"), {("srl", "validation"): texts.items()})
    task = evaluate(tmp_path / "s", home=home).tasks["srl"]
    assert task.score == pytest.approx(100 * len(one_word) * (2 / 3) / len(ids))
    assert task.scores["em"] == 0
    assert task.empty == len(ids) - len(one_word)


def test_seven_of_ten(home, submit):
    results = evaluate(submit("oracle", DECATHLON[:7]), home=home)
    assert results.total.text == "700.0 of 700 (7 of 10 tasks)"
    assert results.decascore is None
    assert results.total.missing == DECATHLON[7:]
    assert json.loads(results.to_json())["decascore"] is None
    assert results.ok


def test_tasks_narrow_it(home, submit):
    results = evaluate(submit("oracle"), home=home, tasks=["schema", "sst"])
    assert list(results.tasks) == ["sst", "schema"]


@pytest.mark.parametrize(
    ("damage", "code", "faults"),
    [
        (lambda lines: [*lines, lines[0]], "duplicate-id", 1),
        (lambda lines: lines[1:], "missing-id", 1),
        (lambda lines: lines[:-3], "missing-id", 3),
        (lambda lines: [*lines, '{"id": "nobody", "answer": "x"}\n'], "unknown-id", 1),
        (lambda lines: ["{\n", *lines[1:]], "bad-json", 2),
        (lambda lines: [], "missing-id", 32),
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


def test_gold_that_the_metric_cannot_read_fails_its_task_alone(home, own_task, submit, tmp_path):
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
    assert "has to be a number" in results.tasks["own"].reason


def prepare_own(own, home):
    from decabench.tasks.custom import included_tasks
    from decabench.tasks.prepare import Request, prepare_task

    prepare_task(included_tasks(own)[0], Request(home, progress=False))


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
    with pytest.raises(SubmissionError, match="no answers for any known task"):
        evaluate(tmp_path / "s", home=tmp_path / "home")


def test_answers_to_other_data_are_refused(home, submit):
    folder = submit("oracle", ["sst", "schema"])
    text = (folder / "submission.toml").read_text()
    stated = tomllib.loads(text)["data"]["sst.validation"]
    (folder / "submission.toml").write_text(text.replace(stated, "sha256:" + "0" * 64))
    with pytest.raises(DataError, match=r"made for other data than is prepared: sst \(made for sha256:0000"):
        evaluate(folder, home=home)
    assert evaluate(folder, home=home, tasks=["schema"]).tasks["schema"].score == 100


def test_a_submission_that_states_no_data_is_scored(home, submit):
    folder = submit("oracle", ["sst"])
    text = (folder / "submission.toml").read_text()
    (folder / "submission.toml").write_text(text.partition("[data]")[0])
    assert evaluate(folder, home=home).tasks["sst"].score == 100


def test_data_that_is_not_what_its_record_says_is_refused(home, submit, tmp_path):
    """Else a result would carry the fingerprint of data that it was not scored on."""
    shutil.copytree(home / "tasks" / "sst", tmp_path / "home" / "tasks" / "sst")
    data = tmp_path / "home" / "tasks" / "sst"
    folder = submit("oracle", ["sst"])
    assert evaluate(folder, home=tmp_path / "home").tasks["sst"].score == 100
    shutil.copy(data / "test.parquet", data / "validation.parquet")
    with pytest.raises(DataError, match=r"sst, validation, is not what its record says.*--force"):
        evaluate(folder, home=tmp_path / "home")
    (data / "validation.parquet").write_bytes((data / "test.parquet").read_bytes()[:-100])
    with pytest.raises(DataError, match="damaged"):
        evaluate(folder, home=tmp_path / "home")


def test_data_that_is_not_prepared(home, submit, tmp_path):
    folder = submit("oracle", ["sst", "squad"])
    shutil.copytree(home / "tasks" / "sst", tmp_path / "home" / "tasks" / "sst")
    with pytest.raises(MissingDataError, match=r"The data of squad is not prepared in .*home: run decabench"):
        evaluate(folder, home=tmp_path / "home")
    assert evaluate(folder, home=tmp_path / "home", tasks=["sst"]).ok


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"tasks": ["sqaud"]}, "There is no task 'sqaud'. Did you mean squad"),
        ({"split": "dev"}, "There is no split 'dev'. Known: train, validation, test"),
    ],
)
def test_unknown_names(home, submit, arguments, sentence):
    with pytest.raises(UnknownNameError, match=re.escape(sentence)):
        evaluate(submit("oracle", ["sst"]), home=home, **arguments)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"split": "test"}, "no answers for any known task on test"),
        ({"tasks": ["squad"]}, "no answers for squad on validation"),
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


def packed_tar(folder, target):
    with tarfile.open(f"{target}.tar.gz", "w:gz") as archive:
        archive.add(folder, "inside")
    return Path(f"{target}.tar.gz")


@pytest.mark.parametrize("pack", [packed_zip, packed_tar])
def test_an_archive_gives_the_same_bytes(home, submit, tmp_path, pack):
    folder = submit("random")
    archive = pack(folder, tmp_path / "packed")
    assert evaluate(archive, home=home).to_json() == evaluate(folder, home=home).to_json()


@pytest.mark.parametrize("pack", [packed_zip, packed_tar])
def test_a_fault_of_an_archive_names_the_archive(home, submit, tmp_path, pack):
    folder = submit("oracle", ["sst"])
    (folder / "submission.toml").unlink()
    archive = pack(folder, tmp_path / "packed")
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
    executor = scoring.ProcessPoolExecutor
    monkeypatch.setattr(scoring, "_WORTH_A_PROCESS", 1)
    monkeypatch.setattr(scoring, "_CHUNK", 7)
    monkeypatch.setattr(
        scoring, "ProcessPoolExecutor", lambda jobs, *rest: started.append(jobs) or executor(jobs, *rest)
    )
    assert evaluate(folder, home=home, jobs=2).to_json() == alone
    assert started == [2]


def test_what_a_result_says_of_its_data(home, submit):
    results = evaluate(submit("oracle", ["squad", "iwslt.en.de"]), home=home)
    record = Store(home).record("squad", "validation")
    data = results.tasks["squad"].data
    assert (data.fingerprint, data.origin, data.rows) == (record.fingerprint, "sample", 32)
    assert data.published_count == 10_570
    assert "stand-in" in results.tasks["iwslt.en.de"].data.note
    assert results.tasks["squad"].signature.startswith("nf1|")
    assert "sacrebleu:" in results.tasks["iwslt.en.de"].signature
    assert results.tasks["iwslt.en.de"].signatures.keys() == {"bleu", "nf1"}
    assert results.submission["name"] == "oracle" and results.submission["date"] == "2026-01-31"


def test_from_the_package(home, submit):
    results = decabench.evaluate(str(submit("oracle", ["sst"])), split="validation", home=str(home))
    assert results.tasks["sst"].score == 100


@pytest.mark.slow
def test_a_plain_script_may_evaluate(home, submit, tmp_path):
    """Without `if __name__ == "__main__":` a script could not start processes, so it must not have to."""
    folder = submit("oracle", ["sst"])
    script = tmp_path / "script.py"
    script.write_text(
        "import decabench, decabench.scoring\n"
        "decabench.scoring._WORTH_A_PROCESS = 1\n"
        f"print(decabench.evaluate({str(folder)!r}, home={str(home)!r}).total.text)\n"
    )
    root = str(Path(__file__).parents[1])
    done = subprocess.run(
        [sys.executable, script],
        env={**os.environ, "PYTHONPATH": root},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.stdout, done.stderr) == ("100.0 of 100 (1 of 10 tasks)\n", "")
