"""Meta-LSTM and its competitors against a transcription of the papers' equations, and what must not matter."""

import itertools
from dataclasses import replace

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed: pip install 'decabench[models]'")

from decabench.errors import DataError
from decabench.models.batches import TextReader
from decabench.models.meta_lstm import MODELS, MetaLSTM, MetaLSTMConfig, encode
from decabench.tasks import TASKS, Label, Question, Tags
from decabench.vectors.tokenizer import Lexicon
from tests.models.differences import check_gradients
from tests.models.equations import meta as equations
from tests.models.test_label_families import collate, make_items, words

TASKS_OF_TEST = {"books": Label(names=("bad", "good")), "dvd.s": Label(names=("bad", "so", "good"))}
TAGGING = {"pos": Tags(names=("N", "V", "X")), "ner": Tags(names=("B", "O"))}
H = 3
ALL = sorted(MODELS)


def make(name, outputs=TASKS_OF_TEST, **settings):
    """A small network in double precision, with weights of a size that shows a wrong term."""
    sizes = {"hidden": H, "meta": 3, "rank": 2, "hyper": 3, "hyper_embedding": 2}
    torch.manual_seed(0)
    model = MetaLSTM(MetaLSTMConfig(name=name, **{**sizes, **settings}), outputs, words()).double()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.6)
    return model


def make_batch(model, task="books", lengths=(5, 3, 1)):
    items = make_items("lstm", {**TASKS_OF_TEST, **TAGGING}, task, lengths)
    return items, collate("lstm", items, task)


def states_of(model, item, task, backwards=False):
    """The states of the shared and the task's networks of one direction, by the transcription, in the text's order."""
    weights = dict(model.named_parameters())
    x = weights["embed.table.weight"][torch.from_numpy(item["text"]).long()]
    config, way = model.config, int(backwards)
    shared, own = f"shared.{way}", f"heads.{task.replace('.', '/')}.networks.{way}"
    states = equations.run(
        x.flip(0) if backwards else x, weights, shared, own, config.name, config.reads_words
    )
    return [part.flip(0) for part in states] if backwards else states


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("task", TASKS_OF_TEST)
def test_the_loss_of_a_text_is_what_the_equations_say(name, task):
    model = make(name)
    items, batch = make_batch(model, task)
    weights, total = dict(model.named_parameters()), 0.0
    for item in items:
        last = torch.cat([states[-1] for states in states_of(model, item, task)])
        total = total + equations.label_loss(last, weights, task.replace(".", "/"), int(item["label"][0]))
    value, count = model.losses(batch)["label"]
    torch.testing.assert_close(value, total, rtol=1e-9, atol=1e-11)
    assert count == 3


