"""The Joint Many-Task model, compared with a transcription of the paper's equations in double precision."""

from dataclasses import replace
from itertools import product
from pathlib import Path
from types import SimpleNamespace

import pytest

torch = pytest.importorskip("torch")

import numpy as np

from decabench.errors import DataError, DecabenchError
from decabench.models.batches import TextReader
from decabench.models.joint_many_task import FAMILY, ChunkHead, JointManyTask, JointManyTaskConfig
from decabench.tasks import TASKS, Label, Number, Question, Tags, Tree
from decabench.training import resume
from decabench.training.config import TrainConfig
from decabench.vectors.tokenizer import UNKNOWN, Lexicon
from decabench.vectors.word_vectors import JoinedVectors, NoVectors, WordTable
from tests.models.equations import jmt as equations

OUTPUTS = {
    "pos": Tags(names=("DT", "NN", "VB")),
    "chunk": Tags(scheme="IOB2", names=("B-NP", "B-VP", "I-NP", "O")),
    "dep": Tree(relations=("det", "root", "obj")),
    "rel": Number(low=1, high=5),
    "ent": Label(names=("yes", "maybe", "no")),
}
SMALL = JointManyTaskConfig(
    **dict.fromkeys(("hidden", "word_dimension", "ngram_dimension", "label_dimension"), 3),
    **dict.fromkeys(
        (
            *("word_dropout", "input_dropout", "pair_input_dropout"),
            *("vertical_dropout", "classifier_dropout", "rating_dropout"),
        ),
        0.0,
    ),
)
EXAMPLES = {
    "pos": [
        ("The Cat saw unheardOf things", "", "DT NN VB NN NN"),
        ("cat", "", "NN"),
        ("saw the cat", "", "VB DT NN"),
    ],
    "chunk": [("The Cat saw things Now", "", "B-NP I-NP B-VP B-NP B-NP"), ("saw a", "", "O B-NP")],
    "dep": [
        ("The cat saw things", "", "2:det 3:obj 0:root 3:obj"),
        ("cat", "", "0:root"),
        ("saw a", "", "0:root 1:obj"),
    ],
    "rel": [
        ("The cat saw\na cat", "", "3.4"),
        ("a cat saw the things now\nThings", "", "5"),
        ("a\ncat", "", "1"),
    ],
    "ent": [("The cat saw\na cat", "", "maybe"), ("a cat saw the things now\nThings", "", "no")],
}
"""(context, question, answer) with different lengths. One word of pos is not in the vocabulary."""
WORDS = "The Cat saw things cat the a Now now Things".split()


@pytest.fixture(autouse=True)
def double():
    torch.set_num_threads(1)
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


def task(name, **given):
    return replace(TASKS["sst"], name=name, output=OUTPUTS[name], variants=(), **given)


def make_table(vectors=None):
    lexicon = Lexicon([f" {word} " for word in WORDS])
    lexicon.counts = np.arange(-3, len(WORDS) + 1)  # 1, 2, ... after the special words
    return WordTable(lexicon, JoinedVectors(vectors or (NoVectors(3),)))


def make(tasks=tuple(OUTPUTS), table=None, **settings):
    """Return a model for some tasks, with large weights."""
    config = replace(SMALL, **settings)
    torch.manual_seed(1)
    table = table or make_table()
    model = JointManyTask(config, {name: OUTPUTS[name] for name in tasks}, table).double()
    for name, parameter in model.named_parameters():
        torch.nn.init.normal_(parameter, std=0.5)
        if "bias_hh" in name:
            torch.nn.init.zeros_(parameter)
    model.embed.words.data[0] = 0
    return model


def make_batch(model, name, examples=None):
    table = make_table()
    table.lexicon = model.embed.parts._lexicon
    reader = TextReader(task(name), table.lexicon)
    items = [
        FAMILY.encode(Question("", question, context), answer, task(name), reader)
        for context, question, answer in examples or EXAMPLES[name]
    ]
    return FAMILY.make_batch(name, items, table, model.config)


def total(model, batch):
    return sum(value for value, _ in model.losses(batch).values())


