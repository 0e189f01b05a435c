"""A small paper reproduced: three models, contrasts over a task and a suite, a seed that is added later, a board."""

import json
import re
import shutil
import sys
import zipfile
from dataclasses import replace
from statistics import mean

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("matplotlib")

import decabench
from decabench.tasks import TASKS
from tests.sources import ROOT

sys.path.insert(0, str(ROOT / "tools"))

import make_related_tasks
import reproduce
from reproduction.plan import read_plan

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
notes = ["The classes are few.", "Runs done: 99 of 99 with seed 0."]
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


def read_archive(path):
    """Return the files of a zip file, by name."""
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def write_archive(path, content):
    """Write a zip file with these files, such as a record that somebody changed."""
    with zipfile.ZipFile(path, "w") as archive:
        for name, part in content.items():
            archive.writestr(name, part)


DONE = re.compile(r"(\d+) of \1 runs that were asked for are done, in .*\n")


@pytest.mark.slow
def test_a_paper(home, tmp_path, capsys):
    """Figures and contrasts of the page are those of the answers, counted here, and those of `decabench compare`."""
    plan, output, page = tmp_path / "plan.toml", tmp_path / "out", tmp_path / "pages" / "small.md"
    suite = tmp_path / "small.toml"
    plan.write_text(PLAN)
    suite.write_text(SUITE)
    options = [
        str(plan),
        "--output",
        str(output),
        "--home",
        str(home),
        "--include",
        str(suite),
        "--page",
        str(page),
    ]

    reproduce.main([*options, "--seeds", "0", "--only", "one-sst"])
    text = page.read_text()
    assert "| single | 80.0 | " in text and "| – (1 of 2 tasks) |" in text and "| joint | 88.5 |" not in text
    assert "1 of 3 with seed 0, 0 of 3 with seed 1" in text
    assert "Without runs as yet: joint over single (SST, mean)." in text
    assert "Not trained as yet: joint." in text

    reproduce.main([*options, "--seeds", "0", "--board", str(tmp_path / "site")])
    line = _line(page, "| joint over single | mean |")
    joined = [output / "boards" / "small" / f"{row}-seed-0" for row in ("single", "joint")]
    total = decabench.compare(*joined, home=home, include=[suite], suite="small").total
    assert total.interval is not None
    assert line[3:9] == [
        "+9.00",  # what the text claims; the paper has no figures of the mean
        f"{total.difference:+.3f}",
        "–",  # one seed does not say how much seeds differ
        f"{total.interval[0]:+.3f} to {total.interval[1]:+.3f}",
        *("–", "–"),
    ]
    assert (tmp_path / "site" / "small" / "index.html").exists()
    board = (tmp_path / "site" / "small" / "index.html").read_text()
    assert "single, seed 0" in board and "joint, seed 0" in board

    reproduce.main(options)
    text = page.read_text()
    assert "Runs done: 3 of 3 with seed 0, 3 of 3 with seed 1." in text
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
    assert "single" in text and means["joint"] != means["single"]  # nothing can pass because all is alike
    line = _line(page, "| joint over single | SST |")
    by_seed = [one - two for one, two in zip(sst["joint"], sst["one-sst"], strict=True)]
    assert line[2:5] == ["+8.5", "+9.0", f"{np.mean(by_seed):+.1f}"]
    in_turn = ", ".join(f"{seed}: {each:+.1f}" for seed, each in enumerate(by_seed))
    assert line[-3:] == [f"{len(golds['sst'])}", "2", in_turn]
    line = _line(page, "| joint over single | mean |")
    by_seed = [one - two for one, two in zip(means["joint"], means["single"], strict=True)]
    assert line[4] == f"{np.mean(by_seed):+.3f}"
    in_turn = ", ".join(f"{seed}: {each:+.3f}" for seed, each in enumerate(by_seed))
    assert line[-3:] == [f"{sum(map(len, golds.values()))}", "2", in_turn]
    (low, high), texts = ([float(end) for end in line[at].split(" to ")] for at in (5, 6))
    assert low <= texts[0] < np.mean(by_seed) < texts[1] <= high and 0 < float(line[7]) <= float(line[8]) <= 1
    assert "p (Holm, 2)" in text, "both contrasts of the plan"
    said = " ".join(text.split())
    assert f"- Jointly {np.mean(sst['joint']):.1f} (the paper 88.5): {line[4][:-1]}" in said
    (pooled,) = [
        line for line in text.splitlines() if line.startswith("Standard deviation from seed to seed")
    ]
    one, several = (f"{np.std(means[row], ddof=1):.3f}" for row in ("joint", "single"))
    assert (
        f"mean of one model {one} (1; joint {one}); mean of several models {several} (1; single {several})"
        in pooled
    )
    assert (
        page.with_name("small-1.png").exists()
        and "![Validation scores by epoch: all rows](small-1.png)" in text
    )

    import torch
    from safetensors.torch import load_file

    checkpoint = sorted((output / "runs" / "joint-seed-0" / "checkpoints").iterdir())[-1]
    weights = load_file(checkpoint / "model.safetensors")
    count = sum(tensor.numel() for name, tensor in weights.items() if not name.startswith("embed."))
    assert isinstance(next(iter(weights.values())), torch.Tensor) and 0 < count
    (line,) = [
        line for line in text.splitlines() if line.startswith("| joint | joint | sst, multinli.in.out |")
    ]
    assert f"| `epochs=3` | {count:,} |" in line and line.endswith("| 0: 1 of 1, 1: 1 of 1 |")
    assert "| 48 | 0: 3, 1: 3 |" in line  # the last epoch, as `best_by` says
    assert "Settings of all runs: `model.name=classifier`, " in text

    capsys.readouterr()
    before = {path: path.stat().st_mtime_ns for path in output.rglob("*") if path.is_file()}
    reproduce.main(options)  # a second time does nothing
    assert {path: path.stat().st_mtime_ns for path in output.rglob("*") if path.is_file()} == before
    assert DONE.fullmatch(capsys.readouterr().out)

    records = tmp_path / "records"
    reproduce.main([*options, "--records", str(records)])
    text = page.read_text()
    assert f"decabench evaluate --submission {records.name}/RUN-seed-0.zip --suite small" in text
    kept = {path.name: path.read_bytes() for path in records.iterdir()}
    assert len(kept) == 6 and max(map(len, kept.values())) < 40_000
    assert DONE.fullmatch(capsys.readouterr().out), "nothing was trained for them"
    elsewhere = [str(tmp_path / "else") if one == str(output) else one for one in options]
    page.unlink()
    broken = tmp_path / "else" / "submissions" / "one-sst-seed-0" / "results"
    broken.mkdir(parents=True)  # as a process leaves them that was killed while it copied
    (broken / "part").touch()
    reproduce.main([*elsewhere, "--records", str(records)])  # from the records alone, without training
    assert page.read_text() == text and DONE.fullmatch(capsys.readouterr().out)
    assert not (tmp_path / "else" / "runs").exists()
    assert {path.name: path.read_bytes() for path in records.iterdir()} == kept
    submission = records / "joint-seed-1.zip"  # a submission like any other
    scored = decabench.evaluate(submission, home=home, include=[suite], suite="small", split="validation")
    assert scored.tasks["sst"].scores["em"] == pytest.approx(sst["joint"][1])

    plan.write_text(PLAN.replace("epochs = 3 }", 'epochs = 1, init_parts = ["embed"] }\ninit = "one-sst"'))
    third = [str(tmp_path / "third") if one == str(output) else one for one in options]
    with pytest.raises(
        SystemExit, match=f"joint, seed 0: delete {output}/submissions/joint-seed-0 and {output}/runs/"
    ):
        reproduce.main(options)  # which would give the page the answers of runs of other settings
    third[third.index(str(page))] = str(tmp_path / "third.md")  # a page of fewer runs
    data = ["--home", str(home), "--include", str(suite)]
    only = ["--records", str(records), "--seeds", "1", "--only", "joint"]
    with pytest.raises(
        SystemExit, match=r"joint-seed-1.zip is the record of a run of other settings .* It is kept"
    ):
        reproduce.main([*third, *only])
    with pytest.raises(
        SystemExit, match=r"joint-seed-1.zip is the record of a run of other settings .* It is kept"
    ):
        reproduce.main([str(plan), *data, "--output", str(tmp_path / "fifth"), *only, "--page-only"])
    assert not (tmp_path / "third" / "runs").exists() and submission.read_bytes() == kept[submission.name]
    submission.unlink()
    capsys.readouterr()
    reproduce.main([*third, *only])
    said = capsys.readouterr().out
    assert "one-sst, seed 1, for its weights" in said
    assert re.search(
        r"  joint, seed 1: sst em \d+\.\d\d, multinli.in.out em \d+\.\d\d \(.*joint-seed-1/results/.*json\)",
        said,
    )
    assert (tmp_path / "third" / "submissions" / "joint-seed-1" / "predictions").exists()
    assert not (tmp_path / "third" / "submissions" / "one-sst-seed-1").exists()
    assert submission.exists()
    assert (
        "| joint | joint | sst, multinli.in.out | `init=one-sst`; `epochs=1`; `init_parts"
        in (tmp_path / "third.md").read_text()
    )

    published = tmp_path / "weights" / "sst"
    (checkpoint,) = (tmp_path / "third" / "runs" / "one-sst-seed-1" / "checkpoints").iterdir()
    shutil.copytree(checkpoint, published)
    # The weights of one-sst's first seed: the others train it.
    plan.write_text(
        plan.read_text()
        .replace('init = "one-sst"', 'init = "one-sst"\ncheckpoint = "weights/sst"')
        .replace("seeds = [0, 1]", "seeds = [1, 0]")
    )
    sixth = [str(plan), *data, "--output", str(tmp_path / "sixth"), "--seeds", "1", "--only", "joint"]
    reproduce.main([*sixth, "--page", str(tmp_path / "sixth.md")])
    assert not (tmp_path / "sixth" / "runs" / "one-sst-seed-1").exists()
    assert "`init=one-sst`; `checkpoint=weights/sst`; `epochs=1`" in (tmp_path / "sixth.md").read_text()
    answers = [tmp_path / one / "submissions" / "joint-seed-1" / "predictions" for one in ("third", "sixth")]
    for file in answers[0].iterdir():
        assert file.read_bytes() == (answers[1] / file.name).read_bytes(), "both begin with the same weights"
    shutil.rmtree(published)
    with pytest.raises(SystemExit, match=r"(?s)nothing was trained, .*joint: .*weights/sst"):
        reproduce.main([str(tmp_path / "seventh") if one.endswith("sixth") else one for one in sixth])

    for wrong, message in (
        (("--seeds", "7"), "the plan has no seed 7; its seeds are 0, 1"),
        (("--seeds", "0,zero"), "not a seed: 'zero'; give whole numbers, separated by commas"),
        (("--only", "jiont"), "there is no run 'jiont'. Did you mean joint?"),
        (("--only", "single"), "'single' is a row, not a run; its runs are one-sst, one-multinli.in.out"),
        (("--page-only", "--records", "nowhere"), "--records: there is no folder nowhere"),
        (("--only", "xyz"), "there is no run 'xyz'; the runs are one-sst, one-multinli.in.out, joint"),
    ):
        with pytest.raises(SystemExit):
            reproduce.main([*options, *wrong])
        assert message in " ".join(capsys.readouterr().err.split())

    forged = tmp_path / "forged"
    shutil.copytree(records, forged)
    content = read_archive(forged / "one-sst-seed-0.zip")
    name = "predictions/sst.validation.jsonl"
    content[name] = re.sub(rb'"(positive|negative)"', b'"unknown"', content[name])
    assert b'"unknown"' in content[name]
    write_archive(forged / "one-sst-seed-0.zip", content)
    fourth = [str(plan), *data, "--output", str(tmp_path / "fourth")]
    with pytest.raises(SystemExit, match=r"one-sst-seed-0.zip is not as it was written, .*: predictions/sst"):
        reproduce.main([*fourth, "--records", str(forged), "--seeds", "0", "--only", "one-sst"])
    assert not (tmp_path / "fourth" / "submissions" / "one-sst-seed-0" / "predictions").exists()
    content["manifest.json"] = b'{"format": "decabench.manifest/1", "decabench": "1", "results": {}}'
    write_archive(forged / "one-sst-seed-0.zip", content)
    with pytest.raises(
        SystemExit, match=r"one-sst-seed-0.zip is not as it was written, .* no digests of results/"
    ):
        reproduce.main([*fourth, "--records", str(forged), "--seeds", "0", "--only", "one-sst"])


