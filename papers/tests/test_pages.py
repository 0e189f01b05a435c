from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import msgspec
import numpy as np
import pytest

from papers.claims import (
    FINDINGS,
    Claim,
    FindingsFile,
    make_claims,
    plot_claims,
    read_findings,
    write_findings,
)
from papers.contrasts import contrast_table, find_contrasts, judge
from papers.curves import LINES, make_panels, plot_panels
from papers.effort import count_parameters, count_weights
from papers.page import fill_summary, plot_curves
from papers.plan import Contrast, Measure, Place, Plan, Run, SeededRun, Table, read_plan
from papers.scores import SeedTest, compare_rows
from papers.tests.test_scores import MEAN, PLACE, PRODUCTS, make_rows

PLANS = Path(__file__).parents[1] / "plans"

FDU = read_plan(PLANS / "fdu" / "plan.toml")


@pytest.mark.parametrize("name", [count.name for count in FDU.counts])
def test_the_parameters_of_the_papers_example(name):
    """By the paper's formulas with d = h = 100 and m = z = 20, as printed and with Q in the right shape."""
    pytest.importorskip("torch")
    d = h = 100
    m = z = 20
    expected = {
        "LSTM": (4 * h * (h + d) + 4 * h, 4 * h * (h + d) + 4 * h),
        "basic LSTM": (8 * h * z + 4 * d * z, 12 * h * z + 4 * d * z),
        "meta-network": (4 * m * (d + h + m + 1) + m * z,) * 2,
    }
    expected["Meta-LSTM, which is both"] = tuple(
        map(sum, zip(expected["basic LSTM"], expected["meta-network"], strict=True))
    )
    (count,) = [count for count in FDU.counts if count.name == name]
    assert (count.printed, count_parameters(count)) == expected[name]
    assert expected["Meta-LSTM, which is both"] == (42_080, 50_080) and expected["LSTM"] == (80_400, 80_400)


@pytest.mark.parametrize(
    "claim, ends, expected",
    [
        (1.2, (0.1, 2.0), "confirmed"),
        (3.2, (0.1, 2.0), "confirmed, smaller"),
        (0.05, (0.1, 2.0), "confirmed, larger"),
        (1.2, (-0.1, 2.0), "open"),
        (3.2, (-0.1, 2.0), "open, smaller"),
        (-3.2, (-0.1, 2.0), "open, smaller"),
        (-0.05, (-0.1, 2.0), "open"),
        (3.2, (-2.0, -0.1), "contradicted"),
        (-0.01, (-0.2, -0.1), "confirmed, larger"),  # an error, where lower is better
        (-0.01, (0.1, 0.2), "contradicted"),
        (3.2, None, "too few seeds"),
        (None, (0.1, 2.0), ""),
        (0.0, (0.1, 2.0), ""),  # figures that are equal, or differ only in the last bit, make no claim
        (1e-14, (0.1, 2.0), ""),
    ],
)
def test_what_becomes_of_a_claim(monkeypatch, claim, ends, expected):
    found = None if ends is None else SeedTest(*ends, 0.05)
    scored, _ = make_rows(np.random.default_rng(3), {"b": 0.8, "a": 0.7}, (0,), n=20)
    made = compare_rows(Contrast("b", ("a",), ("mean",)), MEAN, scored, PLACE)
    monkeypatch.setattr(type(made), "over_seeds", found)
    two = replace(made, seeds={"a": 2, "b": 3})
    assert judge(claim, two, 0.04) == expected
    finding = expected.startswith(("confirmed", "contradicted"))
    assert judge(claim, made, 0.04) == expected + ", one seed each" * finding
    assert judge(claim, replace(made, seeds={"a": 1, "b": 3}), 0.04) == expected + ", one seed" * finding
    assert judge(claim, two, 0.05) == expected + ", not after Holm" * finding
    assert judge(claim, two, None) == expected  # a part of the texts, which is not corrected


def make_done(tmp_path, runs, scores):
    """Write training logs for runs that were not trained."""
    place = Place(tmp_path / "plan.toml", tmp_path, None, (), "cpu")
    plan = Plan(
        "T", "P", "products", {"mean": Measure(suite="products")}, tuple(runs), seeds=(0, 1),
        tables=(Table("All", ("mean",)),),
    )  # fmt: skip
    for run in runs:
        for seed in (0, 1):
            one = SeededRun(plan, run, seed, place)
            folder, results = one.folder, one.results()
            folder.mkdir(parents=True)
            results.parent.mkdir(parents=True)
            results.write_text('{"submission": {"predictor": {"backend": {"step": 90}}}}')
            (folder / "config.toml").write_text("epochs = 2\nvalidate_every = 0\n")
            lines = ["step,task,score"]
            for epoch in (1, 2):
                step = epoch * (80 + 10 * len(run.name))
                lines += [f"{step},{task},{scores(run, task, seed, epoch)}" for task in run.tasks]
                lines += [f"{step},total,0"]
            (folder / "validation.csv").write_text("\n".join(lines) + "\n")
    return plan, place


