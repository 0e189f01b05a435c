"""Recurrent modules and the encoders that they extend, against a transcription of the papers' equations."""

import math

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed: pip install 'decabench[models]'")

from decabench.errors import DecabenchError
from decabench.models import MODELS, recurrent_modules
from decabench.models.recurrent_modules import FAMILY, RecurrentModules, RecurrentModulesConfig, Router
from decabench.tasks import Label, Tags
from tests.models.differences import check_gradients
from tests.models.equations import modular as equations
from tests.models.test_label_families import collate, make_items, words

LABELS = {
    "hien.pos": Label(names=("bad", "good")),
    "hi": Label(names=("bad", "so", "good")),
    "en": Label(names=("a", "b")),
}
TAGGING = {
    "hien.pos": Tags(names=("N", "V", "X")),
    "hi": Tags(names=("B", "O")),
    "en": Tags(names=("X", "Y", "Z")),
}
H = 4
ENCODERS, EXTENSIONS = MODELS["recurrent_modules"], ("none", "rmn", "rrn", "direct", "shared")
EACH = [(name, extension) for name in ENCODERS for extension in EXTENSIONS]
SIZES = {
    "hidden": H,
    "layers": 2,
    "gate_size": 3,
    "cells": 2,
    "modules": 3,
    "module_size": 3,
    "policy_size": 5,
    "primary": "hien.pos",
}


def make(name, extension="none", outputs=TAGGING, **settings):
    """A small network in double precision, with weights of a size that shows a wrong term."""
    torch.manual_seed(0)
    config = RecurrentModulesConfig(name=name, extension=extension, **{**SIZES, **settings})
    model = RecurrentModules(config, outputs, words()).double()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.6)
    return model


def make_batch(outputs=TAGGING, task="hien.pos", lengths=(5, 3, 1)):
    items = make_items("ns-mtl", outputs, task, lengths)
    return items, collate("ns-mtl", items, task)


def transcribe(model, item, task):
    weights = dict(model.named_parameters())
    x = weights["embed.table.weight"][torch.from_numpy(item["text"]).long()]
    return equations.run(x, weights, task, model.tasks, model.config)


@pytest.mark.parametrize("name, extension", EACH)
@pytest.mark.parametrize("outputs", [LABELS, TAGGING], ids=["labels", "tags"])
@pytest.mark.parametrize("task", TAGGING)
def test_the_losses_are_what_the_equations_say(name, extension, outputs, task):
    model = make(
        name, extension, outputs, mean_penalty=False, encoder_sparsity=0.7, decoder_sparsity=0.4
    ).eval()
    weights, config, total = dict(model.named_parameters()), model.config, 0.0
    items, batch = make_batch(outputs, task)
    texts = [transcribe(model, item, task) for item in items]
    opened = {"encoder": [], "decoder": []}
    for item, text in zip(items, texts, strict=True):
        if outputs is TAGGING:
            total = total + sum(
                equations.loss(state, weights, task, int(tag))
                for state, tag in zip(text.states, item["tags"], strict=True)
            )
            for side, kept in opened.items():
                kept += getattr(text, side)
        else:
            total = total + equations.loss(text.states[-1], weights, task, int(item["label"][0]))
            for side, kept in opened.items():
                kept += getattr(text, side)[-1:]
    found = model.losses(batch)
    key = "tags" if outputs is TAGGING else "label"
    torch.testing.assert_close(found[key][0], total, rtol=1e-9, atol=1e-11)
    read = 9 if outputs is TAGGING else 3
    assert found[key][1] == read
    if not config.is_modular:
        assert found.keys() == {key}
        return
    for side, factor in (("encoder", 0.7), ("decoder", 0.4)):
        value, count = found[f"{side}_sparsity"]
        assert value.item() == pytest.approx(factor * equations.sparsity(opened[side], 0.75))
        assert count == read
        for measure in (f"{side}_open", f"{side}_likely"):
            value, count = found[measure]
            assert value.item() / count == pytest.approx(np.mean(opened[side]))
    total = np.concatenate([np.ravel(kept) for kept in opened.values()])
    assert 0 < total.mean() < 1  # the case has connections of both kinds


# The router


