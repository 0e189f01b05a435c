"""`decabench evaluate`: output, files and exit codes. tests/scoring/test_evaluator.py tests the numbers."""

import json
import re
import shutil

import pytest

from decabench.scoring.results import read_results_file
from decabench.tasks import DECATHLON


def spoil(folder, task):
    with (folder / "predictions" / f"{task}.validation.jsonl").open("a") as file:
        file.write('{"id": "nobody", "answer": ""}\n{"id": "no one", "answer": ""}\n')
    return folder


def rows(done):
    """Return the cells of each task's row. Columns are separated by two spaces."""
    table = [re.split(r"\s{2,}", line.strip()) for line in done.stdout.splitlines() if line.startswith(" ")]
    return {task: cells for task, *cells in table}


def test_a_decascore(command, home, submit):
    folder = submit("oracle")
    done = command("evaluate", "--submission", folder, "--home", home)
    assert done.exit_code == 0
    assert done.stdout.splitlines()[0] == "oracle, validation"
    table = rows(done)
    assert list(table)[1:] == list(DECATHLON.tasks)
    low = f"{100 * 0.025 ** (1 / 8):.1f}"  # Clopper and Pearson's, for 8 units without an error
    assert table["squad"] == ["nf1", "100.00", f"{low} to 100.0", "32", "0", "sample"]
    assert re.search(r"\ndecaScore: 1000\.0 \(95%: \d{3}\.\d to 1000\.0\)\n", done.stdout)
    assert "No answers for" not in done.stdout
    assert "Scored on the bundled sample: not comparable" in done.stdout
    assert done.stdout.endswith(f"Results: {folder}/results/validation/results.json\n")
    assert read_results_file(folder / "results" / "validation" / "results.json").decascore == pytest.approx(
        1000
    )


def test_tasks_that_were_not_asked_for_are_not_said_to_be_missing(command, home, submit):
    done = command("evaluate", "--submission", submit("oracle"), "--home", home, "--tasks", "sst,squad")
    assert done.exit_code == 0
    assert list(rows(done))[1:] == ["squad", "sst"]
    assert "200.0 of 200 (2 of 10 tasks)" in done.stdout
    assert "No answers for" not in done.stdout


def test_a_requested_task_without_answers_exits_with_1(command, home, submit):
    done = command(
        "evaluate", "--submission", submit("oracle", ["sst"]), "--home", home, "--tasks", "sst,squad"
    )
    assert done.exit_code == 1
    assert "\nNo answers for: squad\n" in done.stdout
    assert rows(done)["sst"][1] == "100.00"


def test_a_failed_task_exits_with_1(command, home, submit):
    folder = spoil(submit("oracle"), "sst")
    done = command("evaluate", "--submission", folder, "--home", home)
    assert done.exit_code == 1
    assert rows(done)["sst"] == ["em", "failed", "–", "–", "–", "sample"]
    assert "Sum (no decaScore): 900.0 of 900 (9 of 10 tasks)" in done.stdout
    (said,) = [line for line in done.stdout.splitlines() if line.startswith("Failed: sst: ")]
    assert "sst.validation.jsonl:33: unknown-id" in said
    assert said.endswith("(2 faults in all; to see them, run decabench check)")
    content = json.loads((folder / "results" / "validation" / "results.json").read_text())
    assert content["decascore"] is None
    assert (content["tasks"]["sst"]["status"], content["tasks"]["sst"]["score"]) == ("failed", None)
    assert content["total"]["failed"] == ["sst"]


def test_all_scores(command, home, submit):
    done = command("evaluate", "--submission", submit("oracle", ["sst"]), "--home", home, "--all-scores")
    assert "nf1 100.00" in done.stdout and "em 100.00" in done.stdout


def test_other_data_exits_with_3(command, home, submit, tmp_path):
    folder = submit("oracle", ["sst"])
    shutil.copytree(home / "tasks" / "sst", tmp_path / "home" / "tasks" / "sst")
    text = (folder / "submission.toml").read_text()
    start = text.index("sha256:", text.index("[data]"))
    (folder / "submission.toml").write_text(text[:start] + "sha256:" + "0" * 64 + text[start + 71 :])
    done = command("evaluate", "--submission", folder, "--home", tmp_path / "home")
    assert done.exit_code == 3
    assert done.stderr.startswith("Error: The submission ")
    assert f"({folder}) was not made for the prepared data: sst" in done.stderr
    assert not (folder / "results").exists()


