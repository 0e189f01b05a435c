import json
import shutil

import pytest

from decabench.tasks import SPLITS, TASKS
from decabench.tasks.store import Store


def test_list(command, home, monkeypatch):
    monkeypatch.setenv("COLUMNS", "140")
    done = command("tasks", "--home", home)
    assert done.exit_code == 0
    first = [line.split()[0] for line in done.stdout.splitlines() if not line.startswith("   ")]
    assert [name for name in first if name in TASKS] == list(TASKS)
    assert "sample: 64 / 32 / –" in done.stdout
    assert "9,616 hidden" in done.stdout
    assert str(home) in done.stdout.replace("\n", "")


def test_list_without_data(command, tmp_path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "140")
    done = command("tasks", "--home", tmp_path)
    assert done.exit_code == 0
    (row,) = [line for line in done.stdout.splitlines() if line.startswith(" squad ")]
    assert row.split()[:6] == ["squad", "SQuAD", "1.1", "nf1", "87,599", "10,570"]
    assert " no " in row
    assert list(tmp_path.iterdir()) == []


def test_list_tells_of_damage_and_of_ones_own(command, home, own_task, tmp_path):
    shutil.copytree(home / "tasks" / "sst", tmp_path / "home" / "tasks" / "sst")
    (tmp_path / "home" / "tasks" / "sst" / "task.json").write_text("{")
    done = command("tasks", "--home", tmp_path / "home", "--include", own_task(["one"]))
    assert done.exit_code == 0
    rows = {
        line.split()[0]: line for line in done.stdout.splitlines() if line.startswith(" ") and line.strip()
    }
    assert " damaged " in rows["sst"]
    assert "own" in rows


def test_show(command, home):
    done = command("tasks", "show", "squad", "--home", home, "--examples", "2")
    assert done.exit_code == 0
    examples = list(Store(home).examples("squad", "validation"))
    for shown in (
        *examples[:2],
        examples[0].answers[0],
        "SQuAD 1.1",
        "CC BY-SA 4.0",
        "Rajpurkar",
        "languages  en",
    ):
        assert (shown if isinstance(shown, str) else shown.id) in done.stdout
    assert done.stdout.count("question   ") == 2
    assert examples[2].id not in done.stdout
    assert Store(home).record("squad", "validation").fingerprint in done.stdout


@pytest.mark.parametrize(
    ("name", "advice"),
    [
        ("sst", "Run decabench prepare sst --home {home}, with --mirror or --sample"),
        ("ptb.dep", "Put your own copies (wsj_22.conllu)"),
        ("sentences.amazon", "Use --split test"),
        ("imdb", "prepare imdb --home {home}, with --mirror if you are offline"),
    ],
)
def test_show_says_what_helps_without_data(command, tmp_path, name, advice):
    done = command("tasks", "show", name, "--home", tmp_path)
    assert done.exit_code == 0
    assert advice.format(home=tmp_path) in done.stdout


def test_show_has_splits_in_order_and_says_whose_files_are_not_published(command, home, tmp_path):
    done = command("tasks", "show", "sst", "--home", home)
    splits = [line.split()[1] for line in done.stdout.splitlines() if line.startswith("prepared ")]
    assert splits == [f"{split}:" for split in SPLITS if split in Store(home).records("sst")]
    done = command("tasks", "show", "ptb.dep", "--home", tmp_path)
    assert "sections in conllu (not published; use your own files)" in done.stdout


def test_validate(command, home):
    done = command("tasks", "validate", "sst", "--home", home)
    assert done.exit_code == 0
    lines = done.stdout.splitlines()
    assert [line[:4] for line in lines[:7]] == ["pass"] * 7
    assert lines[7] == "sst, validation: all checks passed"


def test_a_task_that_cannot_be_proven_exits_with_1(command, own_task, tmp_path):
    options = ["--include", own_task(["same", "same"]), "--home", tmp_path / "home"]
    assert command("prepare", "own", *options).exit_code == 0
    done = command("tasks", "validate", "own", *options)
    assert done.exit_code == 1
    assert "FAIL  shuffled answers score below gold: all answers are the same" in done.stdout
    assert "own, validation: 1 of 6 checks failed" in done.stdout


@pytest.mark.parametrize(("arguments", "code"), [(["sst"], 3), (["sst", "--split", "dev"], 2), (["ssst"], 2)])
def test_validate_refuses(command, tmp_path, arguments, code):
    done = command("tasks", "validate", *arguments, "--home", tmp_path)
    assert done.exit_code == code
    assert done.stderr


def test_show_has_the_other_wordings(command, home, tmp_path):
    done = command("tasks", "show", "sst", "--home", home, "--examples", "0")
    text = " ".join(done.stdout.split())
    assert "variant 1 order-swapped: Is this review positive or negative?" in text
    assert (
        "2 happy-angry (retired): Is this review happy or angry? (happy means positive, angry means negative)"
        in text
    )
    assert (
        "5 angry-happy: Is this review angry or happy? (angry means negative, happy means positive)" in text
    )
    done = command("tasks", "show", "squad", "--home", tmp_path)
    assert "variant 1 words-of-context: prepare the task to see its wording" in " ".join(done.stdout.split())
    done = command("tasks", "show", "squad", "--home", home)
    first = next(Store(home).examples("squad", "train")).question
    assert f"words-of-context: Answer with words of the context: {first}" in " ".join(done.stdout.split())


