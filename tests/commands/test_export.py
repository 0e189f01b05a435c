"""`decabench export`: messages. tests/exchange checks the files."""

import json
from pathlib import Path


def test_the_choices_of_a_missing_option_are_one_sentence(command, tmp_path):
    """Before, tabs and line ends were printed literally."""
    done = command("export", "tasks", "sst", "--output", tmp_path / "t")
    assert "Error: Missing option '--for'. Choose from: lm-eval, inspect.\n" in done.stderr


def test_what_has_no_results_is_no_archive(command, tmp_path):
    (tmp_path / "README.md").touch()
    done = command("export", "results", tmp_path / "README.md")
    assert "README.md has no results. Specify" in done.stderr


def test_only_a_model_index_can_be_pushed(command, tmp_path):
    done = command("export", "results", tmp_path, "--push", "me/mine")
    assert "so --format model-index is required" in done.stderr


def test_runs_of_the_same_name_are_told_apart_by_their_folders(command, submit, home, monkeypatch, tmp_path):
    for folder in ("before", "after"):
        assert command("evaluate", submit("majority", ["sst"], folder), "--home", home).exit_code == 0
    monkeypatch.chdir(tmp_path)
    done = command("export", "results", "before", "after")
    assert done.stdout.startswith("| task | metric | majority (before) | majority (after) |")


def test_runs_that_differ_only_in_their_seeds_share_a_column(command, home, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for seed in (1, 2, 3):
        answered = ("predict", "--predictor", "random", "--tasks", "sst,schema", "--seed", str(seed))
        command(*answered, "--output", f"r{seed}", "--home", home)
        assert command("evaluate", f"r{seed}", "--home", home).exit_code == 0
    scores = [json.loads(Path(f"r{seed}/results/validation/results.json").read_text()) for seed in (1, 2, 3)]
    found = [each["tasks"]["sst"]["score"] for each in scores]
    done = command("export", "results", "r1", "r2", "r3")
    assert done.stdout.startswith("| task | metric | random (3 runs) |")
    assert f"| sst | em | {sum(found) / 3:.1f} ({min(found):.1f} to {max(found):.1f}) |" in done.stdout
    assert "the score is their mean, with the lowest and highest in parentheses" in done.stdout
    done = command("export", "results", "r1", "r1")  # the same run twice is no second seed
    assert done.stdout.startswith("| task | metric | random (r1) | random (r1) |")