def _line(page, start):
    """Return the cells of the only line of a page that begins so."""
    (line,) = [line for line in page.read_text().splitlines() if line.startswith(start)]
    return [cell.strip() for cell in line.strip("| ").split("|")]


def _count_right(submission, task, golds):
    """Count right answers in percent, from the file itself."""
    (path,) = submission.glob(f"predictions/{task}.validation.jsonl")
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert {line["id"] for line in lines} == golds.keys()
    return 100 * sum(line["answer"] in golds[line["id"]] for line in lines) / len(lines)


@pytest.mark.parametrize(
    "old, new, message",
    [
        ('baseline = "single"', 'baseline = "singel"', "'singel'"),
        ('measures = ["SST"]', 'measures = ["SST2"]', "measure 'SST2'"),
        ('measures = ["SST"]', 'measures = "SST"', "no list 'SST'"),
        (
            'measures = ["SST"]',
            'measures = ["SST", "mean"]',
            "of one measure, and compares SST, mean: give that",
        ),
        ("{{joint: SST}}", "{{joined: SST}}", r"row or contrast \{\{joined: SST\}\} of the summary"),
        ("{{joint over single: mean}}", "{{joint over single: men}}", "joint over single: men"),
        ('measures = ["SST"]', "measures = []", "of one measure, and compares none"),
        ('name = "joint"', 'name = "one-sst"', "second run 'one-sst'"),
        ('name = "joint"', 'name = "joint"\nrow = "single"', "second sst in row 'single'"),
        ("settings = { epochs = 3 }", 'omit = ["sts"]', "sts"),
        (
            "settings = { epochs = 3 }",
            'tasks = ["sst"]\nomit = ["sst2"]',
            "omits what is none of its tasks: sst2",
        ),
        ("settings = { epochs = 3 }", 'init = "joint"', "init 'joint' of joint, which ends in itself"),
        (
            "settings = { epochs = 3 }",
            'checkpoint = "weights"\nseeds = [0, 1]',
            r"seeds \[0, 1\] of joint, which would all share the luck of 'weights'",
        ),
        ("settings = { epochs = 3 }", 'suite = "smal"', "Did you mean small"),
        ('suite = "small"\nsplit', 'suite = "smal"\nsplit', "Did you mean small"),
        ('name = "joint"\n', "", "one of its runs, has no name"),
        ('baseline = "single"', "baseline = []", "of 'joint' needs a baseline"),
        ('baseline = "single"', 'baseline = ["single", "single"]', "of 'joint' needs a baseline"),
        ("seeds = [0, 1]", "seeds = [0, 0]", r"seeds \[0, 0\] of joint"),
        ("seeds = [0, 1]", "seeds = [-1, 0]", "has the seed -1: give 0 or more"),
        ('name = "joint"', 'name = "../joint"', "'../joint' cannot be a run's name"),
        ('"SST" = { task = "sst"', '"SST" = { each = ["a", "b"], task = "sst"', "put {} in it"),
        ('{ suite = "small", digits', '{ suite = "small", score = "em", digits', "combines headlines"),
        ('[measures]\n"SST" = { task = "sst", score = "em" }', "[[measures]]\n", "measures are tables"),
        ("settings = { epochs = 3 }", 'like = "later"', "joint is like 'later', which is no earlier run"),
        ("settings = { epochs = 3 }", "setings = { epochs = 3 }", "no setting setings"),
        ('task = "sst", score', 'suite = "small", task = "sst", score', "one task or suite of measure 'SST'"),
        ('{ suite = "small"', '{ suite = "smal"', "Did you mean small"),
        ("seeds = [0, 1]", 'seeds = "01"', "is not a plan"),
        ("[measures]", '[[baselines]]\nrow = "joint"\nsubmission = "x"\n[measures]', "second row 'joint'"),
        (
            "[measures]",
            '[[baselines]]\nrow = "most"\nsubmission = "x"\nanswers = "y"\n[measures]',
            "no setting answers",
        ),
        ("[published.single]", "[published.many]", "row 'many'"),
        ('split = "validation"', 'split = "tset"', "split is 'tset'"),
        ('split = "validation"', 'split = "test"\noverlap_by = "near"', "overlap_by is 'near'"),
        ('task = "sst", score', 'task = "stt", score', "Did you mean sst"),
        ('task = "sst", score', 'task = "sst", split = "tset", score', "split is 'tset'"),
        (
            'task = "sst", score',
            'task = "sst", split = "validation", score',
            "plan's own split of measure 'SST': leave it out",
        ),
        (
            '{ suite = "small", digits',
            '{ suite = "small", split = "test", digits',
            "which is a suite's",
        ),
    ],
)
def test_a_plan_that_does_not_hold_together(tmp_path, old, new, message):
    assert old in PLAN
    (tmp_path / "plan.toml").write_text(PLAN.replace(old, new))
    (tmp_path / "small.toml").write_text(SUITE)
    with pytest.raises(SystemExit, match=message):
        read_plan(tmp_path / "plan.toml", [tmp_path / "small.toml"])


