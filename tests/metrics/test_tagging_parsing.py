import random

import pytest
import sklearn.metrics

from decabench.metrics import parsing_ud, uas_las
from decabench.metrics.base import MetricError

GOLD = "2:nsubj 0:root 4:det 2:obj 2:punct"


@pytest.mark.parametrize(
    ("prediction", "uas", "las"),
    [
        (GOLD, 100, 100),
        ("2:NSUBJ 0:root 4:det 2:obj 1:x", 100, 100),  # punctuation is not counted
        ("2:obj 0:root 4:det 2:obj", 100, 75),
        ("3:nsubj 0:root 4:det 2:obj", 75, 75),
        ("2:nsubj 0:root", 50, 50),  # missing tokens are wrong
        (GOLD + " 1:x 1:x", 100, 100),  # extra ones are passed over
        ("2 0 4 2", 0, 0),  # a head without a relation cannot be read
        ("nonsense", 0, 0),
        ("", 0, 0),
    ],
)
def test_uas_las(prediction, uas, las):
    score = uas_las([prediction], [GOLD])
    assert (score.details["uas"], score.details["las"]) == (uas, las)
    assert float(score) == las


@pytest.mark.parametrize("prediction", ["2:nmod:poss 0:root", "2:nmod 0:root", "02:nmod:of 0:root"])
def test_subtypes_do_not_count(prediction):
    assert float(uas_las([prediction], ["2:nmod:poss 0:root"])) == 100


@pytest.mark.parametrize(
    "prediction",
    [
        "2:nsubj:pass 0:root",
        "02:det 0:root:x 4:det 2:obj",
        "\u0662:nsubj 0: 4:det",
        f"{'9' * 12}:det 0:root _ 2:obj",
    ],
)
@pytest.mark.parametrize("tags", [None, ["NOUN VERB DET NOUN PUNCT"], [["NN", ",", "DT", "NN", "."]]])
def test_it_reads_a_parse_as_parsing_ud_does(prediction, tags):
    short, long = (score([prediction], [GOLD], tags=tags).details for score in (uas_las, parsing_ud))
    assert short["las"] == long["las_without_punctuation"]
    assert short["uas"] == long["uas_without_punctuation"]


def test_tags_decide_what_is_punctuation():
    """A symbol related as punct counts, and a full stop related otherwise does not."""
    gold, tags = "2:punct 0:root 2:goeswith", "SYM VERB PUNCT"
    assert float(uas_las(["1:punct 0:root 1:x"], [gold], tags=[tags])) == 50
    assert float(uas_las(["1:punct 0:root 1:x"], [gold])) == 50
    assert float(uas_las(["2:punct 0:root 1:x"], [gold], tags=[tags])) == 100


def test_a_gold_token_of_another_form():
    with pytest.raises(MetricError, match="given 'x:y'"):
        uas_las(["1:a"], ["x:y"])


@pytest.mark.parametrize("seed", range(5))
def test_agrees_with_scikit_learn_over_tokens_that_are_not_punctuation(seed):
    source = random.Random(seed)

    def parse(length):
        return [(str(source.randint(0, 3)), source.choice(["nsubj", "obj", "punct"])) for _ in range(length)]

    lengths = [source.randint(1, 12) for _ in range(40)]
    gold, predicted = ([parse(length) for length in lengths] for _ in range(2))
    texts = [[" ".join(map(":".join, sentence)) for sentence in side] for side in (predicted, gold)]
    pairs = [pair for sides in zip(predicted, gold, strict=True) for pair in zip(*sides, strict=True)]
    counted = [(ours, theirs) for ours, theirs in pairs if theirs[1] != "punct"]
    details = uas_las(*texts).details
    for name, of_token in (("uas", lambda token: token[0]), ("las", ":".join)):
        ours, theirs = ([of_token(token) for token in side] for side in zip(*counted, strict=True))
        assert details[name] == pytest.approx(100 * sklearn.metrics.accuracy_score(theirs, ours), abs=1e-9)
