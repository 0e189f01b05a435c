"""MQAN with the differences of its authors' code (benchmarks/departures.py), and the design of the runs with them."""

import itertools
import random

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from benchmarks.departures import DepartingMQAN, DeparturesConfig, interleaved_order
from benchmarks.departures_effects import FACTORS, T_95, design, effects, summary, table
from decabench.models.mqan import DecoderPast
from decabench.training.optimizers import apply_freezes
from decabench.vectors.tokenizer import INIT
from decabench.vectors.word_vectors import WordTable
from tests.sources import ROOT

NEW = [
    "drop_coattention_input",
    "drop_words",
    "free_pointers",
    "more_dropout",
    "switches_read_input",
    "usual_init",
]
OLD = ["layer_by_layer", "norm_sublayers", "split_heads", "tanh_coattention"]


def build(made, *departures):
    """Build the network beside the kit's MQAN, of its size and words."""
    config = made.model.config
    sizes = {key: getattr(config, key) for key in ("dimension", "hidden", "heads", "layers", "dropout")}
    words = WordTable(made.model.lexicon, made.table.vectors)
    torch.manual_seed(0)
    return DepartingMQAN(DeparturesConfig(**sizes, **dict.fromkeys(departures, True)), words)


def test_without_departures_it_is_mqan(kit):
    made = kit("mqan")
    network = build(made)
    network.load_state_dict(made.model.state_dict())
    batch = made.batch()
    for training in (False, True):
        found = []
        for model in (network, made.model):
            model.train(training)
            torch.manual_seed(1)
            found.append(model.log_likelihood(batch))
        torch.testing.assert_close(*found)


@pytest.mark.parametrize("departures", [*([name] for name in NEW), NEW + OLD])
def test_a_departure_decodes_as_it_was_trained(kit, departures, monkeypatch):
    made = kit("mqan")
    model, batch = build(made, *departures).eval(), made.batch()
    monkeypatch.setattr(model, "words", lambda rows, batch: batch.vectors[rows])
    past = DecoderPast(model, batch, batch.answer.shape[1])
    with torch.no_grad():
        log_p = model.log_likelihood(batch)
        for step, (said, target) in enumerate(zip(batch.answer.T, batch.target.T, strict=True)):
            p = past.step(said)
            counts = target > INIT
            found = p.gather(1, target[:, None])[counts, 0].log()
            torch.testing.assert_close(found, log_p[counts, step], atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("departure", NEW)
def test_a_departure_makes_a_difference_in_training(kit, departure):
    made = kit("mqan", dropout=0.2)
    losses = []
    for chosen in ((), (departure,)):
        model = build(made, *chosen).train()
        torch.manual_seed(1)
        losses.append(model.log_likelihood(made.batch()))
    assert not torch.allclose(*losses)


def test_training_leaves_free_pointers_without_weights(kit):
    network = build(kit("mqan"), "free_pointers")
    apply_freezes(network, ())
    assert not [name for name, _ in network.named_parameters() if "_query" in name]


def test_bits_of_context_and_answer_are_interleaved():
    draws = np.random.default_rng(0)
    context, answer = draws.integers(0, 2**16, 200), draws.integers(0, 60, 200)
    (keys,) = interleaved_order({"context": context + 2, "answer": answer + 2, "question": answer})
    for a, b, key in zip(context, answer, keys, strict=True):
        assert f"{key:032b}" == "".join(x + y for x, y in zip(f"{a:016b}", f"{b:016b}", strict=True))


def test_each_pair_of_factors_is_together_in_a_quarter_of_the_runs():
    rows = design()
    for half in "pf":
        runs = [row for name, row in rows.items() if name[0] == half]
        assert len(runs) == 12
        for a, b in itertools.combinations(range(len(FACTORS)), 2):
            pairs = [(run[a], run[b]) for run in runs]
            assert {pair: pairs.count(pair) for pair in pairs} == {
                (0, 0): 3,
                (0, 1): 3,
                (1, 0): 3,
                (1, 1): 3,
            }


def measure(draws, **worth):
    """Make up the scores of all 24 runs, given what factors are worth."""
    runs = []
    for name, row in design().items():
        score = 80 + sum(size * row[int(factor[1:])] for factor, size in worth.items()) + draws.gauss(0, 0.5)
        runs.append({"run": name, "score": str(score)})
    return effects(runs, "score")


def test_effects_are_found_again():
    found, error = measure(random.Random(0), f3=2, f7=-1)
    assert found[3] == pytest.approx(2, abs=3 * error)
    assert found[7] == pytest.approx(-1, abs=3 * error)
    assert min(abs(found[3]), abs(found[7])) > T_95 * error


def test_effects_and_their_error_are_those_of_least_squares():
    """Checked with numpy, in a way of its own."""
    draws = np.random.default_rng(3)
    scores = dict(zip(design(), draws.normal(80, 1, 24), strict=True))
    found, error = effects([{"run": name, "score": str(score)} for name, score in scores.items()], "score")
    matrix = np.array([[1, name[0] == "f", *row] for name, row in design().items()], dtype=float)
    coefficients, squares, _, _ = np.linalg.lstsq(matrix, np.array(list(scores.values())))
    covariance = squares[0] / 11 * np.linalg.inv(matrix.T @ matrix)
    assert found == pytest.approx(coefficients[2:])
    assert np.sqrt(covariance.diagonal()[2:]) == pytest.approx([error] * 11)


def test_the_margin_is_one_of_95_percent():
    """Of 4,400 simulated effects of noise 5 % are beyond it, with a standard error of about 0.4 %."""
    draws, beyond = random.Random(1), 0
    for _ in range(400):
        found, error = measure(draws)
        beyond += sum(abs(effect) > T_95 * error for effect in found)
    assert beyond / (400 * len(FACTORS)) == pytest.approx(0.05, abs=0.013)


def test_runs_that_are_missing_are_named(tmp_path):
    """Effects of a half that has only begun would be mixed with each other."""
    lines = ["task,run,loss 300,validation,test"]
    lines += [f"{task},{run},1,80,80" for task in ("sst", "woz.en") for run in design() if run != "f03"]
    (tmp_path / "runs.csv").write_text("\n".join(lines), encoding="utf-8")
    with pytest.raises(SystemExit, match="lacks runs of sst: f03"):
        table(tmp_path / "runs.csv")


def test_the_table_is_that_of_the_records():
    page = (ROOT / "docs" / "mqan-experiments.md").read_text(encoding="utf-8")
    records = ROOT / "reproductions" / "departures" / "runs.csv"
    assert table(records) in page
    assert summary(records) in " ".join(page.split())
