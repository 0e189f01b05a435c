import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed: pip install 'decabench[models]'")

from decabench.errors import DecabenchError
from decabench.models import MODELS
from decabench.models.batches import ColumnBatch
from decabench.models.family import find_family
from decabench.models.heads import part_name
from decabench.models.meta_lstm import MODELS as META_MODELS
from decabench.tasks import Label, Tags
from decabench.training.config import from_mapping
from decabench.vectors import JoinedVectors, Lexicon, NoVectors, WordTable

LABELS = {
    "books": Label(names=("bad", "good")),
    "dvd.s": Label(names=("bad", "so", "good")),
    "en": Label(names=("a", "b")),
}
TAGS = {
    "books": Tags(names=("N", "V", "X")),
    "dvd.s": Tags(names=("B", "O")),
    "en": Tags(names=("X", "Y", "Z")),
}
SIZES = {
    "classifier": {"dimension": 6, "dropout": 0.0, "train_embeddings": True},
    "meta_lstm": {"hidden": 3, "meta": 3, "rank": 2, "hyper": 3, "hyper_embedding": 2},
    "shared_memory": {"hidden": 3, "segments": 5, "segment_width": 2, "shared_layer": 3, "own_layer": 2},
    "recurrent_modules": {
        "hidden": 4,
        "layers": 2,
        "gate_size": 3,
        "cells": 2,
        "modules": 3,
        "module_size": 3,
        "policy_size": 5,
        "primary": "books",
    },
}
MEMORIES = ("arc-i", "arc-ii", "me-lstm")
CASES = [
    ("classifier", LABELS, {}),
    *(("classifier", TAGS, {"crf": crf}) for crf in (True, False)),
    *((name, LABELS, {"bidirectional": way}) for name in META_MODELS for way in (False, True)),
    *((name, TAGS, {"bidirectional": True}) for name in META_MODELS),
    *((name, LABELS, {}) for name in MODELS["shared_memory"]),
    *((name, LABELS, own) for name in MEMORIES for own in ({"bidirectional": True}, {"fusion": "shared"})),
    *(("arc-ii", LABELS, {"reads": reads}) for reads in ("global", "late")),
    *(
        (name, outputs, {"extension": extension})
        for name in MODELS["recurrent_modules"]
        for extension in ("none", "rmn", "rrn", "direct", "shared")
        for outputs in (LABELS, TAGS)
    ),
]
ALWAYS = ("ns-mtl", "none", "rmn")
"""All extensions of one encoder, and two extensions of all. test_recurrent_modules.py tests the losses of all pairs."""
IDS = [
    "-".join([name, "labels" if outputs is LABELS else "tags", *map(str, own.values())])
    for name, outputs, own in CASES
]
every_case = pytest.mark.parametrize(
    ("name", "outputs", "settings"),
    [
        pytest.param(
            *case,
            marks=[pytest.mark.heavy]
            * ("extension" in case[2] and not {case[0], *case[2].values()} & {*ALWAYS}),
        )
        for case in CASES
    ],
    ids=IDS,
)


def words():
    return WordTable(Lexicon([f" w{n} " for n in range(9)]), JoinedVectors((NoVectors(4),)))


def make(name, outputs, **settings):
    """Return a small network in double precision, with weights large enough to reveal wrong terms."""
    family = find_family(name)
    sizes = SIZES[family.config.__module__.rpartition(".")[2]]
    torch.manual_seed(0)
    model = family.build(family.config(name=name, **{**sizes, **settings}), outputs, words()).double()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.6)
    return model


def make_items(name, outputs, task="books", lengths=(5, 3, 1), seed=0):
    random = np.random.default_rng(seed)
    output = outputs[task]
    items = []
    for n in lengths:
        text = random.integers(4, 13, n).astype(np.int32)
        labels = random.integers(0, len(output.names), n if isinstance(output, Tags) else 1)
        kind = "tags" if isinstance(output, Tags) else "label"
        items.append({"text": text, kind: labels.astype(np.int32)})
    return items


def collate(name, items, task="books"):
    return ColumnBatch.of(task, items, words(), find_family(name).columns, vectors=False)


def loss_of(name, losses):
    """The sum of the losses, without what is only measured."""
    return sum(value for key, (value, _) in losses.items() if key not in find_family(name).measures)


@every_case
def test_padding_changes_nothing(name, outputs, settings):
    model = make(name, outputs, **settings).eval()
    items = make_items(name, outputs, lengths=(2, 6, 1, 4))
    whole, alone = collate(name, items), [collate(name, [item]) for item in items]
    losses = model.losses(whole)
    for key in losses.keys() - {"orthogonality"}:
        total = sum(model.losses(one)[key][0] for one in alone)
        torch.testing.assert_close(losses[key][0], total, rtol=1e-10, atol=1e-12)
    assert [reply.text for reply in model.answers(whole)] == [model.answers(one)[0].text for one in alone]


@every_case
def test_every_parameter_is_used(name, outputs, settings):
    model, used = make(name, outputs, **settings), set()
    for task in outputs:
        model.zero_grad()
        torch.manual_seed(0)
        loss_of(name, model.losses(collate(name, make_items(name, outputs, task), task))).backward()
        own = {key for key, p in model.named_parameters() if p.grad is not None and (p.grad != 0).any()}
        scores = {key.split(".")[1] for key in own if key.startswith("heads.") and ".score." in key}
        assert scores - {part_name(task)} == set() or "direct" in settings.values()
        used |= own
    assert used == dict(model.named_parameters()).keys()


@every_case
def test_tasks_together_are_what_each_is_by_itself(name, outputs, settings):
    parts = {"books": (5, 3, 1), "dvd.s": (2, 7)}
    batches = [
        collate(name, make_items(name, outputs, task, lengths), task) for task, lengths in parts.items()
    ]
    found = []
    for together in (True, False):
        model = make(name, outputs, **settings).eval()
        losses = model(*batches) if together else [model.losses(batch) for batch in batches]
        sum(loss_of(name, own) for own in losses).backward()
        found.append([loss_of(name, own) for own in losses] + [p.grad for p in model.parameters()])
    for one, two in zip(*found, strict=True):
        assert (one is None) == (two is None)
        if one is not None:
            torch.testing.assert_close(one, two, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize(
    ("name", "settings", "message"),
    [
        ("ssp-mtl", {"hidden": 0}, "'model.hidden' is 0, but must be at least 1"),
        ("sluice", {"dropout": 1.0}, "'model.dropout' is 1.0, but must be less than 1"),
        ("girnet", {"l2": -1.0}, "'model.l2' is -1.0, but must be at least 0"),
        ("arc-ii", {"reads": "local"}, "Known: both, global, late"),
        ("arc-i", {"initial": float("nan")}, "'model.initial' is nan, but must be at least 0"),
        ("sluice", {"hidden": 5}, "must be even for sluice"),
        ("ns-mtl", {"decoder_open": 1.5}, "'model.decoder_open' is 1.5, but must be at most 1"),
        ("ns-mtl", {"temperature": 0.0}, "'model.temperature' is 0.0, but must be greater than 0"),
        ("ns-mtl", {"extension": "rmm"}, "Did you mean rmn"),
        ("lstm", {"name": "lstmm"}, "Did you mean lstm"),
        ("nbow", {"bag": "sum"}, "model.bag"),  # of an earlier version, and not what it does now
    ],
)
def test_settings_that_cannot_be(name, settings, message):
    with pytest.raises(DecabenchError, match=message):
        from_mapping({"model": {"name": name, **settings}})
