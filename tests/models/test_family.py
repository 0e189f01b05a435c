from dataclasses import replace

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from decabench.errors import DecabenchError, UnknownNameError
from decabench.models.batches import ColumnBatch, TextReader, TooLongError, with_label_names
from decabench.models.family import find_family
from decabench.models.layers import WordEmbedding, max_over_time
from decabench.tasks import TASKS, Label, Number, Question, Tags, Text, Tree
from decabench.vectors.tokenizer import Lexicon
from decabench.vectors.word_vectors import JoinedVectors, NoVectors, WordTable

POS = replace(TASKS["sst"], name="pos", output=Tags(names=("N", "V")), variants=(), metric="tag_accuracy")


@pytest.fixture
def words():
    return WordTable(Lexicon([" a ", " b "]), JoinedVectors((NoVectors(4),)))


def test_tokens_of_the_task_are_its_whitespace_tokens_and_all_of_them():
    reader = TextReader(POS, Lexicon(), cut=2)
    numbers = reader.tokens("Don't stop-now , Mr. X")
    assert [reader.lexicon.words[number].strip() for number in numbers] == [
        "don't",
        "stop-now",
        ",",
        "mr.",
        "x",
    ]
    assert reader.count_kept("Don't stop-now , Mr. X") is None
    cased = reader.tokens("Don't stop", lower=False)
    assert [reader.lexicon.words[number] for number in cased] == [" Don't ", " stop "]
    assert len(reader.context("Don't stop-now , Mr. X")) == 2 + 2  # <init>, two tokens, <eos>
    assert reader.count_kept("Don't stop-now , Mr. X") == len("Don'")


def test_the_first_whitespace_tokens_are_what_the_limit_says():
    reader = TextReader(POS, Lexicon(), cut=2)
    text = "  Don't\tstop-now , Mr. X"
    assert [reader.lexicon.words[number] for number in reader.first_tokens(text)] == [" don't ", " stop-now "]
    assert text[: reader.count_kept(text)] == "  Don't\tstop-now"
    assert reader.count_kept("Don't stop-now ") is None
    assert reader.first_tokens("").shape == (0,)
    assert len(TextReader(POS, Lexicon()).first_tokens(text)) == 5
    with pytest.raises(TooLongError):
        TextReader(POS, Lexicon(), skip=2).first_tokens("a b c")


@pytest.mark.parametrize("family", ["meta-lstm", "arc-ii", "ns-mtl"])
def test_questions_are_read_where_they_vary(family):
    for name, words in (("multinli.in.out", "two words is it so ?"), ("sst", "two words")):
        reader = TextReader(TASKS[name], Lexicon(), cut=2)
        question = Question("1", "Is it so ?", "Two words here")
        encoded = find_family(family).encode(question, None, TASKS[name], reader)["text"]
        assert "".join(reader.lexicon.words[number] for number in encoded).split() == words.split()
        assert reader.count_kept(question.context) == len("Two words")


def test_long_contexts_are_left_out():
    reader = TextReader(POS, Lexicon(), skip=2)
    assert len(reader.tokens("a b")) == 2 and len(reader.context("a b")) == 4
    for read in (reader.tokens, reader.context):
        with pytest.raises(TooLongError):
            read("a b c")


@pytest.mark.parametrize("output", [Label(names=()), Tags(names=()), Tree(relations=())])
def test_labels_that_were_met_are_part_of_the_output(output):
    known = with_label_names(output, ("x", "y"))
    assert type(known) is type(output) and known != output
    assert with_label_names(Text(), ("x",)) == Text()
    assert with_label_names(Number(low=0, high=1), ("x",)) == Number(low=0, high=1)


def test_a_batch_is_its_columns_padded(words):
    items = [
        {"text": np.array([4, 5, 4], dtype=np.int32), "tags": np.array([1, 0, 1], dtype=np.int32)},
        {"text": np.array([5], dtype=np.int32), "tags": np.array([1], dtype=np.int32)},
    ]
    kinds = {"text": "words", "tags": "labels"}
    batch = ColumnBatch.of("pos", items, words, kinds, vectors=True)
    assert len(batch) == 2
    assert batch.words[batch.columns["text"]].tolist() == [[4, 5, 4], [5, 0, 0]]
    assert batch.columns["tags"].tolist() == [[1, 0, 1], [1, 0, 0]]
    assert batch.lengths["text"].tolist() == [3, 1]
    assert torch.equal(batch.vectors, torch.from_numpy(words[batch.words.numpy()]))
    assert ColumnBatch.of("pos", items, words, kinds, vectors=False).vectors is None
    assert batch.to(torch.device("cpu")).columns["text"].equal(batch.columns["text"])


def test_an_example_without_any_words(words):
    items = [{"text": np.array([], dtype=np.int32)}, {"text": np.array([4], dtype=np.int32)}]
    batch = ColumnBatch.of("pos", items, words, {"text": "words"}, vectors=True)
    assert batch.lengths["text"].tolist() == [0, 1]
    states = WordEmbedding(words, False)(batch, "text")
    assert states.shape == (2, 1, 4)
    assert (max_over_time(states, batch.lengths["text"])[0] == 0).all()


def test_a_table_begins_with_the_vectors_and_learns(words):
    item = {"text": np.array([4, 5], dtype=np.int32)}
    fixed, trained = WordEmbedding(words, False), WordEmbedding(words, True)
    kinds = {"text": "words"}
    one = fixed(ColumnBatch.of("pos", [item], words, kinds, vectors=True), "text")
    two = trained(ColumnBatch.of("pos", [item], words, kinds, vectors=False), "text")
    torch.testing.assert_close(one, two)
    assert list(fixed.parameters()) == []
    two.sum().backward()
    assert (trained.table.weight.grad != 0).any(1).nonzero().flatten().tolist() == [4, 5]


@pytest.mark.parametrize(
    ("name", "task", "words"),
    [
        (
            "classifier",
            TASKS["squad"],
            r"only outputs of type Label or Tags, so it can't answer squad \(Text\)",
        ),
        ("classifier", TASKS["schema"], "each question of schema has its own"),
    ],
)
def test_tasks_that_a_family_cannot_answer(name, task, words):
    with pytest.raises(DecabenchError, match=words):
        find_family(name).check_tasks(name, [task])


@pytest.mark.parametrize(
    ("name", "words"),
    [("clasifier", "Did you mean classifier"), ("json:dumps", "not a decabench.models.Family")],
)
def test_names_of_nothing(name, words):
    with pytest.raises(UnknownNameError, match=words):
        find_family(name)