def test_an_archive(command, home, submit, tmp_path):
    folder = submit("majority", ["sst"])
    archive = shutil.make_archive(str(tmp_path / "packed"), "zip", folder)
    assert command("evaluate", "--submission", folder, "--home", home).exit_code == 0
    assert command("evaluate", "--submission", archive, "--home", home).exit_code == 0
    beside = tmp_path / f"{archive}.results" / "validation" / "results.json"
    assert beside.read_bytes() == (folder / "results" / "validation" / "results.json").read_bytes()


def test_times_are_not_in_the_results(command, home, submit):
    folder = submit("majority", ["sst"])
    files = folder / "results" / "validation"
    assert command("evaluate", "--submission", folder, "--home", home).exit_code == 0
    first = (files / "results.json").read_bytes()
    assert json.loads((files / "run.json").read_text())["seconds"] >= 0
    assert sorted(path.name for path in files.iterdir()) == [
        "examples",
        "results.json",
        "run.json",
        "statistics",
    ]
    assert command("evaluate", "--submission", folder, "--home", home, "--jobs", "2").exit_code == 0
    assert (files / "results.json").read_bytes() == first
    assert b"seconds" not in first and b"python" not in first


def test_a_task_of_ones_own(command, own_task, tmp_path):
    include = ["--include", own_task(["one", "one", "two"]), "--home", tmp_path / "home"]
    assert command("prepare", "own", *include).exit_code == 0
    options = ["--predictor", "majority", "--tasks", "own", "--output", tmp_path / "s"]
    assert command("predict", *options, *include).exit_code == 0
    done = command("evaluate", "--submission", tmp_path / "s", "--tasks", "own", *include)
    assert done.exit_code == 0
    assert rows(done)["own"] == [
        "em",
        "66.67",
        "0.3 to 99.9",
        "3",
        "0",
        "user",
    ]  # logit(2/3) ± t(2) · 1.5, by hand
    assert "No answers for" not in done.stdout


def with_marks(folder, **marks):
    """Add the marks that a limited run or failed questions leave in submission.toml."""
    tables = "".join(
        f'[{table}."{key}"]\n' + "".join(f"{name} = {json.dumps(value)}\n" for name, value in fields.items())
        for table, (key, fields) in marks.items()
    )
    with (folder / "submission.toml").open("a") as file:
        file.write(f"\n{tables}")
    return folder


def cut_to(folder, task, count, **more):
    path = folder / "predictions" / f"{task}.validation.jsonl"
    rows = [json.loads(line) for line in path.read_text().splitlines()[:count]]
    for index, line in more.items():
        rows[int(index.removeprefix("at"))] |= line
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def test_a_limited_run_is_marked_and_no_fault(command, home, submit):
    folder = submit("oracle", ["sst", "schema"])
    cut_to(folder, "sst", 8)
    with_marks(folder, partial=("sst.validation", {"answered": 8, "of": 32, "chosen": "limit 8"}))
    done = command("evaluate", "--submission", folder, "--home", home)
    assert done.exit_code == 0
    assert rows(done)["sst"][1:4] == ["100.00 partial", "63.1 to 100.0", "8"]  # 0.025 ** (1 / 8)
    assert "Sum (no decaScore): 100.0 of 100 (1 of 10 tasks; 1 partial, not summed)" in done.stdout
    assert "Partial: sst: a limited run (8 of 32 examples, limit 8), excluded from totals" in done.stdout
    assert not (folder / "results/validation/statistics/sst.parquet").exists()


def test_an_incomplete_run_ends_with_1(command, home, submit):
    folder = submit("oracle", ["sst"])
    cut_to(folder, "sst", 31)
    with_marks(folder, incomplete=("sst.validation", {"failed": 1, "of": 32, "error": "no route"}))
    done = command("evaluate", "--submission", folder, "--home", home)
    assert done.exit_code == 1
    assert "Failed: sst: incomplete: 1 of 32 examples failed (most common error: 'no route')" in done.stdout


def test_wrong_forms_are_told_apart_from_wrong_answers(command, home, submit):
    folder = submit("oracle", ["squad", "sst"])
    cut_to(
        folder,
        "squad",
        32,
        at0={"rule": "unparseable"},
        at1={"rule": "unparseable", "finish": "length"},
        at2={"finish": "refused"},
        at3={"context_kept": [0, 0]},
        at4={"rule": "reasoning+reasoning-only+unparseable"},
        at5={"rule": "template"},
    )
    cut_to(folder, "sst", 32, at0={"context_kept": [0, 0]})
    done = command("evaluate", "--submission", folder, "--home", home)
    assert done.exit_code == 0
    forms = "3 unparseable, 1 of them only reasoning, 1 refused, 1 cut off at the token limit"
    assert f"\nsquad: {forms}, 1 with chat-template tokens.\n" in done.stdout
    assert (
        "squad: 1 context was truncated; 96.9% of contexts still contain the gold answer (ceiling)."
        in done.stdout
    )
    assert "\nsst: 1 context was truncated.\n" in done.stdout


