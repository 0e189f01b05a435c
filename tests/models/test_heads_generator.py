"""The head for free text: its loss against its steps, its answers greedy and by beam, and a family that uses it."""

from dataclasses import dataclass

import pytest

torch = pytest.importorskip("torch")

from decabench.models import (
    BiLSTM,
    Checkpoint,
    Family,
    GeneratorHead,
    MultitaskNetwork,
    WordEmbedding,
)
from decabench.tasks import Label, Text
from decabench.training.loop import run_training
from decabench.vectors.tokenizer import EOS, INIT, PAD, Lexicon
from decabench.vectors.word_vectors import NoVectors, WordTable
from tests.training.conftest import TINY, make_run  # noqa: F401
from tests.training.test_loop import same, weights

LENGTHS = torch.tensor([4, 2])
ANSWERS = torch.tensor([[INIT, 5, 4, EOS], [INIT, 6, EOS, PAD]])


@dataclass(frozen=True)
class Config:
    name: str = "tests.models.test_heads_generator:FAMILY"
    vocabulary: int = 1_000
    max_answer_tokens: int = 6
    train_embeddings: bool = True


def encode(question, answer, task, reader):
    item = {"context": reader.context(question.context)}
    return item if answer is None else {**item, "answer": reader.text(answer)}


class Sequence(MultitaskNetwork):
    vocabulary_rows = ("embed.table", *(f"generate.{name}" for name in GeneratorHead.vocabulary_rows))

    def __init__(self, config, outputs, words):
        super().__init__()
        self.limit = config.max_answer_tokens
        self.embed = WordEmbedding(words, config.train_embeddings)
        self.encoder = BiLSTM(words.dimension, 16, 0.0)
        self.generate = GeneratorHead(16, words)

    def represent(self, batch):
        return self.encoder(self.embed(batch, "context"), batch.lengths["context"])[0]

    def losses(self, batch):
        return self.generate.losses(
            self.represent(batch), batch.word_numbers("answer"), batch.lengths["context"]
        )

    def answers(self, batch, limit=None, beam=1):
        x = self.represent(batch)
        return self.generate.answers(x, batch.lengths["context"], limit or self.limit, beam)


FAMILY = Family(
    config=Config,
    columns={"context": "words", "answer": "words"},
    outputs=(Text, Label),
    encode=encode,
    build=Sequence,
    abilities=frozenset({"beam", "max_new_tokens"}),
)


def test_words_are_scored_in_full_precision(head):
    """In bfloat16 the scores of 5,000 words tie."""
    state = head.start(torch.randn(2, 4, 5), LENGTHS)
    with torch.autocast("cpu", torch.bfloat16):
        scores = state.advance(ANSWERS[:, 0])
    assert scores.dtype == torch.float32 and not torch.equal(scores, scores.bfloat16().float())


@pytest.fixture
def head():
    torch.manual_seed(0)
    made = GeneratorHead(5, WordTable(Lexicon([" a ", " b ", " c "]), NoVectors(3)))
    for parameter in made.parameters():
        torch.nn.init.normal_(parameter)
    return made


@pytest.fixture
def x():
    return torch.randn(2, 4, 5, generator=torch.manual_seed(1))


def test_its_loss_is_that_of_its_steps(head, x):
    value, count = head.losses(x, ANSWERS, LENGTHS)["words"]
    expected, past = 0.0, head.start(x, LENGTHS)
    for step in range(3):
        p = past.step(ANSWERS[:, step])
        for row, word in enumerate(ANSWERS[:, step + 1].tolist()):
            expected -= p[row, word].log().item() if word != PAD else 0.0
    assert count == 5
    assert value.item() == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize("beam", [1, 3])
def test_answers_are_words_within_the_limit(head, x, beam):
    alone = [head.answers(x[row : row + 1], LENGTHS[row : row + 1], 4, beam)[0] for row in range(2)]
    replies = head.answers(x, LENGTHS, 4, beam)
    assert [reply.text for reply in replies] == [reply.text for reply in alone]
    for reply, read in zip(replies, LENGTHS.tolist(), strict=True):
        assert set(reply.text.split()) <= {"a", "b", "c"}
        assert reply.read == read and reply.said <= 4
        assert reply.finished or reply.said == 4


def test_a_family_learns_by_heart_and_resumes_to_the_same_weights(make_run):  # noqa: F811
    settings = {"model": Config(), "tasks": ("sst",), "rate": "constant", "learning_rate": 0.01}
    settings |= {"checkpoint_every": 100, "validate_every": 100, "best_by": "last"}
    whole, parts = (make_run(name, steps=100, **settings) for name in ("whole", "parts"))
    run_training(whole)
    run_training(make_run("parts", steps=37, **settings))
    run_training(make_run("parts", steps=100, resume=True, **settings))
    assert same(weights(whole.output), weights(parts.output))
    examples = list(whole.store.examples("sst", "train"))[: TINY.train_examples]
    replies = Checkpoint.open(parts.output).load("cpu").answer(whole.tasks["sst"], examples, beam=2)
    assert [reply.text for reply in replies] == [example.answers[0] for example in examples]