def test_curves_are_means_over_a_suites_tasks_and_have_at_most_eight_lines(tmp_path):
    runs = [Run(f"one-{task}", (task,), row="single") for task in PRODUCTS]
    runs += [Run(f"row-{number}", PRODUCTS) for number in range(9)]

    def scores(run, task, seed, epoch):
        return 50 + 10 * PRODUCTS.index(task) + seed + 5 * epoch + len(run.row)

    plan, place = make_done(tmp_path, runs, scores)
    panels = list(make_panels(plan, place, plan.tables[0]))
    assert [len(panel.curves) for panel in panels] == [LINES, 2]
    assert {panel.unit for panel in panels} == {"epoch"}
    single = 50 + 15 + 5 + 6  # the mean of the four tasks after the first epoch, with seed 0
    assert panels[0].curves["single"] == [[(1, single), (2, single + 5)], [(1, single + 1), (2, single + 6)]]
    learned = msgspec.structs.replace(plan, settings={"learn_validation": True})  # its scores don't count
    assert not [panel for panel in make_panels(learned, place, plan.tables[0]) if panel.curves]
    SeededRun(plan, runs[0], 1, place).results().unlink()  # without one of its tasks, a row has no mean
    panels = list(make_panels(plan, place, plan.tables[0]))
    assert len(panels[0].curves["single"]) == 1
    pytest.importorskip("matplotlib")
    plot_panels(panels, tmp_path / "deep" / "plot.png")
    assert (tmp_path / "deep" / "plot.png").read_bytes().startswith(b"\x89PNG")
    for name in ("jmt-7.png", "jmt-2-1.png"):
        (tmp_path / name).touch()
    list(plot_curves(plan, place, plan.tables, tmp_path / "jmt.md"))
    assert (tmp_path / "jmt-2-1.png").exists(), "a picture of the page jmt-2.md"
    assert (tmp_path / "jmt-1.png").exists() and not (tmp_path / "jmt-7.png").exists()


def test_weights_of_the_last_checkpoint(tmp_path):
    torch = pytest.importorskip("torch")
    from safetensors.torch import save_file

    for step, size in ((10, 3), (20, 5)):
        folder = tmp_path / "checkpoints" / f"step-{step:08}"
        folder.mkdir(parents=True)
        tensors = {
            "embed.words": torch.zeros(99),
            "heads.books.embed.table": torch.zeros(99),  # MT-CNN has word vectors for each task
            "heads.embedded": torch.zeros(4),
            "layer.weight": torch.zeros(size, 7),
            "bias": torch.zeros(2),
        }
        save_file({**tensors, "reference/embed/words": torch.zeros(99)}, folder / "model.safetensors")
        save_file({"layer.weight": torch.zeros(1000)}, folder / "optimizer.safetensors")
    assert count_weights(tmp_path) == 5 * 7 + 2 + 4
    assert count_weights(tmp_path / "checkpoints") is None


def make_claim(**given):
    return Claim(**{"row": "b", "baseline": ("a",), "measure": "mean", "digits": 1, "paper": 1.5} | given)


def test_findings_are_what_the_table_of_contrasts_says(tmp_path):
    scored, right = make_rows(np.random.default_rng(7), {"b": 0.8, "a": 0.7, "c": 0.75}, (0, 1, 2))
    runs = tuple(Run(row, PRODUCTS) for row in "abcd")
    measures = ("mean",)
    plan = Plan(
        "Title",
        "Authors",
        "products",
        {"mean": MEAN},
        runs,
        published={"b": {"mean": 82.0}, "a": {"mean": 83.5}, "d": {"mean": 84.0}},
        contrasts=(
            Contrast("b", ("a",), measures),
            Contrast("b", ("c",), measures),
            Contrast("d", ("a",), measures),
            Contrast("b", ("a", "c"), measures, claimed=3.2),
        ),
    )
    findings = find_contrasts(plan, scored, PLACE)
    place = replace(PLACE, output=tmp_path)
    write_findings(plan, findings, place)
    (read,) = read_findings(tmp_path / FINDINGS).values()
    assert (read.title, read.paper) == ("Title", "Authors")
    first, control, later, text = read.contrasts
    assert [one.paper for one in read.contrasts] == [-1.5, None, 0.5, 3.2]
    means = {
        row: np.mean([100 * right[row, t, s].mean() for t in PRODUCTS for s in (0, 1, 2)]) for row in "abc"
    }
    assert first.difference == pytest.approx(means["b"] - means["a"], abs=1e-4)
    assert first.over_seeds[0] < first.over_texts[0] < first.difference < first.over_texts[1]
    assert (
        first.verdict == "contradicted" and first.seeds == {"b": 3, "a": 3} and first.p <= first.p_holm < 0.05
    )
    assert control.verdict == "" and control.difference == pytest.approx(means["b"] - means["c"], abs=1e-4)
    assert (later.difference, later.over_seeds, later.verdict, later.seeds) == (None, None, "", {})
    assert text.difference == pytest.approx(means["b"] - (means["a"] + means["c"]) / 2, abs=1e-4)
    assert read.claims == [first, later, text]
    table = contrast_table(plan, findings, scored, PLACE).splitlines()
    assert f"| {first.difference:+.2f} |" in table[2] and f"| {first.verdict} |" in table[2]


