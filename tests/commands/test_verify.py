"""`decabench verify`."""


def test_verify(command, home, tmp_path):
    folder = tmp_path / "s"
    command("predict", "--predictor", "majority", "--tasks", "sst", "--output", folder, "--home", home)
    assert command("evaluate", "--submission", folder, "--home", home).exit_code == 0
    done = command("verify", "--submission", folder, "--home", home)
    assert done.exit_code == 0 and "verified: 1 task is the same" in done.stdout
    path = folder / "results" / "validation" / "results.json"
    path.write_text(path.read_text().replace('"empty": 0', '"empty": 1'))
    done = command("verify", "--submission", folder, "--home", home)
    assert done.exit_code == 1 and "sst: empty: the results file was edited" in done.stdout


def test_a_file_that_may_not_be_read_is_a_difference(command, home, submit, unreadable):
    """Before, the command ended with a traceback."""
    folder = submit("majority", ("sst", "schema"))
    assert command("evaluate", folder, "--home", home).exit_code == 0
    unreadable(folder / "predictions" / "sst.validation.jsonl")
    done = command("verify", "--submission", folder, "--home", home)
    assert done.exit_code == 1 and "unreadable-file" in done.stdout
