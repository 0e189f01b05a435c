"""`decabench export`: messages. tests/exchange checks the files."""


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
