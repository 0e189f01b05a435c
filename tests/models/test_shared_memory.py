"""The shared-memory models and their competitors against a transcription of the paper, and what must not matter."""

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed: pip install 'decabench[models]'")

from decabench.models import MODELS
from decabench.models.shared_memory import SharedMemoryConfig, build
from decabench.tasks import Label
from tests.models.equations import memory as equations
from tests.models.test_label_families import collate, make_items, words

TASKS_OF_TEST = {"books": Label(names=("bad", "good")), "dvd.s": Label(names=("bad", "so", "good"))}
D = 3
ALL = sorted(MODELS["shared_memory"])
RECURRENT = ["arc-i", "arc-ii", "me-lstm"]
VARIANTS = [
    *((name, {}) for name in ALL),
    *((name, {"bidirectional": True}) for name in RECURRENT),
    *((name, {"fusion": "shared"}) for name in RECURRENT),
    *((name, {"align": "additive"}) for name in RECURRENT),
    ("arc-ii", {"align": "additive", "reads": "late"}),
    *(("arc-ii", {"reads": reads}) for reads in ("global", "late")),
]
every_variant = pytest.mark.parametrize(
    ("name", "settings"), VARIANTS, ids=["-".join([name, *map(str, own.values())]) for name, own in VARIANTS]
)


def make(name, **settings):
    """A small network in double precision, with weights of a size that shows a wrong term."""
    sizes = {"hidden": D, "segments": 5, "segment_width": 2, "shared_layer": 3, "own_layer": 2}
    torch.manual_seed(0)
    model = build(SharedMemoryConfig(name=name, **{**sizes, **settings}), TASKS_OF_TEST, words()).double()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.6)
    return model


def make_batch(task="books", lengths=(5, 3, 1)):
    items = make_items("nbow", TASKS_OF_TEST, task, lengths)
    return items, collate("nbow", items, task)


def path(task):
    return task.replace(".", "/")


def represent(model, item, task):
    """The vector of one text, by the transcription."""
    w, config = dict(model.named_parameters()), model.config
    rows = torch.from_numpy(item["text"]).long()
    x = w["embed.table.weight"][rows]
    match config.name:
        case "nbow" | "mt-dnn":
            return equations.bag(x, w, path(task), config.name)
        case "mt-cnn":
            halves = torch.cat([x, w[f"heads.{path(task)}.embed.table.weight"][rows]], 1)
            return equations.convolution(halves, w, path(task))
    ways = [x, x.flip(0)][: config.directions]
    ends = [
        equations.run(own, w, path(task), config.name, way, config.reads)[0][-1]
        for way, own in enumerate(ways)
    ]
    return torch.cat(ends)


def expected_loss(model, items, task):
    w = dict(model.named_parameters())
    losses = [
        equations.label_loss(represent(model, item, task), w, path(task), int(item["label"][0]))
        for item in items
    ]
    return sum(losses)


@every_variant
@pytest.mark.parametrize("task", TASKS_OF_TEST)
def test_the_loss_is_what_the_equations_say(name, settings, task):
    model = make(name, **settings)
    items, batch = make_batch(task, (6, 3, 1))
    value, count = model.losses(batch)["label"]
    torch.testing.assert_close(value, expected_loss(model, items, task), rtol=1e-9, atol=1e-10)
    assert count == 3


@every_variant
def test_gradients_against_those_of_the_equations(name, settings):
    model = make(name, **settings)
    items, batch = make_batch()
    parameters = dict(model.named_parameters())
    found = torch.autograd.grad(model.losses(batch)["label"][0], parameters.values(), allow_unused=True)
    expected = torch.autograd.grad(
        expected_loss(model, items, "books"), parameters.values(), allow_unused=True
    )
    for key, one, two in zip(parameters, found, expected, strict=True):
        if key.endswith("table.weight"):
            one = one if one is None else one[4:]  # no text has a special word
            two = two if two is None else two[4:]
        if two is not None:
            torch.testing.assert_close(
                one, two, rtol=1e-7, atol=1e-9, msg=lambda text, key=key: f"{key}: {text}"
            )
        else:
            assert one is None or not one.any(), key


@pytest.mark.parametrize("name", RECURRENT)
@pytest.mark.parametrize("bidirectional", [False, True])
def test_states_and_fusion_gates_of_every_word(name, bidirectional):
    model = make(name, bidirectional=bidirectional)
    items, batch = make_batch("dvd.s", (6, 4))
    w = dict(model.named_parameters())
    ((states, gates),) = model.read([batch])
    for row, item in enumerate(items):
        x, n = w["embed.table.weight"][torch.from_numpy(item["text"]).long()], len(item["text"])
        expected = [equations.run(x, w, "dvd/s", name)]
        if bidirectional:
            expected.append([part.flip(0) for part in equations.run(x.flip(0), w, "dvd/s", name, 1)])
        for found, own in zip((states, gates), zip(*expected, strict=True), strict=True):
            torch.testing.assert_close(found[row, :n], torch.cat(own, 1), rtol=1e-9, atol=1e-10)
    assert not gates.requires_grad