@pytest.mark.parametrize(
    "old, new, message",
    [
        (
            "settings = { epochs = 3 }",
            'settings = { "model.dimensoin" = 3 }',
            "joint: .*Did you mean model.dimension",
        ),
        ("settings = { epochs = 3 }", 'config = "jiont.toml"', "joint: .*jiont.toml cannot be read"),
        (
            "settings = { epochs = 3 }",
            'settings = { best_by = "schema" }',
            r"joint: .*score \(best_by\) 'schema'",
        ),
        (
            "settings = { epochs = 3 }",
            'settings = { vectors = ["no.vec"] }',
            "joint: There is no file of word vectors",
        ),
        (
            'name = "joint"\nsettings = { epochs = 3 }',
            'name = "joint"\ntasks = ["schema"]',
            "joint: none of its tasks has a measure of the validation split",
        ),
    ],
)
def test_faults_of_runs_are_told_before_any_is_trained(home, tmp_path, capsys, old, new, message):
    assert old in PLAN
    (tmp_path / "plan.toml").write_text(PLAN.replace(old, new))
    (tmp_path / "small.toml").write_text(SUITE)
    given = [str(tmp_path / "plan.toml"), "--include", str(tmp_path / "small.toml"), "--home", str(home)]
    with pytest.raises(SystemExit, match="nothing was trained") as ended:
        reproduce.main([*given, "--output", str(tmp_path / "out")])
    assert re.search(message, str(ended.value)) and not list((tmp_path / "out").glob("runs/*"))