@pytest.fixture
def leaky(command, tmp_path):
    """A custom task whose validation split repeats two of its four training texts, one with another spelling."""
    texts = {"train": ["Good.", "Bad.", "Fine!", "New."], "validation": ["Good.", "fine", "Other", "More"]}
    for split, contexts in texts.items():
        rows = [{"text": text, "answer": "yes" if at % 2 else "no"} for at, text in enumerate(contexts)]
        (tmp_path / f"{split}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (tmp_path / "leaky.toml").write_text(
        'format = "decabench.taskfile/1"\nname = "leaky"\nmetric = "accuracy"\nanswer = "answer"\n'
        'question = "Yes or no?"\ncontext = "{text}"\n[files]\ntrain = "train.jsonl"\nvalidation = "validation.jsonl"\n'
    )
    options = ("--include", tmp_path / "leaky.toml", "--home", tmp_path / "home")
    assert command("prepare", "leaky", *options).exit_code == 0
    return options


def test_overlap(command, leaky):
    done = command("tasks", "overlap", *leaky)
    assert done.exit_code == 0, done.output
    row = next(line.split() for line in done.stdout.splitlines() if line.startswith(" leaky "))
    assert row == ["leaky", "validation", "leaky", "train", "1", "2", "4"]
    assert (
        "validation: 1 of 4 texts is also in the training data of the same task, 2 if case, spaces and punctuation "
        "are ignored." in done.stdout
    )


def test_overlap_without_anything_to_look_in(command, leaky):
    done = command("tasks", "overlap", "--tasks", "leaky", "--against", "test", *leaky)
    assert (done.exit_code, done.stdout) == (3, "")
    assert "No test split of leaky is prepared, so there is nothing to search" in done.stderr


def test_ids_of_an_overlap(command, leaky, tmp_path):
    from decabench.submission import read_id_list

    done = command("tasks", "overlap", "--write", tmp_path / "overlap.json", *leaky)
    assert done.exit_code == 0, done.output
    listed = read_id_list(tmp_path / "overlap.json")
    assert list(listed.ids["leaky", "validation"]) == ["leaky.validation.0", "leaky.validation.1"]
    assert listed.fingerprints["leaky", "validation"].startswith("sha256:")


def test_overlap_of_what_is_not_prepared(command, leaky, tmp_path):
    done = command("tasks", "overlap", "--tasks", "sst,leaky", *leaky)
    assert (done.exit_code, done.stdout) == (3, "")
    assert "sst is not prepared in" in done.stderr
    done = command("tasks", "overlap", "--home", tmp_path / "empty")
    assert done.exit_code == 3
    assert "Nothing is prepared in" in done.stderr
    done = command("tasks", "overlap", "--suite", "movies", *leaky)
    assert "sst.fine, sst, subj, mr, imdb" in done.stderr.replace("\n", " ")


def test_scores_without(command, leaky, tmp_path):
    command("tasks", "overlap", "--write", tmp_path / "overlap.json", *leaky)
    options = (*leaky, "--tasks", "leaky")
    sub = tmp_path / "sub"
    assert command("predict", "--predictor", "majority", "--output", sub, *options).exit_code == 0
    done = command("evaluate", "--submission", sub, "--without", tmp_path / "overlap.json", *options)
    assert done.exit_code == 0, done.output
    file = sub / "results" / "validation-without" / "results.json"
    (task,) = json.loads(file.read_text())["tasks"].values()
    assert (task["status"], task["n"], task["score"]) == ("partial", 2, 50.0)
    assert task["partial"]["without"] == ["leaky.validation.0", "leaky.validation.1"]
    assert "2 of 4 examples, 2 left out" in done.stdout
    checked = command("verify", "--submission", sub, *leaky)
    assert checked.exit_code == 0, checked.output
    content = json.loads(file.read_text())
    content["tasks"]["leaky"]["score"] = 75.0
    file.write_text(json.dumps(content))
    assert command("verify", "--submission", sub, *leaky).exit_code == 1


def test_ids_of_other_data(command, leaky, tmp_path):
    listed = tmp_path / "overlap.json"
    command("tasks", "overlap", "--write", listed, *leaky)
    options, sub = (*leaky, "--tasks", "leaky"), tmp_path / "sub"
    command("predict", "--predictor", "majority", "--output", sub, *options)
    content = json.loads(listed.read_text())
    content["splits"][0]["fingerprint"] = f"sha256:{'0' * 64}"
    listed.write_text(json.dumps(content))
    done = command("evaluate", "--submission", sub, "--without", listed, *options)
    assert done.exit_code == 3
    assert "does not match the prepared validation data for leaky" in done.stderr.replace("\n", " ")
    content["splits"][0]["split"] = "test"
    listed.write_text(json.dumps(content))
    done = command("evaluate", "--submission", sub, "--without", listed, *options)
    assert "lists no validation examples" in done.stderr.replace("\n", " ")
