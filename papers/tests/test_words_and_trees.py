import json
from types import SimpleNamespace

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed: pip install 'decabench[models]'")

from decabench.errors import DecabenchError
from decabench.models import TrainedModel
from decabench.models.joint_many_task import FAMILY, JointManyTask, JointManyTaskConfig
from decabench.tasks import TASKS, Example, Tree
from decabench.vectors import JoinedVectors, Lexicon, NoVectors, WordTable, ngrams
from papers.words_and_trees import CLOSEST, closest_words, count_roots, score_unknown_words
from tests.models.equations import jmt as equations

WORDS = ["The", "cat", "sat", "cats", "on", "a", "mat", "the", "dog"]


@pytest.fixture
def model():
    words = WordTable(Lexicon([f" {word} " for word in WORDS]), JoinedVectors((NoVectors(4),)))
    torch.manual_seed(0)
    config = JointManyTaskConfig(hidden=3, word_dimension=4, ngram_dimension=5, label_dimension=2)
    outputs = {"ud.pos": TASKS["ud.pos"].output, "ud.dep": Tree(relations=("det", "nsubj"))}
    network = JointManyTask(config, outputs, words)
    for parameter in network.parameters():
        torch.nn.init.normal_(parameter)
    return TrainedModel(FAMILY, config, network, words, outputs, {}, torch.device("cpu"))


def answering(model, *texts):
    """Replace a model's answers with the given answers."""
    replies = [SimpleNamespace(text=text) for text in texts]
    return SimpleNamespace(config=model.config, network=model.network, answer=lambda *_: replies)


def test_tags_of_unknown_words(model):
    examples = [
        Example("1", "?", "The zebra sat", ("DET NOUN VERB",), ("1",)),
        Example("2", "?", "CAT zoo . yes", ("NOUN NOUN PUNCT INTJ",), ("2",)),
    ]
    found = score_unknown_words(
        answering(model, "DET NOUN NOUN", "noun VERB PUNCT INTJ"), TASKS["ud.pos"], examples
    )
    assert (found.words, found.unknown) == (7, 4)  # unknown: zebra, zoo, the dot and yes
    assert found.scores == {"accuracy": pytest.approx(100 * 5 / 7)}
    assert found.unknown_scores == {"accuracy": pytest.approx(100 * 3 / 4)}


def test_heads_of_unknown_words(model):
    gold = "2:det 3:nsubj 0:root 3:obj 3:punct"
    example = Example("1", "?", "The zebra sat zoo .", (gold,), ("1",), {"upos": "DET NOUN VERB NOUN PUNCT"})
    task = TASKS["ud.dep"]
    found = score_unknown_words(answering(model, "3:det 3:nsubj 0:root 3:nmod 1:punct"), task, [example])
    assert (found.words, found.unknown) == (4, 2)  # zebra and zoo; the dot does not count
    assert found.scores == {"uas": pytest.approx(75), "las": pytest.approx(50)}
    assert found.unknown_scores == {"uas": pytest.approx(100), "las": pytest.approx(50)}
    without_tags = Example("1", "?", "The zebra sat zoo .", (gold,), ("1",))
    assert score_unknown_words(answering(model, gold), task, [without_tags]).unknown == 2
    everything_known = Example("1", "?", "The cat", ("2:det 0:root",), ("1",))
    assert (
        score_unknown_words(answering(model, "2:det 0:root"), task, [everything_known]).unknown_scores == {}
    )
    with pytest.raises(DecabenchError, match="neither tags nor trees"):
        score_unknown_words(answering(model, ""), TASKS["sst"], [])


@pytest.mark.parametrize("whole", [True, False])
def test_neighbours_are_those_of_the_equations(model, whole):
    found = closest_words(model, "cat", whole)
    w = {name: value.detach().double() for name, value in model.network.named_parameters()}
    forms = {word.lower(): number for number, word in reversed(list(enumerate(WORDS)))}
    rows = {word: row for row, word in enumerate(sorted(forms, key=forms.get), 2)}
    grams = {gram: row for row, gram in enumerate(dict.fromkeys(g for word in WORDS for g in ngrams(word)))}
    x = {word: equations.represent_word(word, rows, grams, w)[: 9 if whole else 4] for word in WORDS}
    start = {"ud.pos": 0, "ud.dep": 6}  # the layer of trees first reads the states below
    for space, close in found.items():
        vectors = x
        if space != "embedding":
            layer = list(start).index(space)
            W_u = w[f"layers.{layer}.lstm.weight_ih_l0"].chunk(4)[2]  # the gates i, f, u, o
            vectors = {word: W_u[:, start[space] : start[space] + len(v)] @ v for word, v in x.items()}
        own = vectors["cat"]
        cosine = {word: float(v @ own / (v.norm() * own.norm())) for word, v in vectors.items()}
        expected = sorted((word for word in WORDS if word != "cat"), key=lambda word: -cosine[word])
        assert close == expected[:CLOSEST]
    assert list(found) == ["embedding", "ud.pos", "ud.dep"]
    with pytest.raises(DecabenchError, match="not in the vocabulary"):
        closest_words(model, "zebra")


def test_roots(model):
    examples = [Example(name, "?", "a b", ("2:x 0:root",), (name,)) for name in "abc"]
    found = count_roots(answering(model, "2:x 0:root", "2:x 1:x", "0:root 0:root"), TASKS["ud.dep"], examples)
    assert (found.sentences, found.none, found.several) == (3, ["b"], ["c"])
    with pytest.raises(DecabenchError, match="has no trees"):
        count_roots(answering(model), TASKS["sst"], [])


def test_the_commands(command, home, tmp_path):
    values = ("vectors=['none:8']", "steps=2", "batch_examples=4", "model.hidden=4", "model.word_dimension=4")
    options = [part for value in (*values, "model.ngram_dimension=4") for part in ("--set", value)]
    run = tmp_path / "run"
    done = command(
        *("train", "--model", "jmt", "--tasks", "ud.pos,ud.dep", "--home", home, "--device", "cpu"),
        *("--output", run, *options),
    )
    assert done.exit_code == 0, done.output
    for name, extra in (("UNKNOWN_WORDS", ()), ("ROOTS", ()), ("NEIGHBOURS", ("--task", "ud.pos"))):
        out = ("--home", home, "--device", "cpu", "--output", tmp_path / "out", *extra)
        done = command("analyze", f"papers.words_and_trees:{name}", run, *out)
        assert done.exit_code == 0, done.output
    counted = json.loads((tmp_path / "out" / "unknown_words.json").read_text())["tasks"]
    assert (
        set(counted) == {"ud.pos", "ud.dep"} and counted["ud.pos"]["words"] > counted["ud.pos"]["unknown"] > 0
    )
    roots = json.loads((tmp_path / "out" / "roots.json").read_text())["tasks"]["ud.dep"]
    assert roots["sentences"] >= len(roots["none"]) + len(roots["several"])
    assert json.loads((tmp_path / "out" / "neighbours.json").read_text())["words"]