@pytest.mark.slow
def test_a_run_answers_on_the_device_that_it_was_trained_on(one_run, monkeypatch):
    """Where there was a GPU, it answered there what a CPU had trained."""
    devices, predict = [], reproduce.decabench.predict

    def note(*given, **more):
        devices.append(more["options"].device)
        return predict(*given, **more)

    monkeypatch.setattr(reproduce.decabench, "predict", note)
    reproduce.main(one_run)
    assert devices == ["cpu"]


@pytest.mark.slow
def test_answers_that_may_not_be_passed_on_are_left_out_of_records(one_run, tmp_path, monkeypatch):
    """As those to iwslt.en.de, which translate talks that allow no derivatives: a record is made to be published."""
    monkeypatch.setattr(type(TASKS["sst"]), "withholds_answers", property(lambda task: task.name == "sst"))
    one_run[one_run.index("one-sst")] = "joint"
    reproduce.main(one_run)
    own, page = tmp_path / "out" / "submissions" / "joint-seed-0", tmp_path / "page.md"
    with zipfile.ZipFile(tmp_path / "records" / "joint-seed-0.zip") as archive:
        names = archive.namelist()
        assert "withheld/sst.validation.jsonl" in names and "predictions/sst.validation.jsonl" not in names
        assert "predictions/multinli.in.out.validation.jsonl" in names
        results = archive.read("results/validation-small/results.json")
    assert results == (own / "results" / "validation-small" / "results.json").read_bytes()
    assert (own / "predictions" / "sst.validation.jsonl").exists()
    one_run[one_run.index(str(tmp_path / "out"))] = str(tmp_path / "else")
    reproduce.main([*one_run, "--page-only", "--page", str(page)])
    assert not (tmp_path / "else" / "runs").exists() and "Runs done: 1 of" in page.read_text()
    scores = {name: own["scores"]["em"] for name, own in json.loads(results)["tasks"].items()}
    cells = f"{scores['sst']:.1f} (1) | {mean(scores.values()):.2f} (1)"
    assert len(scores) == 2 and cells in page.read_text()

    content = read_archive(tmp_path / "records" / "joint-seed-0.zip")
    content["results/validation-small/statistics/sst.parquet"] += b" "
    write_archive(tmp_path / "records" / "joint-seed-0.zip", content)
    one_run[one_run.index(str(tmp_path / "else"))] = str(tmp_path / "third")
    with pytest.raises(
        SystemExit, match=r"not as it was written, .*: results/validation-small/statistics/sst"
    ):
        reproduce.main(one_run)

    name = "results/validation-small/statistics/sst.parquet"
    content[name] = content[name][:-1]
    digests = content["withheld/sst.validation.jsonl"].decode()
    head = json.loads(digests.splitlines()[0])
    content["withheld/sst.validation.jsonl"] = digests.replace(head["answers"], "sha256:" + "0" * 64).encode()
    write_archive(tmp_path / "records" / "joint-seed-0.zip", content)
    with pytest.raises(SystemExit, match=r"sst of joint-seed-0: .* not those of the answers that were"):
        reproduce.main([*one_run, "--page", str(page)])


