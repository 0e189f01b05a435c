"""The shared-memory models and their competitors against a transcription of the paper, and what must not matter."""

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed: pip install 'decabench[models]'")

from decabench.errors import DecabenchError
from decabench.models.family import ColumnBatch, find_family
from decabench.models.memory_cells import MEMORY_READS
from decabench.models.shared_memory import FAMILY, MODELS, SharedMemoryConfig, build
from decabench.tasks import Label
from decabench.training.config import TrainConfig
from decabench.training.optimizers import clip_gradients, make_optimizer
from decabench.vectors.tokenizer import Lexicon
from decabench.vectors.word_vectors import JoinedVectors, NoVectors, WordTable
from tests.models.differences import check_gradients
from tests.models.equations import memory as equations

TASKS_OF_TEST = {"books": Label(names=("bad", "good")), "dvd.s": Label(names=("bad", "so", "good"))}
M, D = 4, 3
ALL = sorted(MODELS)
RECURRENT = ["arc-i", "arc-ii", "me-lstm"]
VARIANTS = [
    *((name, {}) for name in ALL),
    *((name, {"bidirectional": True}) for name in RECURRENT),
    *((name, {"fusion": "shared"}) for name in RECURRENT),
    *(("arc-ii", {"reads": reads}) for reads in MEMORY_READS if reads != "both"),
    ("nbow", {"bag": "mean"}),
    ("mt-dnn", {"bag": "sum"}),
]
every_variant = pytest.mark.parametrize(
    ("name", "settings"), VARIANTS, ids=["-".join([name, *map(str, own.values())]) for name, own in VARIANTS]
)


def make_words(dimension=M):
    return WordTable(Lexicon([f" w{n} " for n in range(9)]), JoinedVectors((NoVectors(dimension),)))


def make(name, **settings):
    """A small network in double precision, with weights of a size that shows a wrong term."""
    sizes = {"hidden": D, "segments": 5, "segment_width": 2, "shared_layer": 3, "own_layer": 2}
    torch.manual_seed(0)
    model = build(
        SharedMemoryConfig(name=name, **{**sizes, **settings}), TASKS_OF_TEST, make_words()
    ).double()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.6)
    return model


def make_batch(task="books", lengths=(5, 3, 1), seed=0):
    random = np.random.default_rng(seed)
    items = [
        {
            "text": random.integers(4, 13, n).astype(np.int32),
            "label": random.integers(0, len(TASKS_OF_TEST[task].names), 1).astype(np.int32),
        }
        for n in lengths
    ]
    return items, ColumnBatch.of(task, items, make_words(), FAMILY.columns, vectors=False)


def path(task):
    return task.replace(".", "/")


def represent(model, item, task):
    """The vector of one text, by the transcription."""
    w, config = dict(model.named_parameters()), model.config
    rows = torch.from_numpy(item["text"]).long()
    x = w["embed.table.weight"][rows]
    match config.name:
        case "nbow" | "mt-dnn":
            return equations.bag(x, w, path(task), config.name, "mean" if config.is_mean else "sum")
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
    """Those that autograd finds for the transcription."""
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


@every_variant
def test_gradients_against_finite_differences(name, settings):
    model = make(name, **settings)
    _, batch = make_batch(lengths=(4, 2))
    check_gradients(model, lambda: model.losses(batch)["label"][0])


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


@every_variant
def test_tasks_together_are_what_each_is_by_itself(name, settings):
    """Also the gradients, where tasks differ in the number of texts and in their lengths."""
    batches = [make_batch("books", (5, 3, 1))[1], make_batch("dvd.s", (2, 7), seed=1)[1]]
    found = []
    for together in (True, False):
        model = make(name, **settings)
        losses = model(*batches) if together else [model.losses(batch) for batch in batches]
        sum(own["label"][0] for own in losses).backward()
        found.append([own["label"][0] for own in losses] + [p.grad for p in model.parameters()])
        assert [own["label"][1] for own in losses] == [3, 2]
    for one, two in zip(*found, strict=True):
        torch.testing.assert_close(one, two, rtol=1e-9, atol=1e-11)


@every_variant
def test_every_parameter_is_used(name, settings):
    """By the losses of all tasks together; a task's own parameters only by its own."""
    model = make(name, **settings)
    own = {}
    for task in TASKS_OF_TEST:
        model.zero_grad()
        model.losses(make_batch(task)[1])["label"][0].backward()
        own[task] = {key for key, p in model.named_parameters() if p.grad is not None and (p.grad != 0).any()}
    everything = dict(model.named_parameters()).keys()
    assert own["books"] | own["dvd.s"] == everything
    assert own["books"] == {key for key in everything if not key.startswith("heads.dvd/s.")}
    assert own["dvd.s"] == {key for key in everything if not key.startswith("heads.books.")}


