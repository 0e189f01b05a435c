import pytest

from decabench.metrics import uas_las
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
        ("2 0 4 2", 100, 0),
        ("nonsense", 0, 0),
        ("", 0, 0),
    ],
)
def test_uas_las(prediction, uas, las):
    score = uas_las([prediction], [GOLD])
    assert (score.details["uas"], score.details["las"]) == (uas, las)
    assert float(score) == las


def test_labels_with_a_colon():
    assert float(uas_las(["2:nmod:poss 0:root"], ["2:nmod:poss 0:root"])) == 100


def test_a_gold_token_of_another_form():
    with pytest.raises(MetricError, match="given 'x:y'"):
        uas_las(["1:a"], ["x:y"])