def test_a_configuration_is_no_plan(tmp_path):
    (tmp_path / "one.toml").write_text(
        'title = "t"\npaper = "p"\nsuite = "small"\nsplit = "test"\nseeds = [0]\n'
    )
    with pytest.raises(SystemExit, match=r"one.toml is not a plan: it has no \[\[runs\]\]"):
        read_plan(tmp_path / "one.toml", [])


@pytest.mark.parametrize(
    ("task", "bound"), [("iwslt.en.de", True), ("cnn_dailymail", True), ("squad", False), ("sst", False)]
)
def test_which_answers_are_left_out(task, bound):
    assert TASKS[task].withholds_answers == bound


@pytest.mark.slow
def test_a_record_without_results_is_told_and_the_others_go_on(one_run, tmp_path, capsys):
    reproduce.main(one_run)
    record = tmp_path / "records" / "one-sst-seed-0.zip"
    content = {name: part for name, part in read_archive(record).items() if not name.startswith("results/")}
    write_archive(record, content)
    one_run[one_run.index(str(tmp_path / "out"))] = str(tmp_path / "else")
    capsys.readouterr()
    with pytest.raises(SystemExit, match="has no results/: restore it, or delete it"):
        reproduce.main(one_run)
    assert "\n0 of 1 runs that were asked for are done" in f"\n{capsys.readouterr().out}"


def test_missing_data_and_devices_are_told_before_any_is_trained(home, tmp_path, capsys):
    (tmp_path / "plan.toml").write_text(PLAN)
    (tmp_path / "small.toml").write_text(SUITE)
    given = [str(tmp_path / "plan.toml"), "--include", str(tmp_path / "small.toml"), "--only", "joint"]
    given += ["--output", str(tmp_path / "out")]
    with pytest.raises(SystemExit, match=r"joint: .*prepared in .*empty"):
        reproduce.main([*given, "--home", str(tmp_path / "empty")])
    with pytest.raises(SystemExit, match="torch finds no cuda:99"):
        reproduce.main([*given, "--home", str(home), "--device", "cuda:99"])
    assert not (tmp_path / "out").exists()


