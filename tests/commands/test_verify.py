"""`decabench verify`."""

import json

from decabench.tasks import DECATHLON


def test_verify(command, home, tmp_path):
    folder = tmp_path / "s"
    command("predict", "--predictor", "majority", "--tasks", "sst", "--output", folder, "--home", home)
    assert command("evaluate", "--submission", folder, "--home", home).exit_code == 0
    done = command("verify", "--submission", folder, "--home", home)
    assert done.exit_code == 0 and "verified, the same bytes" in done.stdout
    path = folder / "results" / "validation" / "results.json"
    path.write_text(path.read_text().replace('"empty": 0', '"empty": 1'))
    done = command("verify", "--submission", folder, "--home", home)
    assert done.exit_code == 1 and "sst: empty: the file was edited" in done.stdout


def test_without_results(command, home, tmp_path):
    folder = tmp_path / "s"
    command("predict", "--predictor", "majority", "--tasks", "sst", "--output", folder, "--home", home)
    done = command("verify", "--submission", folder, "--home", home)
    assert done.exit_code == 3 and "run decabench evaluate first" in done.stderr


def test_data_that_was_prepared_anew(command, tmp_path):
    """Answers for the sample, and then other data in its place: the change is named, with 3."""
    home, folder = tmp_path / "home", tmp_path / "s"
    mirror = tmp_path / "mirror"
    command("prepare", "schema", "--sample", "--home", home)
    command("predict", "--predictor", "majority", "--tasks", "schema", "--output", folder, "--home", home)
    command("evaluate", "--submission", folder, "--home", home)
    from decabench.tasks.preparation import SAMPLE_FOLDER

    text = (SAMPLE_FOLDER / "schema" / "schema.txt").read_text().replace("Bob", "Rob")
    (mirror / "schema").mkdir(parents=True)
    (mirror / "schema" / "schema.txt").write_text(text)
    assert command("prepare", "schema", "--mirror", mirror, "--home", home).exit_code == 0
    done = command("verify", "--submission", folder, "--home", home)
    assert done.exit_code == 3 and "not made for the data that is prepared: schema" in done.stdout


def test_remade_answers_that_are_not_the_withheld_ones(command, home, submit, tmp_path):
    """A second submission that helps nothing is refused, and wrong answers are one finding, not many."""
    from decabench.submission import withhold

    folder = submit("majority", ["sst", "iwslt.en.de"], "s")
    options = ("--submission", folder, "--home", home)
    assert command("evaluate", *options).exit_code == 0
    other = submit("random", ["iwslt.en.de"], "other")
    done = command("verify", *options, "--remade", other)
    assert done.exit_code == 2 and "withholds no answers of its results: leave out --remade" in done.stderr
    withhold(folder, "iwslt.en.de", "validation")
    assert command("evaluate", *options).exit_code == 0
    done = command("verify", *options, "--remade", submit("majority", ["schema"], "elsewhere"))
    assert done.exit_code == 2
    assert "they are iwslt.en.de (validation), and it answers schema (validation)" in done.stderr
    done = command("verify", *options, "--remade", other)
    assert done.exit_code == 1
    assert done.stdout.count("\n") == 4 and "16 of 17 answers are not the withheld ones" in done.stdout
    assert "edited" not in done.stdout and "1 difference; iwslt.en.de differs" in done.stdout


def test_a_fault_of_the_results_is_not_blamed_on_the_manifest(command, home, submit):
    """The same file is met by verify, evaluate and leaderboard, and each says what to do."""
    folder = submit("majority", output="submissions/majority")
    options = ("--submission", folder, "--home", home)
    assert command("evaluate", *options).exit_code == 0
    path = folder / "results" / "validation" / "results.json"
    content = json.loads(path.read_text())
    content["decascore"] += 50.0
    path.write_text(json.dumps(content))
    done = command("verify", *options)
    assert done.exit_code == 1 and "results.json: its decaScore is" in done.stdout
    assert "manifest.json: its decaScore" not in done.stdout
    done = command("leaderboard", "--submissions", folder.parent, "--output", folder.parent.parent / "site")
    assert done.exit_code == 1  # there is nothing else to show
    assert "majority/results/validation/results.json: its decaScore is" in done.stderr
    done = command("evaluate", *options, "--tasks", "sst")
    dropped = ", ".join(task for task in sorted(DECATHLON.tasks) if task != "sst")
    assert (
        f"Not kept from the earlier results.json: {dropped}: the earlier results.json is damaged"
        in done.stdout
    )
    assert "score all of its tasks again" in done.stdout


def test_a_submission_whose_only_answers_are_withheld(command, home, submit, tmp_path):
    """It used to be refused as one without predictions, with the remade answers at hand, too."""
    from decabench.submission import withhold

    folder, again = (submit("majority", ["iwslt.en.de"], name) for name in ("s", "again"))
    options = ("--submission", folder, "--home", home)
    assert command("evaluate", *options).exit_code == 0
    withhold(folder, "iwslt.en.de", "validation")
    done = command("verify", *options)
    assert "no-predictions" not in done.stdout + done.stderr
    assert done.exit_code == 1 and "iwslt.en.de: not at hand" in done.stdout
    done = command("verify", *options, "--remade", again)
    assert done.exit_code == 0 and "verified" in done.stdout, done.stdout + done.stderr
    done = command("evaluate", *options)
    assert done.exit_code == 1 and "All of its answers are withheld" in done.stderr
    done = command("show", folder, "--home", home)
    assert done.exit_code == 2 and "they are withheld" in done.stderr


def test_a_file_that_may_not_be_read_is_a_difference(command, home, submit, unreadable):
    """It ended the command as a bug (found by a reader)."""
    folder = submit("majority", ("sst", "schema"))
    assert command("evaluate", folder, "--home", home).exit_code == 0
    unreadable(folder / "predictions" / "sst.validation.jsonl")
    done = command("verify", "--submission", folder, "--home", home)
    assert done.exit_code == 1 and "unreadable-file" in done.stdout and "schema: same" in done.stdout