@every_variant
def test_padding_changes_nothing(name, settings):
    """An example alone has the loss and the answer that it has in a batch, at any place in it."""
    model = make(name, **settings).eval()
    items, batch = make_batch(lengths=(2, 6, 1, 4))
    alone = [ColumnBatch.of("books", [item], make_words(), FAMILY.columns, vectors=False) for item in items]
    total = sum(model.losses(one)["label"][0] for one in alone)
    torch.testing.assert_close(model.losses(batch)["label"][0], total, rtol=1e-10, atol=1e-12)
    assert [reply.text for reply in model.answers(batch)] == [model.answers(one)[0].text for one in alone]


@every_variant
def test_a_text_without_words_is_zero(name, settings):
    model = make(name, **settings)
    _, batch = make_batch(lengths=(0, 3))
    model.losses(batch)["label"][0].backward()
    assert all(p.grad is None or p.grad.isfinite().all() for p in model.parameters())
    if name != "mt-dnn":  # which has biases below
        bias = model.heads["books"].output.score.bias
        assert model.answers(batch)[0].text == ("bad", "good")[int(bias.argmax())]
    assert [reply.read for reply in model.answers(batch)] == [0, 3]


@pytest.mark.parametrize("name", RECURRENT)
def test_a_text_leaves_nothing_in_the_memory(name):
    """Every text begins with the content that was learned."""
    model = make(name).eval()
    _, batch = make_batch()
    first = model.losses(batch)["label"][0]
    model.losses(make_batch("dvd.s", (7, 7))[1])
    assert torch.equal(model.losses(batch)["label"][0], first)


def count(name, outputs, **settings):
    """The parameters of a model at the paper's sizes, without embeddings and output layers."""
    model = build(SharedMemoryConfig(name=name, **settings), outputs, make_words(100))
    own = (
        parameter.numel()
        for key, parameter in model.named_parameters()
        if "embed" not in key.split(".") and ".output." not in key
    )
    return sum(own)


def test_parameter_counts():
    """Computed from the equations at the sizes of Table 2; the paper prints none."""
    four = {f"products.{n}": Label(names=("negative", "positive")) for n in range(4)}
    one = {"products.0": four["products.0"]}
    lstm = 4 * 100 * 200 + 400
    emits, fusion, memory = 60 * 100 + 60, 2 * 100 * 20 + 100 * 100, 50 * 20
    assert lstm == 80_400
    assert count("me-lstm", one) == count("arc-i", one) == lstm + emits + fusion + memory == 101_460
    assert count("me-lstm", four) == 4 * 101_460
    assert count("arc-i", four) == 4 * (lstm + fusion) + emits + memory == 384_660
    shared = memory + 60 * 20 + 60
    assert count("arc-ii", four) == 4 * (lstm + emits + fusion + 2 * 100 * 20 + memory) + shared == 424_100
    assert count("arc-ii", four, reads="global") == 424_100 - 4 * 2 * 100 * 20
    assert count("arc-ii", four, reads="late") == 424_100
    assert count("arc-i", four, fusion="shared") == 4 * lstm + fusion + emits + memory
    assert count("arc-ii", four, bidirectional=True) == 2 * 424_100
    assert count("mt-cnn", four) == 4 * (3 * 100 * 100 + 100)
    assert count("mt-dnn", four) == 100 * 300 + 300 + 4 * (300 * 128 + 128)
    assert count("nbow", four) == 0


@pytest.mark.parametrize("name", ALL)
def test_weights_are_drawn_as_in_the_paper(name):
    torch.manual_seed(0)
    words = make_words(20)
    model = build(SharedMemoryConfig(name=name), TASKS_OF_TEST, words)
    for key, parameter in model.named_parameters():
        if "embed" in key.split("."):
            assert not parameter[1].any()
            assert not parameter[0].any()
        else:
            assert parameter.abs().max() <= 0.1
            assert parameter.numel() < 50 or parameter.std().item() == pytest.approx(0.1 / 3**0.5, rel=0.2)
    if name in RECURRENT:
        for key, parameter in model.named_parameters():
            if key.endswith("initial"):
                assert len(parameter.unique(dim=0)) == 50
    if name == "mt-cnn":
        for half, table in enumerate((model.embed.table, model.heads["books"].embed.table)):
            np.testing.assert_array_equal(
                table.weight[4:].detach().numpy(), words[np.arange(4, 13)][:, 10 * half : 10 * half + 10]
            )


def test_a_word_that_no_training_text_has():
    """It has its fixed vector, both halves of it in MT-CNN; without, it is <unk>, at first zero."""
    words = WordTable(Lexicon([" seen "]), JoinedVectors((NoVectors(M),)))
    (number,) = words.lexicon.number([" unseen "])
    for unseen, expected in ((True, words[np.array([number])][0]), (False, np.zeros(M))):
        config = SharedMemoryConfig(name="mt-cnn", unseen_vectors=unseen)
        assert FAMILY.has_fixed_vectors(config) is unseen
        model = build(config, TASKS_OF_TEST, words)
        batch = FAMILY.make_batch("books", [{"text": np.array([number], dtype=np.int32)}], words, config)
        halves = [embed(batch, "text")[0, 0] for embed in (model.embed, model.heads["books"].embed)]
        np.testing.assert_array_equal(torch.cat(halves).detach().numpy(), expected)


