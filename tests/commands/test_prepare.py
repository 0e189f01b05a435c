import json
import shutil

import pytest

from decabench.tasks import DECATHLON
from decabench.tasks.preparation import SAMPLE_FOLDER
from decabench.tasks.store import Store


def test_the_sample(command, tmp_path):
    done = command("prepare", "sst", "schema", "--sample", "--home", tmp_path)
    assert done.exit_code == 0
    table = [line.split() for line in done.stdout.splitlines()]
    assert table[1] == [*"sst 64 32 32 6,920 / 872 / 1,821 sample prepared".split()]
    assert table[2] == [*"schema 80 82 100 80 / 82 / 100 sample prepared".split()]
    assert sorted(path.name for path in (tmp_path / "tasks" / "sst").iterdir()) == [
        "places.json",
        "task.json",
        "test.parquet",
        "train.parquet",
        "validation.parquet",
    ]


def test_all_ten_by_default(command, home):
    done = command("prepare", "--sample", "--home", home)  # already prepared, so nothing is written
    assert done.exit_code == 0
    assert [line.split()[0] for line in done.stdout.splitlines()[1:11]] == list(DECATHLON.tasks)
    assert done.stdout.count("was ready") == 10
    assert "iwslt.en.de: The sample contains" in done.stdout


def test_a_split_that_no_task_has_is_left_out(command, tmp_path):
    done = command("prepare", "--sample", "--split", "test", "--home", tmp_path, "--jobs", "1")
    assert done.exit_code == 0
    assert "squad: no public test split, skipped" in done.stderr
    assert "squad" not in done.stdout


@pytest.mark.parametrize("jobs", ["1", "2"])
def test_a_mirror_without_the_file_exits_with_3(command, tmp_path, jobs):
    (tmp_path / "mirror").mkdir()
    options = ["--mirror", tmp_path / "mirror", "--home", tmp_path / "home", "--jobs", jobs]
    done = command("prepare", "sst", "schema", *options)
    assert done.exit_code == 3
    for name in ("sst", "schema"):
        assert f"Error: {name}: " in done.stderr
    assert "schema.txt" in done.stderr
    assert "Traceback" not in done.output
    assert done.stdout.count("failed") == 2
    assert not list((tmp_path / "home").rglob("*.parquet"))


def test_a_mirror_with_some_splits_exits_with_3_each_time(command, tmp_path):
    from decabench.tasks.preparation import SAMPLE_FOLDER

    shutil.copytree(SAMPLE_FOLDER / "sst", tmp_path / "mirror" / "sst")
    (test,) = (tmp_path / "mirror" / "sst").glob("*test*")
    test.unlink()
    options = ["--mirror", tmp_path / "mirror", "--home", tmp_path / "home"]
    runs = [command("prepare", "sst", *options) for _ in range(2)]
    for done in runs:
        assert done.exit_code == 3
        assert "partly, 2 of 3 splits" in done.stdout and "failed" not in done.stdout
        summary = "Prepared: 0 of 1 tasks. Not prepared, or only partly: sst (see above)."
        assert summary in done.stderr.replace("\n", " ")
    assert runs[0].stdout == runs[1].stdout


def test_data_that_were_altered_are_named_and_prepared_again(command, tmp_path):
    home = tmp_path / "home"
    options = ("prepare", "sst", "schema", "--sample", "--home", home)
    assert command(*options).exit_code == 0
    path = Store(home).path("sst", "validation")
    content = path.read_bytes()
    path.write_bytes(content[:-100])
    done = command(*options)
    assert done.exit_code == 0 and path.read_bytes() == content
    said = (
        "sst: validation has been changed or deleted since it was prepared, so it was prepared again from the "
        "sample."
    )
    assert said in " ".join(done.stderr.split())
    states = {line.split()[0]: line.split()[-1] for line in done.stdout.splitlines()[1:3]}
    assert states == {"sst": "prepared", "schema": "ready"}
    path.write_bytes(content[:-100])
    done = command("--json", *options)
    assert [task["altered"] for task in json.loads(done.stdout)["tasks"]] == [["validation"], []]
    assert "changed or deleted" not in command(*options).stderr
    path.unlink()
    done = command("--quiet", *options)
    assert " ".join(done.stderr.split()) == said and path.read_bytes() == content