def test_an_output_that_cannot_be_written_is_told_before_anything_is_trained(one_run, tmp_path):
    (tmp_path / "file").touch()
    given = [str(tmp_path / "file" / "out") if each == str(tmp_path / "out") else each for each in one_run]
    assert given != one_run
    with pytest.raises(SystemExit, match=r"cannot be written .*choose another folder"):
        reproduce.main(given)


def test_nothing_to_do_is_said(home, tmp_path, capsys):
    """A run that has no such seed was passed over in silence, and so was a plan that has nothing in a folder."""
    (tmp_path / "plan.toml").write_text(PLAN.replace('name = "joint"', 'name = "joint"\nseeds = [0]'))
    (tmp_path / "small.toml").write_text(SUITE)
    given = [str(tmp_path / "plan.toml"), "--include", str(tmp_path / "small.toml"), "--home", str(home)]
    given += ["--output", str(tmp_path / "out")]
    with pytest.raises(SystemExit):
        reproduce.main([*given, "--only", "joint", "--seeds", "1"])
    assert "joint has the seeds 0" in capsys.readouterr().err
    reproduce.main([*given, "--page-only", "--seeds", "1"])
    assert re.match(r"0 of \d+ runs that were asked for are done", capsys.readouterr().out)


@pytest.mark.slow
def test_a_measure_of_another_split(home, tmp_path, capsys):
    """Splits are answered with the same weights, also later, and kept in the same record."""
    plan, suite, records, page = (
        tmp_path / name for name in ("plan.toml", "small.toml", "records", "page.md")
    )
    suite.write_text(SUITE)
    plan.write_text(PLAN)
    given = [str(plan), "--include", str(suite), "--home", str(home), "--records", str(records)]
    given += ["--only", "one-sst", "--page", str(page)]
    here = ["--output", str(tmp_path / "out")]
    reproduce.main([*given, *here, "--seeds", "0"])
    validation = records / "one-sst-seed-0.zip"
    (tmp_path / "old").mkdir()
    shutil.copy(validation, tmp_path / "old")
    weights = [path for path in (tmp_path / "out" / "runs").rglob("*") if path.is_file()]
    before = {path: path.stat().st_mtime_ns for path in weights}

    measure = '"mean" = {'
    plan.write_text(
        PLAN.replace(measure, '"SST, test" = { task = "sst", split = "test", digits = 2 }\n' + measure)
    )
    capsys.readouterr()
    reproduce.main([*given, *here])  # the first seed is answered on the other split, the second is trained
    assert {path: path.stat().st_mtime_ns for path in weights} == before
    told = capsys.readouterr().out
    assert "one-sst, seed 0: sst em" in told and "seed 0\n" not in told and "one-sst, seed 1\n" in told
    golds = {one.id: one.answers for one in decabench.tasks.Store(home).examples("sst", "test")}
    right = []
    for seed in (0, 1):
        answers = tmp_path / "out" / "submissions" / f"one-sst-seed-{seed}" / "predictions" / "sst.test.jsonl"
        lines = [json.loads(line) for line in answers.read_text().splitlines()]
        assert {line["id"] for line in lines} == golds.keys()
        right.append(100 * sum(line["answer"] in golds[line["id"]] for line in lines) / len(lines))
    shown = f"{np.mean(right):.2f} ± {np.std(right, ddof=1):.2f} (2)"
    (line,) = [line for line in page.read_text().splitlines() if line.startswith("| single | 80.0 |")]
    assert shown in line and "SST, test" in page.read_text()
    assert "unless a column names another" in page.read_text() and "--split test" in page.read_text()
    (data,) = [line for line in page.read_text().splitlines() if line.startswith("| sst.test |")]
    assert f"| {len(golds)} |" in data

    kept = {path.name: path.read_bytes() for path in records.iterdir()}
    with zipfile.ZipFile(validation) as archive:
        assert sum("results.json" in name for name in archive.namelist()) == 2
    text = page.read_text()
    reproduce.main([*given, "--output", str(tmp_path / "else"), "--page-only"])  # from the records
    assert page.read_text() == text and {path.name: path.read_bytes() for path in records.iterdir()} == kept
    for split in ("validation", "test"):
        scored = decabench.evaluate(validation, home=home, include=[suite], suite="small", split=split)
        assert scored.tasks["sst"].scores["em"] is not None

    given[given.index(str(records))] = str(tmp_path / "old")  # a record from before, without the weights
    page.unlink()
    reproduce.main([*given, "--output", str(tmp_path / "third"), "--seeds", "0"])
    assert not (tmp_path / "third" / "runs").exists()
    (line,) = [line for line in page.read_text().splitlines() if line.startswith("| single | 80.0 |")]
    assert "(1)" in line and shown not in line