@pytest.mark.parametrize("name", ["arc-ii", "mt-cnn"])
@pytest.mark.parametrize("optimizer", ["adagrad", "sgd"])
def test_sparse_gradients_change_nothing(name, optimizer):
    config = TrainConfig(optimizer=optimizer)
    models = [make(name, sparse_gradients=sparse) for sparse in (False, True)]
    optimizers = [make_optimizer(config, model) for model in models]
    for task in ("books", "dvd.s", "books"):
        norms = []
        for model, own in zip(models, optimizers, strict=True):
            own.param_groups[0]["lr"] = 0.1
            own.zero_grad(set_to_none=True)
            model.losses(make_batch(task)[1])["label"][0].backward()
            norms.append(clip_gradients(model.parameters(), 0.5))
            own.step()
        assert models[1].embed.table.weight.grad.is_sparse
        torch.testing.assert_close(*norms)
    for one, two in zip(*(model.parameters() for model in models), strict=True):
        torch.testing.assert_close(one, two, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", ["arc-ii", "mt-cnn"])
def test_the_penalty_is_on_everything_but_the_words(name):
    model = make(name, l2=0.5)
    model.losses(make_batch()[1])["label"][0].backward()
    before = {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}
    model.adjust_gradients()
    for key, parameter in model.named_parameters():
        if key.startswith("heads.dvd/s."):  # not a task of this batch
            assert parameter.grad is None
        else:
            decay = 0.0 if "embed" in key.split(".") else 0.5
            torch.testing.assert_close(parameter.grad, before[key] + decay * parameter.detach())


def test_what_is_shared_has_no_name_of_a_task():
    """`--init` copies it to other tasks."""
    shared = {
        name: sorted(key for key, _ in make(name).named_parameters() if not key.startswith("heads."))
        for name in ALL
    }
    memory = ["bias", "initial", "weight"]
    assert shared == {
        "arc-i": ["embed.table.weight", *(f"shared.memory.0.{part}" for part in memory)],
        "arc-ii": ["embed.table.weight", *(f"shared.global_memory.0.{part}" for part in memory)],
        "me-lstm": ["embed.table.weight"],
        "mt-cnn": ["embed.table.weight"],
        "mt-dnn": ["embed.table.weight", "shared.bias", "shared.weight"],
        "nbow": ["embed.table.weight"],
    }


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"name": "arc"}, "arc-i"),
        ({"reads": "local"}, "both"),
        ({"fusion": "none"}, "own"),
        ({"bag": "max"}, "mean"),
        ({"segments": 0}, "segments is 0: give 1 or more"),
        ({"segment_width": 0}, "segment_width is 0"),
        ({"l2": -1.0}, "l2 is -1.0: give 0 or more"),
        ({"initial": float("nan")}, "initial is nan"),
        ({"dropout": 1.0}, "below 1"),
    ],
)
def test_settings_are_checked(settings, message):
    with pytest.raises(DecabenchError, match=message):
        SharedMemoryConfig(**settings)


def test_vectors_of_one_number_cannot_be_split():
    with pytest.raises(DecabenchError, match="only one number"):
        build(SharedMemoryConfig(name="mt-cnn"), TASKS_OF_TEST, make_words(1))


def test_the_family_has_all_models():
    assert all(find_family(name) is FAMILY for name in MODELS)


def test_the_bag_of_a_long_text_does_not_saturate_the_hidden_layer():
    """As a sum, the vectors of reviews left 89 % of the units of mt-dnn saturated, and its accuracy at chance."""
    torch.manual_seed(0)
    vectors = torch.nn.functional.normalize(torch.randn(150, 300) + 0.2, dim=1) * 5.4
    layer = torch.nn.Linear(300, 300)
    torch.nn.init.uniform_(layer.weight, -0.1, 0.1)
    shares = {
        how: (layer(getattr(vectors, how)(0)).tanh().abs() > 0.99).double().mean().item()
        for how in ("sum", "mean")
    }
    assert shares["sum"] > 0.8 and shares["mean"] < 0.01
    assert SharedMemoryConfig(name="mt-dnn").is_mean
    assert not SharedMemoryConfig(name="nbow").is_mean, "the paper: the sum"
    assert not SharedMemoryConfig(name="mt-dnn", bag="sum").is_mean


def test_rows_of_words_are_found_by_the_names_of_parameters():
    """A task whose name torch has another use for, such as `type`, has another in parameters."""
    label = Label(names=("bad", "good"))
    model = build(SharedMemoryConfig(name="mt-cnn"), {"type": label, "dvd.s": label}, make_words())
    names = {name.removesuffix(".weight") for name, _ in model.named_parameters()}
    assert set(model.vocabulary_rows) <= names and len(model.vocabulary_rows) == 3
