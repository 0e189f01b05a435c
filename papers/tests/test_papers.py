import json
import re
import shutil
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("matplotlib")

import decabench
from papers import runs
from papers.__main__ import main
from papers.plan import read_plan
from papers.records import Records, read_archive, read_zip

SUITE = """
format = "decabench.suite/1"
name = "small"
title = "Two tasks"
tasks = ["sst", "multinli.in.out"]
total = "mean"
total_name = "mean"
"""

PLAN = """
title = "A small paper"
paper = "Nobody 2026"
suite = "small"
split = "validation"
seeds = [0, 1]
summary = ["Jointly {{joint: SST}}: {{joint over single: mean}}."]
notes = ["The classes are few.", "99 of 99 planned runs are done."]
contrasts = [
  { row = "joint", baseline = "single", measures = ["SST"], claimed = 9 },
  { row = "joint", baseline = "single", measures = ["mean"], claimed = 9 },
]

[settings]
"model.name" = "classifier"
"model.dimension" = 8
"model.train_embeddings" = true
vectors = ["none:12"]
batch_examples = 8
rate = "constant"
learning_rate = 0.05
best_by = "last"
epochs = 2
validate_every = 0
validation_examples = 0
checkpoint_every = 0

[measures]
"SST" = { task = "sst", score = "em" }
"mean" = { suite = "small", digits = 2, remark = "recalled" }

[published.joint]
"SST" = 88.5

[published.single]
"SST" = 80

[[runs]]
name = "one-{}"
each = ["sst", "multinli.in.out"]
row = "single"
tasks = ["{}"]

[[runs]]
name = "joint"
settings = { epochs = 3 }
"""


def _line(page, start):
    (line,) = [line for line in page.read_text().splitlines() if line.startswith(start)]
    return [cell.strip() for cell in line.strip("| ").split("|")]


def _count_right(submission, task, golds):
    (path,) = submission.glob(f"predictions/{task}.validation.jsonl")
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert {line["id"] for line in lines} == golds.keys()
    return 100 * sum(line["answer"] in golds[line["id"]] for line in lines) / len(lines)


@pytest.fixture
def given(home, tmp_path, monkeypatch):
    (tmp_path / "small").mkdir()
    (tmp_path / "small" / "plan.toml").write_text(PLAN)
    (tmp_path / "small.toml").write_text(SUITE)
    options = ["--include", str(tmp_path / "small.toml"), "--home", str(home)]
    options += ["--output", str(tmp_path / "out"), "--records", str(tmp_path / "records")]
    return [str(tmp_path / "small" / "plan.toml"), *options]


def change_plan(given, *changes):
    """Write the plan with some text replaced."""
    text = PLAN
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    Path(given[0]).write_text(text)


def elsewhere(given, tmp_path, name):
    """Return the options with a different output folder."""
    return [str(tmp_path / name) if one == str(tmp_path / "out") else one for one in given]