def transcribed(model, name, example):
    """Return the transcription's loss of one example."""
    weights = dict(model.named_parameters())
    context, _, answer = example
    texts = [
        equations.represent([line.split()], model.embed.parts.words, model.embed.parts.ngrams, weights)
        for line in context.splitlines()
    ]
    match name:
        case "pos":
            tags = [[OUTPUTS["pos"].names.index(tag) for tag in answer.split()]]
            return equations.tag_loss(*texts, torch.tensor(tags), weights, name)
        case "chunk":
            names = model.heads["chunk"].softmax.names
            return equations.tag_loss(
                *texts, torch.tensor([[names.index(tag) for tag in IOBES[answer]]]), weights, name
            )
        case "dep":
            parts = [part.split(":") for part in answer.split()]
            heads = torch.tensor([[int(head) for head, _ in parts]])
            relations = torch.tensor([[OUTPUTS["dep"].relations.index(name) for _, name in parts]])
            return equations.parser_loss(*texts, heads, relations, weights)
        case "rel":
            return equations.rating_loss(*texts, torch.tensor([float(answer)]), weights)
        case "ent":
            label = torch.tensor([OUTPUTS["ent"].names.index(answer)])
            return equations.entailment_loss(*texts, label, weights)


IOBES = {"B-NP I-NP B-VP B-NP B-NP": ["B-NP", "E-NP", "S-VP", "S-NP", "S-NP"], "O B-NP": ["O", "S-NP"]}


@pytest.mark.parametrize("name", OUTPUTS)
def test_losses_are_those_of_the_equations(name):
    model = make()
    batch = make_batch(model, name)
    expected = sum(transcribed(model, name, example) for example in EXAMPLES[name])
    # A rating is read as a number of single precision.
    torch.testing.assert_close(total(model, batch), expected, rtol=1e-7 if name == "rel" else 1e-12, atol=0)
    assert {count for _, count in model.losses(batch).values()} == {len(EXAMPLES[name])}  # sentences


@pytest.mark.parametrize("name", OUTPUTS)
def test_gradients_are_those_of_the_equations(name):
    model = make()
    example = ("a cat saw\nThings", "", "4") if name == "rel" else EXAMPLES[name][0]
    total(model, make_batch(model, name, [example])).backward()
    found = {key: value.grad for key, value in model.named_parameters()}
    model.zero_grad()
    transcribed(model, name, example).backward()
    for key, value in model.named_parameters():
        if "bias_hh" in key:
            continue
        own, expected = (
            each if each is not None else torch.zeros_like(value) for each in (found[key], value.grad)
        )
        torch.testing.assert_close(own, expected, rtol=1e-8, atol=1e-10, msg=key)


@pytest.mark.parametrize("name", OUTPUTS)
def test_an_example_alone_is_the_same_in_a_batch(name):
    model = make().eval()
    alone = [total(model, make_batch(model, name, [example])) for example in EXAMPLES[name]]
    batch = make_batch(model, name)
    torch.testing.assert_close(total(model, batch), sum(alone), rtol=1e-12, atol=0)
    replies = [model.answers(make_batch(model, name, [example]))[0] for example in EXAMPLES[name]]
    assert model.answers(batch) == replies


@pytest.mark.parametrize("shortcuts, labels, vertical", list(product((True, False), repeat=3)))
def test_every_parameter_is_used(shortcuts, labels, vertical):
    if not (shortcuts or vertical):
        pytest.skip("only the first layer would read the words")
    model = make(shortcuts=shortcuts, label_embeddings=labels, vertical=vertical)
    used = set()
    for name in OUTPUTS:
        model.zero_grad()
        total(model, make_batch(model, name)).backward()
        model.adjust_gradients()
        used |= {
            key
            for key, value in model.named_parameters()
            if value.grad is not None and value.grad.abs().sum() > 0
        }
    unused = {key for key in dict(model.named_parameters()) if "bias_hh" not in key} - used
    assert unused == set()
    assert not any("bias_hh" in key for key in used)