@pytest.mark.parametrize("name", [name for name in ALL if not MODELS[name].stacked])
def test_two_directions(name):
    model = make(name, bidirectional=True)
    items, batch = make_batch(model)
    weights, total = dict(model.named_parameters()), 0.0
    for item in items:
        there, back = (states_of(model, item, "books", way) for way in (False, True))
        last = torch.cat([part for one, two in zip(there, back, strict=True) for part in (one[-1], two[0])])
        total = total + equations.label_loss(last, weights, "books", int(item["label"][0]))
    torch.testing.assert_close(model.losses(batch)["label"][0], total, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("name", [name for name in ALL if not MODELS[name].stacked])
def test_the_loss_of_tags_is_a_crf_over_the_states_of_both_directions(name):
    model = make(name, TAGGING, bidirectional=True)
    items, batch = make_batch(model, "pos", lengths=(4, 2))
    weights, total = dict(model.named_parameters()), 0.0
    start, end, moves = (weights[f"heads.pos.output.crf.{key}"] for key in ("start", "end", "transitions"))
    for item in items:
        there, back = (states_of(model, item, "pos", way) for way in (False, True))
        states = torch.cat([part for pair in zip(there, back, strict=True) for part in pair], 1)
        scores = states @ weights["heads.pos.output.score.weight"].T + weights["heads.pos.output.score.bias"]
        paths = {
            path: start[path[0]]
            + end[path[-1]]
            + sum(scores[t, label] for t, label in enumerate(path))
            + sum(moves[one, two] for one, two in itertools.pairwise(path))
            for path in itertools.product(range(3), repeat=len(scores))
        }
        total = (
            total - paths[tuple(item["tags"].tolist())] + torch.stack(list(paths.values())).exp().sum().log()
        )
    value, count = model.losses(batch)["tags"]
    torch.testing.assert_close(value, total, rtol=1e-9, atol=1e-11)
    assert count == 6


def test_the_adversarial_losses():
    """Eq. 11-14 of Liu et al. 2017, weighted; the shared network gets the reverse of the discriminator's gradient."""
    model = make("asp-mtl")
    items, batch = make_batch(model, "dvd.s")
    weights = dict(model.named_parameters())
    states = [states_of(model, item, "dvd.s") for item in items]
    shared, own = (torch.stack([parts[at][-1] for parts in states]) for at in (0, 1))
    guess, penalty = equations.adversarial_losses(shared, own, weights, 1)
    found = model.losses(batch)
    torch.testing.assert_close(found["adversarial"][0], 0.05 * guess)
    torch.testing.assert_close(found["orthogonality"][0], 0.01 * penalty)
    assert found["adversarial"][1] == found["orthogonality"][1] == 3
    ours = torch.autograd.grad(
        found["adversarial"][0], [model.discriminator.weight, weights["shared.0.weight"]]
    )
    theirs = torch.autograd.grad(0.05 * guess, [model.discriminator.weight, weights["shared.0.weight"]])
    torch.testing.assert_close(ours[0], theirs[0])
    torch.testing.assert_close(ours[1], -theirs[1])
    assert make("psp-mtl").losses(batch).keys() == {"label"}


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("outputs", [TASKS_OF_TEST, TAGGING], ids=["labels", "tags"])
def test_gradients_against_finite_differences(name, outputs):
    model = make(name, outputs, bidirectional=outputs is TAGGING)
    task = next(iter(outputs))
    _, batch = make_batch(model, task, lengths=(4, 2))

    def loss():
        # Without the reversal: what it does to a gradient is no derivative.
        return sum(value for key, (value, _) in model.losses(batch).items() if key != "adversarial")

    check_gradients(model, loss)


def read(output, text, answer, cut=None, question="?"):
    task = replace(TASKS["sst"], output=output, variants=(), metric="")
    reader = TextReader(task, Lexicon(), cut)
    return encode(Question("", question, text), answer, task, reader), reader


def test_texts_are_cut_and_tags_are_not():
    item, reader = read(TASKS_OF_TEST["books"], "Don't go , ever .", "good", cut=3)
    assert [reader.lexicon.words[number] for number in item["text"]] == [" don't ", " go ", " , "]
    assert item["label"].tolist() == [1]
    item, _ = read(TAGGING["pos"], "Don't go , ever .", "V V X N X", cut=3)
    assert len(item["text"]) == len(item["tags"]) == 5
    item, _ = read(TASKS_OF_TEST["books"], "no", None)
    assert set(item) == {"text"}


def test_tasks_whose_questions_differ_are_refused():
    output = TASKS_OF_TEST["books"]
    task = replace(TASKS["sst"], output=output, variants=(), metric="")
    reader = TextReader(task, Lexicon())
    encode(Question("1", "is it good?", "yes"), "good", task, reader)
    with pytest.raises(DataError, match="Set question_varies=True"):
        encode(Question("2", "is it bad?", "yes"), "good", task, reader)
    encode(Question("3", "is it bad?", "yes"), None, task, reader)  # prediction may word it otherwise
    tagging = replace(task, output=TAGGING["pos"], question_varies=True)
    with pytest.raises(DataError, match="doesn't read questions when it tags words"):
        encode(Question("4", "nouns?", "yes"), "V", tagging, reader)