@pytest.mark.slow
def test_a_paper(given, home, tmp_path, capsys):
    output, page, suite = tmp_path / "out", tmp_path / "pages" / "small.md", tmp_path / "small.toml"
    details = page.parent / "details" / page.name
    main(["reproduce", *given, "--seeds", "0", "--only", "one-sst"])
    main(["page", *given, "--page", str(page)])
    assert (
        "1 of 6 planned runs is done: 1 of 3 with seed 0, and none of 3 with seed 1. The" in page.read_text()
    )
    text = details.read_text()
    assert "| single | 80.0 | " in text and "| – (1 of 2 tasks) |" in text and "| joint | 88.5 |" not in text
    assert "Not yet run: joint over single (SST, mean)." in text

    main(["reproduce", *given, "--seeds", "0"])
    main(["board", *given, "--site", str(tmp_path / "site")])
    main(["page", *given, "--page", str(page)])
    line = _line(details, "| joint over single | mean |")
    joined = [output / "boards" / "small" / f"{row}-seed-0" for row in ("single", "joint")]
    total = decabench.compare(*joined, home=home, include=[suite], suite="small").total
    assert total.interval is not None
    assert line[3:9] == [
        "+9.00",  # claimed in the text; the paper has no figures for the mean
        f"{total.difference:+.3f}",
        "–",  # a single seed doesn't show how much seeds vary
        f"{total.interval[0]:+.3f} to {total.interval[1]:+.3f}",
        *("–", "–"),
    ]
    board = (tmp_path / "site" / "small" / "index.html").read_text()
    assert "single, seed 0" in board and "joint, seed 0" in board

    main(["reproduce", *given])
    main(["page", *given, "--page", str(page)])
    text, summary = details.read_text(), page.read_text()
    assert "\nAll 6 planned runs are done.\n" in summary
    golds = {
        task: {one.id: one.answers for one in decabench.tasks.Store(home).examples(task, "validation")}
        for task in ("sst", "multinli.in.out")
    }
    right = {
        (name, task, seed): _count_right(output / "submissions" / f"{name}-seed-{seed}", task, golds[task])
        for name, tasks in (
            ("joint", golds),
            ("one-sst", ["sst"]),
            ("one-multinli.in.out", ["multinli.in.out"]),
        )
        for task in tasks
        for seed in (0, 1)
    }
    sst = {name: [right[name, "sst", seed] for seed in (0, 1)] for name in ("joint", "one-sst")}
    means = {
        "joint": [np.mean([right["joint", task, seed] for task in golds]) for seed in (0, 1)],
        "single": [np.mean([right[f"one-{task}", task, seed] for task in golds]) for seed in (0, 1)],
    }
    for row, paper, figures in (("single", "80.0", sst["one-sst"]), ("joint", "88.5", sst["joint"])):
        shown = f"{np.mean(figures):.1f} ± {np.std(figures, ddof=1):.1f} (2)"
        mean = f"{np.mean(means[row]):.2f} ± {np.std(means[row], ddof=1):.2f} (2)"
        assert f"| {row} | {paper} | {shown} | {mean} |" in text
        assert f"| {row} | {paper} | {shown} |" in summary  # the paper has no figures of the mean
    assert "single" in text and means["joint"] != means["single"]  # otherwise the test could pass by accident
    line = _line(details, "| joint over single | SST |")
    by_seed = [one - two for one, two in zip(sst["joint"], sst["one-sst"], strict=True)]
    assert line[2:5] == ["+8.5", "+9.0", f"{np.mean(by_seed):+.1f}"]
    in_turn = ", ".join(f"{seed}: {each:+.1f}" for seed, each in enumerate(by_seed))
    assert line[-3:] == [f"{len(golds['sst'])}", "2", in_turn]
    line = _line(details, "| joint over single | mean |")
    by_seed = [one - two for one, two in zip(means["joint"], means["single"], strict=True)]
    assert line[4] == f"{np.mean(by_seed):+.3f}"
    in_turn = ", ".join(f"{seed}: {each:+.3f}" for seed, each in enumerate(by_seed))
    assert line[-3:] == [f"{sum(map(len, golds.values()))}", "2", in_turn]
    (low, high), texts = ([float(end) for end in line[at].split(" to ")] for at in (5, 6))
    assert low <= texts[0] < np.mean(by_seed) < texts[1] <= high and 0 < float(line[7]) <= float(line[8]) <= 1
    assert "p (Holm, 2)" in text, "both contrasts of the plan"
    said = " ".join(summary.split())
    assert f"- Jointly {np.mean(sst['joint']):.1f} (paper 88.5): {line[4][:-1]}" in said
    (pooled,) = [
        line for line in text.splitlines() if line.startswith("The standard deviation between seeds")
    ]
    one, several = (f"{np.std(means[row], ddof=1):.3f}" for row in ("joint", "single"))
    assert (
        f"mean with one model {one} (1; joint {one}); mean with several models {several} (1; single {several})"
        in pooled
    )
    assert (
        details.with_name("small-1.png").exists()
        and "![Validation scores by epoch: all rows](small-1.png)" in text
    )

    before = {path: path.stat().st_mtime_ns for path in output.rglob("*") if path.is_file()}
    capsys.readouterr()
    main(["reproduce", *given])  # doing it again has no effect
    assert {path: path.stat().st_mtime_ns for path in output.rglob("*") if path.is_file()} == before
    assert capsys.readouterr().out.startswith("Runs done: 6 of 6, in ")

    kept = sorted((tmp_path / "records" / "small").iterdir())
    assert len(kept) == 6 and max(path.stat().st_size for path in kept) < 40_000
    files = {f"{path.stem}/{name}": content for path in kept for name, content in read_zip(path).items()}
    main(["records", "small", "--records", str(tmp_path / "records"), "--pack"])
    assert not list((tmp_path / "records" / "small").iterdir())
    assert dict(read_archive(tmp_path / "records" / "small.tar.xz")) == files
    other = elsewhere(given, tmp_path, "else")
    main(["page", *other, "--page", str(tmp_path / "pages" / "again.md")])  # only from the records
    again = details.with_name("again.md").read_text()
    assert again.replace("again-1.png", "small-1.png").replace("again.md", "small.md") == text
    assert not (tmp_path / "else" / "runs").exists()
    main(["claims", "--output", str(tmp_path / "else"), "--page", str(tmp_path / "pages" / "claims.md")])
    assert "joint over single | SST | +9.0" in (tmp_path / "pages" / "claims.md").read_text()
    submission = tmp_path / "else" / "submissions" / "joint-seed-1"  # a normal submission
    scored = decabench.evaluate(submission, home=home, include=[suite], suite="small", split="validation")
    assert scored.tasks["sst"].scores["em"] == pytest.approx(sst["joint"][1])