def test_raw_answers_have_a_place_of_their_own(command, home, submit):
    folder = submit("oracle", ["sst"])
    cut_to(folder, "sst", 32, at0={"raw": "who knows"})
    done = command("evaluate", "--submission", folder, "--home", home, "--answers", "raw")
    assert done.stdout.startswith("oracle, validation, raw answers\n")
    assert rows(done)["sst"][1] == "96.88"
    assert (folder / "results/validation-raw/results.json").exists()
    assert not (folder / "results/validation").exists()


def test_other_wordings_have_a_table(command, home, submit):
    folder = submit("oracle", ["sst"])
    own = folder / "predictions" / "sst.validation.jsonl"
    for number in (2, 1):
        path = folder / "variants" / str(number) / "predictions" / own.name
        path.parent.mkdir(parents=True)
        shutil.copy(own, path)
    path.write_text(path.read_text().replace('"positive"', '"happy"').replace('"negative"', '"angry"'))
    done = command("evaluate", "--submission", folder, "--home", home)
    assert done.exit_code == 0
    assert "Other wordings of the questions" in done.stdout
    assert " sst   50.0    0.0   100.0      100.0        0.0" in done.stdout
    assert "not counted above: sst, variant 2: 100.0\n" in done.stdout
    path.write_text("")
    done = command("evaluate", "--submission", folder, "--home", home)
    assert done.exit_code == 1
    assert (
        "Not scored: sst, variant 1: variants/1/predictions/sst.validation.jsonl: missing-id" in done.stdout
    )


def test_one_other_wording_alone_is_named(command, home, submit):
    folder = submit("oracle", ["sst"])
    text = (folder / "submission.toml").read_text()
    (folder / "submission.toml").write_text(text.replace("[predictor]", "[predictor]\nvariant = 2", 1))
    done = command("evaluate", "--submission", folder, "--home", home)
    assert "The questions were reworded: this is variant 2, not the datasets' own wording." in done.stdout