def test_a_decision_is_hard_with_the_gradient_of_the_softmax():
    """Eq. 8 on the way forward, Eq. 9 on the way back."""
    scores = torch.randn(50, 2, dtype=torch.double, requires_grad=True)
    router, given = Router(0.7, 0.1), torch.randn(50, dtype=torch.double)
    torch.manual_seed(3)
    chosen = router(scores).chosen
    torch.manual_seed(3)
    uniform = (-torch.empty_like(scores).exponential_()).exp()
    noise = -(-uniform.log()).log()  # g = -log(-log(x))
    assert torch.equal(chosen, (scores + noise).argmax(1).double())
    (own,) = torch.autograd.grad((chosen * given).sum(), scores)
    mu = ((scores + noise) / router.temperature).softmax(1)[:, 1]
    (expected,) = torch.autograd.grad((mu * given).sum(), scores)
    torch.testing.assert_close(own, expected)


@pytest.mark.parametrize("temperature", [0.5, 100.0])
def test_decisions_follow_the_probabilities_at_any_temperature(temperature):
    """exp(a1) / (exp(a0) + exp(a1)), which the temperature does not change: 4 standard errors of 100,000 draws."""
    router = Router(temperature, 0.1)
    torch.manual_seed(0)
    for scores in ((0.0, 1.0), (0.3, -1.2), (0.0, 0.0)):
        p = math.exp(scores[1]) / sum(map(math.exp, scores))
        share = router(torch.tensor(scores).expand(100_000, 2)).chosen.mean().item()
        assert abs(share - p) < 4 * math.sqrt(p * (1 - p) / 100_000)


def test_answers_have_no_noise():
    router = Router(1.0, 0.1).eval()
    scores = torch.tensor([[0.0, 0.1], [0.1, 0.0], [0.0, 0.0]])
    assert router(scores).chosen.tolist() == [1, 0, 0]


def test_the_temperature_is_halved_at_each_epoch():
    model = make("ns-mtl", "rmn", least_temperature=5.0)
    router, found = model.shared.router, []
    for epoch in range(1, 8):
        model.begin_epoch(epoch)
        model.begin_pass("hien.pos", epoch + 7)  # an epoch counts, not the passes within it
        found.append(router.temperature.item())
    assert found == [100, 50, 25, 12.5, 6.25, 5, 5]
    by_steps = make("ns-mtl", "rmn")
    for task, number in (("hien.pos", 1), ("en", 1), ("en", 2), ("en", 3), ("hien.pos", 2)):
        by_steps.begin_pass(task, number)
        assert by_steps.shared.router.temperature == (100 if task != "hien.pos" or number == 1 else 50)
    assert "shared.router.temperature" in by_steps.state_dict()  # so that a resumed run has it


# Gradients and use


def loss_of(model, batch):
    values = model.losses(batch)
    return sum(value for key, (value, _) in values.items() if key not in FAMILY.measures)


@pytest.mark.parametrize(
    "name, extension, outputs",
    [
        *(("ns-mtl", extension, TAGGING) for extension in EXTENSIONS),
        *((name, "none", LABELS) for name in ENCODERS),
        ("girnet", "rmn", TAGGING),
        ("girnet", "rmn", LABELS),
    ],
)
def test_gradients_against_finite_differences(name, extension, outputs, monkeypatch):
    monkeypatch.setattr(recurrent_modules, "straight_through", lambda soft: soft)
    model = make(name, extension, outputs, encoder_open=0.3, decoder_open=0.3, temperature=1.5)
    _, batch = make_batch(outputs, "hien.pos", lengths=(4, 2))

    def loss():
        torch.manual_seed(1)
        return loss_of(model, batch)

    check_gradients(model, loss)


# Controls


@pytest.mark.parametrize(
    "settings, outputs, message",
    [
        ({"name": "girnet"}, TAGGING, "model.primary is ''"),
        (
            {"name": "girnet", "primary": "hi"},
            {"hi": TAGGING["hi"]},
            "the tasks are hi",
        ),
        ({"primary": "fr"}, TAGGING, "model.primary is 'fr'"),
        ({"extension": "direct"}, {"hi": TAGGING["hi"]}, "hi is the only task"),
    ],
)
def test_tasks_that_do_not_fit(settings, outputs, message):
    with pytest.raises(DecabenchError, match=message):
        RecurrentModules(RecurrentModulesConfig(**settings), outputs, words())