def test_ids_without_data(command, home, tmp_path):
    done = command("prepare", "sst", "--sample", "--home", home, "--export-ids", tmp_path / "ids.json")
    assert done.exit_code == 0
    assert f"Wrote the ids of 3 splits to {tmp_path}/ids.json." in done.stdout.replace("\n", "")
    content = json.loads((tmp_path / "ids.json").read_text())
    assert content["format"] == "decabench.ids/1"
    splits = {split["split"]: split for split in content["splits"]}
    assert splits["validation"]["ids"] == Store(home).ids("sst", "validation")
    assert splits["validation"]["fingerprint"] == Store(home).record("sst", "validation").fingerprint
    assert "answers" not in (tmp_path / "ids.json").read_text()


def test_a_task_of_ones_own(command, own_task, tmp_path):
    own = own_task(["one", "two"])
    done = command("prepare", "own", "--include", own, "--home", tmp_path / "home")
    assert done.exit_code == 0
    assert done.stdout.splitlines()[1].split() == [*"own 2 2 – – / – / – user prepared".split()]


def test_a_sample_does_not_replace_data_unasked(command, tmp_path):
    from decabench.tasks.preparation import SAMPLE_FOLDER

    options = ["prepare", "schema", "--home", tmp_path / "home"]
    assert command(*options, "--mirror", SAMPLE_FOLDER).exit_code == 0
    done = command(*options, "--sample")
    assert done.exit_code == 2 and "already contains the full data of schema (origin: mirror)" in done.stderr
    assert command(*options, "--sample", "--force").exit_code == 0


def test_a_cut_file_of_a_mirror_is_named_with_both_sizes(command, tmp_path, monkeypatch):
    """Only the split that was read from the file counts as not verified."""
    monkeypatch.setenv("COLUMNS", "80")
    (tmp_path / "mirror").mkdir()
    shutil.copytree(SAMPLE_FOLDER / "sst", tmp_path / "mirror" / "sst")
    done = command(
        "prepare",
        "sst",
        "--split",
        "validation",
        "--mirror",
        tmp_path / "mirror",
        "--home",
        tmp_path / "home",
    )
    assert done.exit_code == 0
    size = (SAMPLE_FOLDER / "sst" / "dev_binary_sent.csv").stat().st_size
    said = f"because dev_binary_sent.csv ({size:,} bytes instead of 92,802) is not the published file"
    assert said in " ".join(done.stdout.split())
    shown = command("tasks", "show", "sst", "--home", tmp_path / "home", "--examples", "0").stdout
    assert "not the published file" in " ".join(shown.split())


def test_a_mirror_that_is_no_folder_exits_with_2(command, tmp_path):
    for mirror in (tmp_path / "nowhere", "ftp://example.org/mirror"):
        done = command("prepare", "sst", "--mirror", mirror, "--home", tmp_path / "home")
        assert done.exit_code == 2 and "--mirror must be a folder or an http(s) URL" in done.stderr
    assert not (tmp_path / "home").exists()


def test_a_failure_leaves_an_earlier_list_of_ids(command, tmp_path):
    ids, home = tmp_path / "ids.json", ("--home", tmp_path / "home")
    assert command("prepare", "sst", "--sample", *home, "--export-ids", ids).exit_code == 0
    before = ids.read_bytes()
    (tmp_path / "empty").mkdir()
    done = command("prepare", "sst", "--mirror", tmp_path / "empty", *home, "--export-ids", ids)
    assert done.exit_code == 3 and ids.read_bytes() == before
    assert "is unchanged, because not all data was prepared" in done.stderr.replace("\n", " ")