def test_queries_in_standard_sql_are_shown_strictly_and_normalised(command, home, tmp_path, monkeypatch):
    (tmp_path / "sql_model.py").write_text(
        "from decabench.tasks.store import Store\n"
        "class Model:\n"
        "    def predict(self, questions):\n"
        f"        golds = {{e.id: e.answers[0] for e in Store(__import__('pathlib').Path({str(home)!r}))"
        ".examples('wikisql', 'validation')}\n"
        "        return [golds[q.id].replace(' FROM table', ' FROM \"table\"') + ';' for q in questions]\n"
        "model = Model()\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    options = ["--tasks", "wikisql", "--home", home]
    done = command("predict", "--predictor", "sql_model:model", *options, "--output", tmp_path / "s")
    assert done.exit_code == 0
    done = command("evaluate", "--submission", tmp_path / "s", *options)
    (line,) = (line for line in done.stdout.splitlines() if "lfem_normalised" in line)
    assert "(strict), lfem_normalised 100.00, which ignores quotation marks" in line
    results = json.loads((tmp_path / "s" / "results" / "validation" / "results.json").read_text())
    scores = results["tasks"]["wikisql"]["scores"]
    assert (
        results["tasks"]["wikisql"]["headline"] == "lfem"
        and scores["lfem"] < scores["lfem_normalised"] == 100
    )


def test_the_submission_by_position(command, home, submit):
    folder = submit("majority", ["sst"])
    by_position = command("evaluate", folder, "--home", home)
    by_option = command("evaluate", "--submission", folder, "--home", home)
    assert by_position.exit_code == by_option.exit_code == 0
    assert by_position.stdout == by_option.stdout
    for arguments, said in (
        (("--home", home), "Specify a folder, a .zip or a .tar.gz."),
        ((folder, "--submission", folder), "The submission was specified twice"),
    ):
        done = command("evaluate", *arguments)
        assert done.exit_code == 2 and said in done.stderr


def test_a_submission_by_position_comes_before_one_from_a_variable(command, home, submit, monkeypatch):
    monkeypatch.setenv("DECABENCH_EVALUATE_SUBMISSION", str(submit("majority", ["sst"])))
    assert command("evaluate", "--home", home).stdout.startswith("majority, validation\n")
    done = command("evaluate", submit("oracle", ["sst"]), "--home", home)
    assert done.exit_code == 0 and done.stdout.startswith("oracle, validation\n")


def test_an_answer_of_hundreds_of_digits_is_unreadable_and_the_rest_is_scored(command, home, submit):
    """Before, it was treated as a faulty gold answer, and the whole submission had no score."""
    folder = submit("oracle", ["sick.relatedness", "sst", "schema"], "s")
    path = folder / "predictions" / "sick.relatedness.validation.jsonl"
    first, *others = path.read_text().splitlines()
    line = json.dumps({**json.loads(first), "answer": "9" * 400})
    path.write_text("\n".join([line, *others]) + "\n")
    done = command("check", folder, "--home", home)
    assert (done.exit_code, done.stderr) == (0, "")
    done = command("evaluate", folder, "--home", home)
    assert done.exit_code == 0, done.stderr
    assert "9" * 200 not in done.output
    tasks = read_results_file(folder / "results" / "validation" / "results.json").tasks
    assert (tasks["sst"].score, tasks["schema"].score) == (100, 100)
    assert tasks["sick.relatedness"].scores["unreadable"] == pytest.approx(100 / 32)


def test_files_of_tasks_that_nobody_knows_are_named(command, home, submit):
    """Before, a misspelled file was silently ignored."""
    folder = submit("oracle", ("sst", "schema"))
    (folder / "predictions" / "schema.validation.jsonl").rename(
        folder / "predictions" / "shcema.validation.jsonl"
    )
    done = command("evaluate", folder, "--home", home)
    assert "no task with this name: shcema." in done.stdout
    content = json.loads(command("--json", "evaluate", folder, "--home", home).stdout)
    assert any("shcema" in sentence for sentence in content["remarks"])
    assert "shcema" not in json.dumps(content["results"])
    alone = command("evaluate", folder, "--home", home, "--tasks", "sst")  # other tasks are not read
    assert "shcema" not in alone.stdout


def test_confusions_are_in_the_json_too(command, home, submit):
    folder = submit("oracle", ("sst",))
    shared = ("--json", "evaluate", folder, "--home", home)
    assert json.loads(command(*shared).stdout)["confusions"] is None
    found = json.loads(command(*shared, "--confusion").stdout)["confusions"]["sst"]
    assert all(each["gold"] == each["predicted"] for each in found)
    assert sum(each["count"] for each in found) == 32
    assert [each["count"] for each in found] == sorted((each["count"] for each in found), reverse=True)


def test_a_file_that_may_not_be_read_is_a_fault_of_its_task(command, home, submit, unreadable):
    """Before, the whole command ended with a traceback."""
    folder = submit("majority", ("sst", "schema"))
    assert command("evaluate", folder, "--home", home).exit_code == 0
    unreadable(folder / "predictions" / "sst.validation.jsonl")
    done = command("evaluate", folder, "--home", home)
    assert done.exit_code == 1
    assert "Failed: sst: predictions/sst.validation.jsonl:1: unreadable-file: it can't be read" in done.stdout
    done = command("show", folder, "--task", "sst", "--home", home)
    assert done.exit_code == 3 and "unreadable-file" in done.stderr


def test_tasks_without_confusions_are_named(command, home, submit):
    """Before, nothing was printed."""
    done = command("evaluate", submit("majority", ("sst", "squad")), "--home", home, "--confusion")
    assert "No confusions: the answers to squad are neither labels nor tags." in done.stdout
    assert "sst: classes" in done.stdout


def test_data_whose_files_were_changed_are_scored_as_they_were_prepared(command, own_task, home, tmp_path):
    """A warning is printed. The submission was made for the prepared data, and other tasks keep their results."""
    options = ("--include", own_task(["1", "2"]), "--home", tmp_path / "home")
    assert command("prepare", "own", *options).exit_code == 0
    folder = tmp_path / "s"
    assert (
        command("predict", "--predictor", "oracle", "--tasks", "own", "--output", folder, *options).exit_code
        == 0
    )
    (tmp_path / "rows.jsonl").write_text((tmp_path / "rows.jsonl").read_text() + "\n")
    done = command("evaluate", folder, "--tasks", "own", *options)
    assert done.exit_code == 0 and "100.00" in done.stdout
    said = "own: scored on the data that was prepared earlier. rows.jsonl has changed since"
    assert said in done.stdout
    assert said in command("verify", folder, *options).stdout
    for words in (("compare", folder, folder, "--tasks", "own"), ("show", folder, "--task", "own")):
        assert said in command(*words, *options).stderr
    done = command("predict", "--predictor", "oracle", "--tasks", "own", "--output", tmp_path / "t", *options)
    assert (
        done.exit_code != 0
        and f"prepare own --include {tmp_path / 'own.toml'} --home {tmp_path / 'home'}." in done.stderr
    )