def test_weights_of_another_vocabulary_go_to_their_words():
    def lexicon(words):
        made = Lexicon([f" {word} " for word in words])
        made.counts = np.arange(-3, len(words) + 1)
        return made

    tables = [
        WordTable(lexicon(words), JoinedVectors((NoVectors(3),)))
        for words in (["Cat", "dog", "cats"], ["birds", "Dog", "dog", "cat"])
    ]
    old, new = make(table=tables[0]), make(table=tables[1])
    before = {name: value.clone() for name, value in new.state_dict().items()}
    origin = SimpleNamespace(
        folder=Path("old"),
        outputs=old.outputs,
        config=old.config,
        lexicon=lambda: tables[0].lexicon,
        check_files=lambda: None,
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(resume, "load_weights", lambda folder: old.state_dict())
        resume.copy_weights(origin, new, tables[1], new.outputs, TrainConfig(model=new.config))

    def row(model, word):
        return model.embed.words[model.embed.parts.words[word]]

    for word in ("cat", "dog"):
        assert torch.equal(row(new, word), row(old, word))
    assert torch.equal(new.embed.words[UNKNOWN], old.embed.words[UNKNOWN])
    birds = new.embed.parts.words["birds"]
    assert torch.equal(new.embed.words[birds], before["embed.words"][birds])
    shared = new.embed.parts.ngrams.keys() & old.embed.parts.ngrams.keys()
    assert shared and shared != new.embed.parts.ngrams.keys()
    for gram, at in new.embed.parts.ngrams.items():
        source = (
            old.embed.ngrams[old.embed.parts.ngrams[gram]] if gram in shared else before["embed.ngrams"][at]
        )
        assert torch.equal(new.embed.ngrams[at], source)


def test_penalties():
    """Eq. 6-10: lambda for the matrices that a task uses, delta for embeddings and lower layers."""
    model = make()
    found = model.penalties
    assert found["pos"] == {
        "embed.words": (0, 1e-3),
        "embed.ngrams": (0, 1e-3),
        **{
            f"layers.0.lstm.weight_{part}_l0{end}": (1e-6, 0)
            for part in ("ih", "hh")
            for end in ("", "_reverse")
        },
        "heads.pos.hidden.weight": (1e-5, 0),
        "heads.pos.softmax.score.weight": (1e-5, 0),
    }
    chunk = found["chunk"]
    assert chunk["layers.0.lstm.weight_ih_l0"] == (1e-6, 1e-3)
    assert chunk["layers.0.lstm.bias_ih_l0"] == (0, 1e-3)
    assert chunk["layers.1.lstm.weight_ih_l0"] == (1e-6, 0)
    assert chunk["heads.pos.softmax.score.weight"] == (1e-5, 1e-2)
    assert chunk["heads.pos.softmax.score.bias"] == (0, 1e-2)
    assert "labels.pos" not in chunk  # E_POS is no part of theta_POS
    dep = found["dep"]
    assert dep["labels.pos"] == (0, 1e-3) and "labels.chunk" not in dep
    assert dep["heads.dep.match.weight"] == (1e-5, 0) and "heads.dep.root" not in dep
    assert found["rel"]["labels.chunk"] == (0, 1e-3)
    assert not any(name.startswith("heads.dep") for name in found["rel"])  # not used
    ent = found["ent"]
    assert ent["heads.rel.score.weight"] == (1e-5, 1e-2) and ent["layers.3.lstm.weight_hh_l0"] == (1e-6, 1e-3)
    assert "labels.rel" not in ent and "layers.4.lstm.bias_ih_l0" not in ent


@pytest.mark.parametrize("name", OUTPUTS)
def test_a_step_goes_down_the_whole_objective(name):
    """The in-place step equals autograd on Eq. 6-10, with half of each square (see `lstm_decay`)."""
    model = make(lstm_decay=0.02, classifier_decay=0.03, successive=0.1, successive_classifier=0.2)
    model.begin_pass(name, 1)
    reference = {key: value.detach().clone() for key, value in model.named_parameters()}
    for parameter in model.parameters():
        parameter.data += 0.1 * torch.randn_like(parameter)
    loss = total(model, make_batch(model, name))
    objective = loss
    own = dict(model.named_parameters())
    for key, (decay, successive) in model.penalties[name].items():
        value = own[key]
        objective = objective + decay / 2 * value.square().sum()
        objective = objective + successive / 2 * (value - reference[key]).square().sum()
    gradients = torch.autograd.grad(objective, list(own.values()), retain_graph=True, allow_unused=True)
    expected = {
        key: value - 0.3 * gradient if gradient is not None else value.clone()
        for (key, value), gradient in zip(own.items(), gradients, strict=True)
    }
    optimizer = torch.optim.SGD(model.parameters(), 0.3)
    loss.backward()
    model.before_step(0.3)
    optimizer.step()
    for key, value in model.named_parameters():
        torch.testing.assert_close(value, expected[key], rtol=1e-10, atol=1e-12, msg=key)


def test_layers_that_would_read_nothing_are_refused():
    with pytest.raises(DecabenchError, match="only the first layer would read the words"):
        replace(SMALL, shortcuts=False, vertical=False)


def test_sentences_of_a_pair_are_found_in_context_and_question():
    model = make()
    reader = TextReader(task("ent"), model.embed.parts._lexicon)

    def words(context, question, **given):
        item = FAMILY.encode(Question("", question, context), None, task("ent", **given), reader)
        return [[reader.lexicon.words[n].strip() for n in item[key]] for key in ("tokens", "second")]

    question, pair = "yes, maybe or no?", [["A", "cat", "saw"], ["The", "things"]]
    assert words("A cat saw\nThe things", question) == pair
    assert words('Sentence 1: "A cat saw"\nSentence 2: "The things"', question) == pair
    assert words("Sentence A: A cat saw\nSentence B: The things", question) == pair
    hypothesis = 'Hypothesis: "The things" -- yes, maybe or no?'
    assert words('Premise: "A cat saw"', hypothesis, question_varies=True) == pair
    assert words("A cat saw", "The things", question_varies=True) == pair
    assert words('Premise: "A cat\nsaw"', hypothesis, question_varies=True) == pair  # one sentence, not two
    assert words("A cat saw\n\n", "The things", question_varies=True) == pair
    said = words('A cat said "saw" now\nThe things', question)  # quotes within a sentence are part of it
    assert "".join(said[0]) == 'Acatsaid"saw"now' and said[1] == ["The", "things"]
    assert "".join(words('"A cat" saw "now"\nThe things', question)[0]) == '"Acat"saw"now"'
    for context in ("A cat saw", "A cat\nsaw\nthe things", ""):
        with pytest.raises(DataError, match="compares two sentences"):
            words(context, question)


def test_tags_in_iobes():
    head = ChunkHead(3, Tags(scheme="IOB2", names=("B-NP", "B-VP", "I-NP", "O", "I-VP")))
    names, own = ("B-NP", "B-VP", "I-NP", "O", "I-VP"), head.softmax.names
    assert own == ("O", *(f"{prefix}-{kind}" for kind in ("NP", "VP") for prefix in "BIES"))
    rows = [
        ("B-NP I-NP I-NP B-NP O", "B-NP I-NP E-NP S-NP O"),
        ("B-VP B-VP I-VP O B-NP", "S-VP B-VP E-VP O S-NP"),
        ("B-NP I-NP", "B-NP E-NP"),
        ("O", "O"),
    ]
    tags = torch.zeros(len(rows), 5, dtype=torch.int64)
    lengths = torch.tensor([len(given.split()) for given, _ in rows])
    for row, (given, _) in enumerate(rows):
        tags[row, : lengths[row]] = torch.tensor([names.index(tag) for tag in given.split()])
    found = head.spell(tags, torch.arange(5) < lengths[:, None])
    for row, (_, expected) in enumerate(rows):
        assert " ".join(own[tag] for tag in found[row, : lengths[row]].tolist()) == expected


def test_answers_are_in_iob2():
    model = make().eval()
    head = model.heads["chunk"]
    scores = torch.full((1, 4, head.classes), -9.0)
    for at, tag in enumerate(("B-NP", "E-NP", "S-VP", "O")):
        scores[0, at, head.softmax.names.index(tag)] = 9
    head.hidden, head.softmax.score = (
        torch.nn.Identity(),
        torch.nn.Linear(head.classes, head.classes, bias=False),
    )
    head.softmax.score.weight.data = torch.eye(head.classes)
    assert head.answers(scores + 9, torch.tensor([4])) == ["B-NP I-NP B-VP O"]
