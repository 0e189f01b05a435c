"""A small paper reproduced: two models and a contrast, with a seed that is added later."""

import json
import sys
from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("matplotlib")

from decabench.scoring import ScoringOptions, compare_pairs, flip_signs, score_submission
from tests.sources import ROOT

sys.path.insert(0, str(ROOT / "tools"))

import reproduce

PLAN = """
title = "A small paper"
paper = "Nobody 2026"
suite = "movies"
split = "validation"
seeds = [0, 1]
notes = ["The classes are few."]

[settings]
"model.name" = "classifier"
"model.dimension" = 8
vectors = ["none:12"]
batch_examples = 8
steps = 4
validate_every = 4
validation_examples = 8
checkpoint_every = 4

[measures]
"SST" = { task = "sst", score = "em" }

[published.joint]
"SST" = 88.5

[published.single]
"SST" = 80

[[contrasts]]
row = "joint"
baseline = "single"
measures = ["SST"]

[[runs]]
name = "sst"
row = "single"
tasks = ["sst"]

[[runs]]
name = "joint"
tasks = ["sst", "multinli.in.out"]
settings = { steps = 6 }
"""


@pytest.mark.slow
def test_a_paper(home, tmp_path, capsys):
    plan, output, page = tmp_path / "plan.toml", tmp_path / "out", tmp_path / "pages" / "small.md"
    plan.write_text(PLAN)
    options = [str(plan), "--output", str(output), "--home", str(home), "--page", str(page)]
    reproduce.main([*options, "--seeds", "0", "--only", "sst"])
    text = page.read_text()
    assert "| joint | 88.5 | – |" in text and "| joint over single | SST | +8.5 | – | – | – | – |" in text
    reproduce.main(options)
    found = {}
    for name in ("sst", "joint"):
        for seed in (0, 1):
            folder = output / "submissions" / f"{name}-seed-{seed}"
            results = json.loads((folder / "results" / "validation-movies" / "results.json").read_text())
            found.setdefault(name, []).append(results["tasks"]["sst"]["score"])
            assert list(results["tasks"]) == ["sst"]  # the other task has no measure
    text = page.read_text()
    for row, paper, name in (("single", "80.0", "sst"), ("joint", "88.5", "joint")):
        mean, spread = np.mean(found[name]), np.std(found[name], ddof=1)
        assert f"| {row} | {paper} | {mean:.1f} ± {spread:.1f} (2) |" in text
    (line,) = [line for line in text.splitlines() if line.startswith("| joint over single")]
    difference = np.mean(found["joint"]) - np.mean(
        found["sst"]
    )  # accuracies of the same texts: pooling averages
    assert f"| SST | +8.5 | {difference:+.1f} |" in line and line.endswith("| 2 and 2 |")
    assert "| joint | sst, multinli.in.out | `steps=6` | 2 of 2 | 6 |" in text
    assert page.with_suffix(".png").exists() and "](small.png)" in text
    capsys.readouterr()
    before = {path: path.stat().st_mtime_ns for path in output.rglob("*") if path.is_file()}
    reproduce.main(options)  # a second time does nothing
    assert {path: path.stat().st_mtime_ns for path in output.rglob("*") if path.is_file()} == before
    assert capsys.readouterr().out == ""
    # One seed pooled is the pair that `decabench compare` tests; the same answers twice add no certainty.
    options = ScoringOptions("validation", None, home)
    pair = [
        score_submission(output / "submissions" / f"{name}-seed-0", options)[1]["sst"]
        for name in ("sst", "joint")
    ]
    once = compare_pairs([flip_signs([reproduce.pool([each]) for each in pair])])
    twice = compare_pairs([flip_signs([reproduce.pool([each, each]) for each in pair])])
    plain = compare_pairs([flip_signs([each.sample for each in pair])])
    assert once.interval(0, 1) == plain.interval(0, 1)
    for one, two in ((once.differences, twice.differences), (once.errors, twice.errors), (once.p, twice.p)):
        np.testing.assert_allclose(one[0, 1], two[0, 1])


@pytest.mark.parametrize(
    "old, new, message",
    [
        ('baseline = "single"', 'baseline = "singel"', "'singel'"),
        ('measures = ["SST"]', 'measures = ["SST2"]', "measure 'SST2'"),
        ('name = "joint"', 'name = "sst"', "second run 'sst'"),
        ("seeds = [0, 1]", 'seeds = "01"', "is not a plan"),
        ("[published.single]", "[published.many]", "row 'many'"),
    ],
)
def test_a_plan_that_does_not_hold_together(tmp_path, old, new, message):
    (tmp_path / "plan.toml").write_text(PLAN.replace(old, new))
    with pytest.raises(SystemExit, match=message):
        reproduce.read_plan(tmp_path / "plan.toml")


@pytest.mark.parametrize(
    "path", sorted(ROOT.glob("examples/training/*/plan.toml")), ids=lambda path: path.parent.name
)
def test_plans_of_the_project(path):
    """Each run's settings can be read together."""
    from decabench.training.config import read_config, with_settings

    plan = reproduce.read_plan(path)
    for run in plan.runs:
        config = read_config(path.parent / (run.config or plan.config))
        made = with_settings(replace(config, tasks=run.tasks), {**plan.settings, **run.settings, "seed": 1})
        assert made.tasks == run.tasks