@pytest.mark.heavy
def test_a_run_that_starts_from_another(given, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("papers.plan.WEIGHTS", tmp_path / "weights")
    monkeypatch.setattr("papers.runs.WEIGHTS", tmp_path / "weights")
    start = ("epochs = 3 }", 'epochs = 1, init_parts = ["embed"] }\ninit = "one-sst"')
    change_plan(given, start)
    only = ["--seeds", "1", "--only", "joint"]
    main(["reproduce", *given, *only])
    said = capsys.readouterr().out
    assert "one-sst, seed 1, whose weights are needed first" in said and re.search(
        r"  joint, seed 1: sst em \d+\.\d\d, ", said
    )
    assert not (tmp_path / "out" / "submissions" / "one-sst-seed-1").exists()

    published = ("seeds = [0, 1]", "seeds = [1, 0]"), (start[1], start[1] + '\ncheckpoint = "one-sst"')
    change_plan(given, start, *published)
    other = elsewhere(given, tmp_path, "else")
    shutil.rmtree(tmp_path / "records")
    with pytest.raises(
        SystemExit, match=r"(?s)Nothing was trained, .*python -m papers weights small one-sst"
    ):
        main(["reproduce", *other, *only])
    (checkpoint,) = (tmp_path / "out" / "runs" / "one-sst-seed-1" / "checkpoints").iterdir()
    shutil.copytree(checkpoint, tmp_path / "weights" / "one-sst")
    main(["reproduce", *other, *only])
    assert not (tmp_path / "else" / "runs" / "one-sst-seed-1").exists()
    answers = [tmp_path / one / "submissions" / "joint-seed-1" / "predictions" for one in ("out", "else")]
    for file in answers[0].iterdir():
        assert file.read_bytes() == (answers[1] / file.name).read_bytes(), "both begin with the same weights"


@pytest.mark.heavy
def test_runs_and_records_of_other_settings(given, tmp_path, capsys):
    only = ["--seeds", "0", "--only", "one-sst"]
    main(["reproduce", *given, *only])
    record = tmp_path / "records" / "small" / "one-sst-seed-0.zip"
    before = record.read_bytes()
    change_plan(given, ("epochs = 2", "epochs = 1"))
    with pytest.raises(
        SystemExit, match=r"one-sst, seed 0 was trained with settings .* Delete .*one-sst-seed-0"
    ):
        main(["reproduce", *given, *only])
    other = elsewhere(given, tmp_path, "else")
    main(["page", *other, "--page", str(tmp_path / "page.md")])
    assert "its record was not used" in capsys.readouterr().out
    assert (
        "0 of 6 planned runs are done: none of 3 with each of seeds 0 and 1."
        in (tmp_path / "page.md").read_text()
        and record.read_bytes() == before
    )
    main(["reproduce", *other, *only])
    assert record.read_bytes() != before


@pytest.mark.heavy
def test_a_run_that_is_killed_before_it_is_scored_goes_on(given, tmp_path, monkeypatch):
    only = ["--seeds", "0", "--only", "one-sst"]

    def die(*given):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(runs, "score", die)
        with pytest.raises(SystemExit, match="Run the same command again"):
            main(["reproduce", *given, *only])
    weights = {path: path.stat().st_mtime_ns for path in (tmp_path / "out").rglob("*.safetensors")}
    # A measure with a different split is added to the plan, and answered with the same weights.
    change_plan(given, ('"mean" = {', '"SST, test" = { task = "sst", split = "test" }\n"mean" = {'))
    main(["reproduce", *given, *only])
    assert {path: path.stat().st_mtime_ns for path in weights} == weights
    names = read_zip(tmp_path / "records" / "small" / "one-sst-seed-0.zip")
    assert {"predictions/sst.test.jsonl", "results/test-small/results.json"} < set(names)


def test_records_are_whole_or_not_there(tmp_path):
    own = Records(tmp_path, "plan")
    own.add("one-seed-0", {"a/b.txt": b"first", "c": b""})
    own.add("one-seed-1", {"a/b.txt": b"second"})
    assert own.pack() == 2 and not own.loose
    own.add("one-seed-1", {"a/b.txt": b"newer"})
    (tmp_path / "out" / "one-seed-0").mkdir(parents=True)  # existing folders are left unchanged
    own.unpack(tmp_path / "out")
    assert [path.name for path in (tmp_path / "out").iterdir() if any(path.iterdir())] == ["one-seed-1"]
    assert (tmp_path / "out" / "one-seed-1" / "a" / "b.txt").read_bytes() == b"newer"
    for damage in (own.archive.read_bytes()[:50], b"no archive"):
        own.archive.write_bytes(damage)
        with pytest.raises(decabench.DecabenchError, match="cannot be read"):
            own.unpack(tmp_path / "third")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--seeds", "7"], "has no seed 7; its seeds are 0, 1"),
        (["--only", "jiont"], "Unknown run 'jiont': did you mean joint?"),
        (["--only", "single"], "a row, whose runs are one-sst, one-multinli.in.out"),
        (["--device", "cuda:99", "--only", "joint"], "torch found no cuda:99"),
        (["--home", "/nowhere", "--only", "joint"], "joint: .*prepared in"),
    ],
)
def test_wrong_options_are_told_before_anything_is_trained(given, tmp_path, options, message):
    with pytest.raises(SystemExit, match=message):
        main(["reproduce", *given, *options])
    assert not (tmp_path / "out" / "runs").exists()


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('baseline = "single"', 'baseline = "singel"', "row 'singel'"),
        ('measures = ["SST"]', 'measures = "SST"', "no list 'SST'"),
        ('measures = ["SST"]', 'measures = ["SST", "mean"]', "exactly one measure, not SST, mean"),
        ("{{joint: SST}}", "{{joined: SST}}", r"\{\{joined: SST\}\}, but there is no such row or contrast"),
        ('name = "joint"', 'name = "joint"\nrow = "single"', "row 'single' has two runs for sst"),
        (
            "settings = { epochs = 3 }",
            'tasks = ["sst"]\nomit = ["sst2"]',
            "omits tasks that it does not have: sst2",
        ),
        ("settings = { epochs = 3 }", 'checkpoint = "x"\nseeds = [0, 1]', "would all start from 'x'"),
        ("settings = { epochs = 3 }", 'like = "later"', "joint is like 'later', which is not an earlier run"),
        ('name = "joint"\n', "", "one of its runs lacks name"),
        ('name = "joint"', 'name = "../joint"', "matching regex"),
        ('"SST" = { task = "sst"', '"SST" = { each = ["a", "b"], task = "sst"', "put {} in the name"),
        ('{ suite = "small", digits', '{ suite = "small", score = "em", digits', "combines headlines"),
    ],
)
def test_a_plan_that_does_not_hold_together(given, tmp_path, old, new, message):
    change_plan(given, (old, new))
    with pytest.raises(decabench.DecabenchError, match=message):
        read_plan(tmp_path / "small" / "plan.toml", [tmp_path / "small.toml"])


@pytest.mark.parametrize(
    "old, new, message",
    [
        (
            "settings = { epochs = 3 }",
            'settings = { "model.dimensoin" = 3 }',
            "joint: .*Did you mean model.dimension",
        ),
        ("settings = { epochs = 3 }", 'config = "jiont.toml"', "joint: There is no file .*jiont.toml"),
        (
            "settings = { epochs = 3 }",
            'settings = { best_by = "schema" }',
            r"joint: .*score \(best_by\) 'schema'",
        ),
        (
            "settings = { epochs = 3 }",
            'settings = { vectors = ["no.vec"] }',
            "joint: The word-vector file",
        ),
    ],
)
def test_faults_of_runs_are_told_before_any_is_trained(given, tmp_path, old, new, message):
    change_plan(given, (old, new))
    with pytest.raises(SystemExit, match="Nothing was trained") as ended:
        main(["reproduce", *given])
    assert re.search(message, str(ended.value)) and not list((tmp_path / "out").glob("runs/*"))