def test_a_summary_has_the_figures_of_the_runs():
    scored, right = make_rows(np.random.default_rng(7), {"b": 0.8, "a": 0.7}, (0, 1, 2))
    plan = Plan(
        "Title",
        "Authors",
        "products",
        {"mean": MEAN},
        tuple(Run(row, PRODUCTS) for row in "abc"),
        published={"b": {"mean": 82.04}, "a": {"mean": 83.5}},
        contrasts=(
            Contrast("b", ("a",), ("mean",)),
            Contrast("c", ("a",), ("mean",)),
            Contrast("c", ("b",), ("mean",)),
        ),
        summary=("One of {{b: mean}}, {{c: mean}}: {{b over a: mean}}.", "None: {{c over a: mean}}."),
    )
    findings = find_contrasts(plan, scored, PLACE)
    first = findings.found[0]
    means = {
        row: np.mean([100 * right[row, t, s].mean() for t in PRODUCTS for s in (0, 1, 2)]) for row in "ab"
    }
    both = first.tested.over_seeds
    said = fill_summary(plan, scored, findings, PLACE)
    assert first.adjusted < 0.05
    assert " ".join(said[0].split()) == (
        f"One of {means['b']:.1f} (paper 82.0), –: {means['b'] - means['a']:+.1f} "
        f"[{both.low:.1f}, {both.high:.1f}] (paper -1.5)."
    )
    assert said[1] == "None: – (no runs yet)."

    def say(adjusted, seeds, ends=(0.2, 0.9)):
        over = ends and SimpleNamespace(low=ends[0], high=ends[1])
        tested = SimpleNamespace(difference=0.5, seeds=seeds, over_seeds=over, over_texts=(0.3, 0.7))
        made = replace(findings, found=[replace(first, tested=tested, adjusted=adjusted, gap=None)])
        return fill_summary(
            msgspec.structs.replace(plan, summary=("{{b over a: mean}}",)), scored, made, PLACE
        )[0]

    few, two = {"a": 1, "b": 3}, {"a": 2, "b": 3}
    assert say(0.01, two) == "+0.5 [0.2, 0.9]"
    assert say(0.01, few) == "+0.5 [0.2, 0.9]†"
    assert say(0.07, two) == "+0.5 [0.2, 0.9]‡"
    assert say(0.07, few) == "+0.5 [0.2, 0.9]†‡"
    assert say(0.01, few, (-0.1, 0.9)) == "+0.5 [-0.1, 0.9]"
    assert say(None, few, None) == "+0.5 [0.3, 0.7; texts alone]"


def test_the_page_of_claims(tmp_path):
    pytest.importorskip("matplotlib")
    done = make_claim(
        difference=0.72,
        over_texts=(0.2, 1.2),
        over_seeds=(0.1, 1.3),
        seeds={"a": 2, "b": 3},
        verdict="confirmed",
    )
    texts = make_claim(
        difference=-0.3, over_texts=(-0.9, 0.3), seeds={"a": 1}, remark="recalled", verdict="too few seeds"
    )
    error = make_claim(
        falls=True,
        measure="error",
        digits=3,
        paper=-0.01,
        difference=0.1,
        over_texts=(0.0, 0.2),
        verdict="too few seeds",
    )
    control = make_claim(paper=None, difference=9.0)
    file = FindingsFile(
        schema="decabench.findings/1",
        title="T",
        paper="P",
        contrasts=(
            done,
            msgspec.structs.replace(done, seeds={"a": 1, "b": 3}, verdict="confirmed, one seed"),
            texts,
            make_claim(baseline=("c",), measure="DVDs"),
            error,
            control,
            make_claim(baseline=("c",), measure="books"),
        ),
    )
    empty = FindingsFile(schema="decabench.findings/1", title="Controls", paper="Q", contrasts=(control,))
    page = make_claims({"t": file, "controls": empty})
    lines = [
        "| [T](t.md) | 6 | 1 (+1) | 0 | 0 | 0 | 2 | 0 | 2 |",
        "| b over a | mean | +1.5 | +0.72 | +0.10 to +1.30 | 3 over 2 | confirmed |",
        "| b over a | mean | +1.5 (recalled) | -0.30 | texts alone: -0.90 to +0.30 | 1 | too few seeds |",
        "Not yet run: b over c (DVDs, books).",
        "| b over a | error | -0.010 | +0.100 | texts alone: +0.000 to +0.200 | – | too few seeds |",
    ]
    assert all(line in page.splitlines() for line in lines)
    assert "Lower is better for error," in page
    assert "because there are none: [Controls](controls.md)." in page and "+9.0" not in page
    plot_claims(file.done, tmp_path / "claims-t.png")
    assert (tmp_path / "claims-t.png").read_bytes()[:4] == b"\x89PNG"
