import itertools
from dataclasses import replace

import pytest

torch = pytest.importorskip("torch")


from decabench.errors import DataError
from decabench.models.batches import TextReader
from decabench.models.heads import (
    CRF,
    TARGETS,
    ClassifierHead,
    ParserHead,
    RegressorHead,
    encode_target,
)
from decabench.tasks import TASKS, Label, Number, Tags, Tree
from decabench.vectors.tokenizer import Lexicon

LENGTHS = torch.tensor([4, 2, 1])


def states(*shape):
    torch.manual_seed(0)
    return torch.randn(*shape)


def reader(output):
    return TextReader(replace(TASKS["sst"], output=output, variants=()), Lexicon())


def enumerate_paths(crf, scores):
    """Return the score of each label sequence, summed from a sentence's scores, (T, C)."""
    length, labels = scores.shape
    for path in itertools.product(range(labels), repeat=length):
        total = crf.start[path[0]] + crf.end[path[-1]] + sum(scores[t, path[t]] for t in range(length))
        yield path, total + sum(crf.transitions[one, two] for one, two in itertools.pairwise(path))


@pytest.fixture
def crf():
    torch.manual_seed(3)
    made = CRF(3)
    for parameter in made.parameters():
        torch.nn.init.normal_(parameter)
    return made


def test_a_crf_is_the_softmax_over_all_sequences(crf):
    scores, labels = states(3, 4, 3), torch.tensor([[0, 2, 1, 1], [2, 2, 0, 0], [1, 0, 0, 0]])
    mask = torch.arange(4) < LENGTHS[:, None]
    found = crf.log_likelihood(scores, labels, mask)
    for row, length in enumerate(LENGTHS.tolist()):
        paths = dict(enumerate_paths(crf, scores[row, :length]))
        expected = paths[tuple(labels[row, :length].tolist())] - torch.stack(list(paths.values())).logsumexp(
            0
        )
        torch.testing.assert_close(found[row], expected)


def test_a_crf_finds_the_likeliest_sequence(crf):
    scores = states(3, 4, 3)
    mask = torch.arange(4) < LENGTHS[:, None]
    found = crf.decode(scores, mask)
    for row, length in enumerate(LENGTHS.tolist()):
        paths = enumerate_paths(crf, scores[row, :length])
        best, _ = max(paths, key=lambda pair: pair[1].item())
        assert tuple(found[row, :length].tolist()) == best


def test_an_example_without_tokens_counts_for_nothing(crf):
    scores, mask = states(2, 3, 3), torch.tensor([[True] * 3, [False] * 3])
    labels = torch.zeros(2, 3, dtype=torch.int64)
    found = crf.log_likelihood(scores, labels, mask)
    assert found[1] == 0
    found.sum().backward()
    assert all(parameter.grad.isfinite().all() for parameter in crf.parameters())


def test_classes():
    head, x = ClassifierHead(5, Label(names=("no", "yes"))), states(3, 5)
    value, count = head.losses(x, {"label": torch.tensor([[1], [0], [1]])}, LENGTHS)["label"]
    log_p = head.score(x).log_softmax(-1)
    torch.testing.assert_close(value, -(log_p[0, 1] + log_p[1, 0] + log_p[2, 1]))
    assert count == 3
    assert head.answers(x, LENGTHS) == [("no", "yes")[int(row.argmax())] for row in log_p]


def test_numbers_stay_on_their_scale():
    head, x = RegressorHead(5, Number(low=1, high=5)), states(3, 5)
    target = torch.tensor([[1.0], [2.5], [5.0]])
    value, count = head.losses(x, {"number": target}, LENGTHS)["number"]
    torch.testing.assert_close(value, ((head.score(x) - target) ** 2).sum())
    assert count == 3
    with torch.no_grad():
        head.score.weight.zero_()
        for bias, text in ((9.0, "5.0000"), (-9.0, "1.0000"), (2.25, "2.2500")):
            head.score.bias.fill_(bias)
            assert head.answers(x, LENGTHS) == [text] * 3


def test_a_parser_learns_a_tree():
    torch.manual_seed(1)
    head, x = ParserHead(6, Tree(relations=("obj", "root"))), torch.randn(2, 3, 6)
    lengths = torch.tensor([3, 2])
    targets = {
        "heads": torch.tensor([[2, 0, 2], [0, 1, 0]]),
        "relations": torch.tensor([[0, 1, 0], [1, 0, 0]]),
    }
    optimizer = torch.optim.Adam(head.parameters(), 0.05)
    for _ in range(60):
        losses = head.losses(x, targets, lengths)
        assert {name: count for name, (_, count) in losses.items()} == {"head": 5, "relation": 5}
        optimizer.zero_grad()
        sum(value for value, _ in losses.values()).backward()
        optimizer.step()
    assert head.answers(x, lengths) == ["2:obj 0:root 2:obj", "0:root 1:obj"]


@pytest.mark.parametrize(
    ("output", "answer", "columns"),
    [
        (Label(names=("no", "yes")), "yes", {"label": [1]}),
        (Tags(names=("N", "V")), "V N V", {"tags": [1, 0, 1]}),
        (Tree(relations=("root", "obj")), "2:obj 0:root 2:obj", {"heads": [2, 0, 2], "relations": [1, 0, 1]}),
        (Number(low=0, high=5), "3.25", {"number": [3.25]}),
    ],
)
def test_answers_become_columns(output, answer, columns):
    found = encode_target(answer, output, reader(output), 3)
    assert {name: values.tolist() for name, values in found.items()} == columns
    assert found.keys() <= TARGETS.keys()


@pytest.mark.parametrize(
    ("output", "answer", "words"),
    [
        (Label(names=("no", "yes")), "maybe", "but its labels are no, yes"),
        (Tags(names=("N", "V")), "V N", "tags in the answer 'V N' is 2 instead of 3"),
        (Tree(relations=("root",)), "0:root", "heads in the answer '0:root' is 1 instead of 3"),
        (Tree(relations=("root",)), "9:root 0:root 1:root", "not a number from 0 to 3"),
        (Tree(relations=("root",)), "x:root 0:root 1:root", "not a number from 0 to 3"),
        (Tree(relations=("root",)), "2:root 2:root 0:root", "token 2 is its own head"),
        (Tree(relations=("root",)), f"{'1' * 5000}:root 0:root 1:root", "not a number from 0 to 3"),
        (Number(low=0, high=5), "many", "should be a number"),
        (Number(low=0, high=5), "nan", "should be a number"),
        (Number(low=0, high=5), "-inf", "should be a number"),
    ],
)
def test_answers_that_do_not_fit_are_refused(output, answer, words):
    with pytest.raises(DataError, match=words):
        encode_target(answer, output, reader(output), 3)