TEST_SPLIT = PLAN.replace(
    '"mean" = {', '"SST, test" = { task = "sst", split = "test", digits = 2 }\n"mean" = {'
)


@pytest.fixture
def one_run(home, tmp_path):
    """The arguments to do one run of PLAN, which has been written, with records."""
    (tmp_path / "plan.toml").write_text(PLAN)
    (tmp_path / "small.toml").write_text(SUITE)
    given = [str(tmp_path / "plan.toml"), "--include", str(tmp_path / "small.toml"), "--home", str(home)]
    given += ["--records", str(tmp_path / "records"), "--output", str(tmp_path / "out")]
    return [*given, "--only", "one-sst", "--seeds", "0"]


@pytest.mark.slow
def test_another_split_is_not_answered_with_other_weights(one_run, tmp_path):
    """Such as those that a run was trained to anew, for one that begins with them: its record keeps its answers."""
    from safetensors.torch import load_file, save_file

    from decabench.models.checkpoint import digest_files
    from tests.training.conftest import change_record

    reproduce.main(one_run)
    record = tmp_path / "records" / "one-sst-seed-0.zip"
    kept = record.read_bytes()
    for path in (tmp_path / "out" / "runs").rglob("model*.safetensors"):
        save_file({name: value * 2 for name, value in load_file(path).items()}, path)
        digests = digest_files(path.parent)
        change_record(path.parent, lambda record, digests=digests: record.update(files=digests))
    submission = tmp_path / "out" / "submissions" / "one-sst-seed-0"
    shutil.rmtree(submission)
    (tmp_path / "plan.toml").write_text(TEST_SPLIT)
    for _ in range(2):
        reproduce.main(one_run)
        assert record.read_bytes() == kept and (submission / "predictions" / "sst.validation.jsonl").exists()
        assert not (submission / "predictions" / "sst.test.jsonl").exists()
    shutil.rmtree(submission)
    record.rename(tmp_path / "away.zip")
    reproduce.main(one_run)  # with no record in the way, these weights are answered with
    (tmp_path / "away.zip").replace(record)
    reproduce.main(one_run)
    assert (submission / "predictions" / "sst.test.jsonl").exists() and record.read_bytes() == kept


@pytest.mark.slow
def test_a_record_that_gained_a_split_is_restored_again(one_run, tmp_path):
    """A page was once made without answers that its records had: its output folder was older than they were."""
    reproduce.main(one_run)
    other = [str(tmp_path / "else") if one == str(tmp_path / "out") else one for one in one_run]
    reproduce.main(other)
    (tmp_path / "plan.toml").write_text(TEST_SPLIT)
    reproduce.main(one_run)
    record = (tmp_path / "records" / "one-sst-seed-0.zip").read_bytes()
    reproduce.main(other)
    answers = "submissions/one-sst-seed-0/predictions/sst.test.jsonl"
    assert (tmp_path / "else" / answers).read_bytes() == (tmp_path / "out" / answers).read_bytes()
    assert (tmp_path / "records" / "one-sst-seed-0.zip").read_bytes() == record


@pytest.mark.slow
@pytest.mark.parametrize("scored", [0, 1])
def test_it_goes_on_if_killed_between_answers_and_scores(one_run, tmp_path, monkeypatch, scored):
    if not scored:  # otherwise it is killed between the scores of the two splits
        reproduce.main(one_run)
    (tmp_path / "plan.toml").write_text(TEST_SPLIT)
    done, score = [], reproduce.score

    def dies(*arguments):
        if len(done) == scored:
            raise KeyboardInterrupt
        done.append(score(*arguments))

    monkeypatch.setattr(reproduce, "score", dies)
    with pytest.raises(SystemExit):
        reproduce.main(one_run)
    monkeypatch.setattr(reproduce, "score", score)
    reproduce.main(one_run)
    with zipfile.ZipFile(tmp_path / "records" / "one-sst-seed-0.zip") as archive:
        assert sum("results.json" in name for name in archive.namelist()) == 2


@pytest.mark.slow
def test_results_of_another_split_that_no_manifest_binds(one_run, tmp_path):
    (tmp_path / "plan.toml").write_text(TEST_SPLIT)
    reproduce.main(one_run)
    record = tmp_path / "records" / "one-sst-seed-0.zip"
    content = read_archive(record)
    manifest = json.loads(content["manifest.json"])
    del manifest["results"]["results/test-small"]
    content["manifest.json"] = json.dumps(manifest).encode()
    content["predictions/sst.test.jsonl"] = content["predictions/sst.test.jsonl"].replace(
        b"negative", b"positive"
    )
    write_archive(record, content)
    one_run[one_run.index(str(tmp_path / "out"))] = str(tmp_path / "else")
    with pytest.raises(SystemExit, match="no digests of results/test-small"):
        reproduce.main(one_run)


def test_a_published_mean_is_of_the_plans_split(tmp_path):
    measures = '"MNLI" = { task = "multinli.in.out" }\n"mean" = {'
    plan = TEST_SPLIT.replace('"mean" = {', measures).replace(
        '"SST" = 80', '"SST" = 80\n"MNLI" = 70\n"SST, test" = 10'
    )
    (tmp_path / "plan.toml").write_text(plan)
    (tmp_path / "small.toml").write_text(SUITE)
    include = [tmp_path / "small.toml"]
    assert read_plan(tmp_path / "plan.toml", include).published_figure("single", "mean", False, include) == 75


def test_a_page_of_more_runs_is_not_replaced(home, tmp_path):
    (tmp_path / "plan.toml").write_text(PLAN)
    (tmp_path / "small.toml").write_text(SUITE)
    page = tmp_path / "page.md"
    given = [str(tmp_path / "plan.toml"), "--include", str(tmp_path / "small.toml"), "--home", str(home)]
    given += ["--output", str(tmp_path / "out"), "--page", str(page), "--page-only"]
    reproduce.main(given)
    assert "Runs done: 0 of 3 with seed 0" in page.read_text()
    more = page.read_text().replace("0 of 3 with seed 0", "2 of 3 with seed 0")
    page.write_text(more)
    with pytest.raises(SystemExit, match="shows 2 runs, and here are 0"):
        reproduce.main(given)
    assert page.read_text() == more


def test_an_interruption_ends_with_what_failed_before(home, tmp_path, capsys, monkeypatch):
    (tmp_path / "plan.toml").write_text(PLAN)
    (tmp_path / "small.toml").write_text(SUITE)

    def train(one):
        if one.run.name != "one-sst":
            raise KeyboardInterrupt
        raise decabench.DecabenchError("the disk is full")

    monkeypatch.setattr(reproduce, "train", train)
    given = [str(tmp_path / "plan.toml"), "--include", str(tmp_path / "small.toml"), "--home", str(home)]
    given += ["--output", str(tmp_path / "out"), "--page", str(tmp_path / "page.md")]
    with pytest.raises(SystemExit) as ended:
        reproduce.main(given)
    assert ended.value.code == 130
    told = capsys.readouterr().err.splitlines()
    assert told[-3:] == [  # each was told when it happened, and is told again at the end
        "one-sst, seed 0: the disk is full",
        "one-sst, seed 1: the disk is full",
        "Interrupted: the same command goes on where it was.",
    ]
    assert not (tmp_path / "page.md").exists()


FILES_OF_SUITES = ("suite.toml", "domains.toml", "transfer.py")


@pytest.mark.parametrize(
    "path", sorted(ROOT.glob("examples/training/*/plan.toml")), ids=lambda path: path.parent.name
)
def test_plans_of_the_project(path, tmp_path):
    """Each run's settings can be read together, and each row's network can be built."""
    import torch

    from decabench.models import find_family
    from decabench.training.config import TrainConfig, combine_settings
    from decabench.vectors import WordTable
    from decabench.vectors.tokenizer import Lexicon
    from decabench.vectors.word_vectors import JoinedVectors, NoVectors

    include = sorted(file for name in FILES_OF_SUITES for file in path.parent.glob(name))
    if path.parent.name == "related":  # the plan's tasks are generated
        for name in ("more", "less"):
            make_related_tasks.main(
                [str(tmp_path / name), "--name", name, "--relatedness", name, "--texts", "4"]
            )
        include = [file for file in sorted(tmp_path.glob("*/*.toml")) if file.name != "train.toml"]
    plan, built, known = read_plan(path, include), set(), decabench.tasks.known_tasks(include)
    for run in plan.runs:
        config, settings = (
            path.parent / (run.config or plan.config),
            {**plan.settings, **run.settings, "seed": 1},
        )
        made, _ = combine_settings(TrainConfig(), config, settings, tasks=run.tasks)
        assert made.tasks == run.tasks
        if run.title in built:
            continue
        built.add(run.title)
        outputs = {task: _with_names(known[task].output) for task in run.tasks}
        words = WordTable(Lexicon([" a ", " cat "]), JoinedVectors((NoVectors(300),)))
        with torch.device("meta"):
            network = find_family(made.model.name).build(made.model, outputs, words)
        assert any(parameter.ndim == 2 for parameter in network.parameters())


def _with_names(output):
    """Give tags and trees, whose names come from the data, a few."""
    if getattr(output, "names", None) == ():
        return replace(output, names=("O", "B-NP", "I-NP"))
    return replace(output, relations=("root", "obj")) if getattr(output, "relations", None) == () else output
