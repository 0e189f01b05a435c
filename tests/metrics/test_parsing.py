"""Attachment scores of trees, and malformed tags and trees."""

import random

import pytest
import sklearn.metrics

from decabench.metrics import ItemFaults, count_faults, parsing_ud, uas_las
from decabench.metrics.base import MetricError

GOLD = "2:nsubj 0:root 4:det 2:obj 2:punct"


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
    """Part-of-speech tags decide what is punctuation, not relations: a symbol with `punct` counts."""
    gold, tags = "2:punct 0:root 2:goeswith", "SYM VERB PUNCT"
    assert float(uas_las(["1:punct 0:root 1:x"], [gold], tags=[tags])) == 50
    assert float(uas_las(["1:punct 0:root 1:x"], [gold])) == 50
    assert float(uas_las(["2:punct 0:root 1:x"], [gold], tags=[tags])) == 100


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


RELATIONS = "nsubj obj nmod nmod:poss det case punct aux:pass aux flat conj dep acl:relcl mark cc".split()


def draw_tree(source, length):
    """Return a random (head, relation) for each word. No word is its own ancestor, as the evaluator requires."""
    order = list(range(1, length + 1))
    source.shuffle(order)
    heads = {order[0]: 0} | {node: source.choice(order[:at]) for at, node in enumerate(order) if at}
    return [
        (heads[word], "root" if heads[word] == 0 else source.choice(RELATIONS))
        for word in range(1, length + 1)
    ]


def draw_parses(seed):
    """Return gold trees and predictions. 30% of the predictions have other heads, and the rest other relations."""
    source = random.Random(seed)
    gold = [draw_tree(source, source.randint(1, 15)) for _ in range(40)]
    predicted = []
    for tree in gold:
        if source.random() < 0.3:
            predicted.append(draw_tree(source, len(tree)))
        else:
            predicted.append(
                [
                    (head, name if head == 0 or source.random() < 0.7 else source.choice(RELATIONS))
                    for head, name in tree
                ]
            )
    return [
        [" ".join(f"{head}:{name}" for head, name in tree) for tree in side] for side in (predicted, gold)
    ]


OFFICIAL = {
    0: (74.23822714681441, 55.95567867036011, 58.3732057416268),
    1: (72.72727272727273, 54.54545454545454, 56.76392572944297),
    2: (81.08108108108108, 60.06006006006006, 61.979166666666664),
    3: (71.8543046357616, 51.65562913907284, 51.49700598802395),
    4: (79.80132450331125, 55.29801324503312, 54.49101796407185),
}
"""UAS, LAS and CLAS by the CoNLL-18 evaluator (udtools 0.2.9) on these parses, by seed."""


@pytest.mark.parametrize("seed", OFFICIAL)
def test_agrees_with_the_conll_18_evaluator(seed):
    details = parsing_ud(*draw_parses(seed)).details
    found = tuple(details[name] for name in ("uas_ud", "las_ud", "clas_ud"))
    assert found == pytest.approx(OFFICIAL[seed], abs=1e-9)


@pytest.mark.parametrize(
    ("prediction", "scores"),  # las_ud, uas_ud, clas_ud
    [
        (GOLD, (100, 100, 100)),
        ("2:NSUBJ:pass 0:root 4:det 2:obj 2:punct", (100, 100, 100)),  # neither case nor subtypes count
        ("2:nsubj 0:root 4:det 2:obj 1:punct", (80, 80, 100)),
        ("2:nsubj 0:root 4:case 2:obj 2:punct", (80, 100, 100)),  # a function word is no content
        ("2:nsubj 0:root 4:nmod 2:obj 2:punct", (80, 100, 600 / 7)),  # 3 of 4 predicted, 3 of 3 gold
        ("2:nsubj 0:root", (40, 40, 80)),
        (GOLD + " 9:obj 1:x", (100, 100, 100)),
        ("_ 0:root _ 2:obj 2:punct", (60, 60, 80)),
        ("2 0 4 2 2", (0, 0, 0)),
        ("99999999999999999999:nsubj ²:root 4:det", (20, 20, 0)),
        ("", (0, 0, 0)),
    ],
)
def test_las_uas_and_clas(prediction, scores):
    details = parsing_ud([prediction], [GOLD]).details
    found = tuple(details[name] for name in ("las_ud", "uas_ud", "clas_ud"))
    assert found == pytest.approx(scores)


@pytest.mark.parametrize(
    ("tags", "uas", "las"),
    [
        (None, 75, 50),  # the relation says what is punctuation
        ("NOUN VERB DET NOUN PUNCT", 75, 50),
        (["NN", "VBD", "DT", "NN", "."], 75, 50),
        ("NOUN VERB PUNCT NOUN SYM", 75, 75),  # the tags do
        ("`` VBD , NN ''", 100, 100),  # the first, third and last word are left out
    ],
)
def test_punctuation_is_what_its_tags_say(tags, uas, las):
    prediction = "3:nsubj 0:root 4:case 2:obj 2:punct"
    details = parsing_ud([prediction], [GOLD], tags=None if tags is None else [tags]).details
    assert details["las_ud"] == 60
    assert (details["uas_without_punctuation"], details["las_without_punctuation"]) == (uas, las)


@pytest.mark.parametrize(
    ("gold", "tags", "message"),
    [("x:y", None, "got 'x:y'"), ("1", None, "got '1'"), ("0:root", ["A B"], "has 2 instead of 1")],
)
def test_gold_that_cannot_be_read(gold, tags, message):
    with pytest.raises(MetricError, match=message):
        parsing_ud(["0:root"], [gold], tags=tags)


@pytest.mark.parametrize(
    ("prediction", "faults"),  # missing, extra, unknown, outside
    [
        ("dt nn vb", (0, 0, 0, 0)),
        ("DT XX VB", (0, 0, 1, 0)),
        ("DT _ VB", (1, 0, 0, 0)),
        ("NN NN", (1, 0, 0, 0)),
        ("DT NN VB VB ?", (0, 2, 0, 0)),
        ("", (3, 0, 0, 0)),
    ],
)
def test_faults_of_tags_are_counted_apart_from_wrong_tags(prediction, faults):
    assert count_faults(prediction, "DT NN VB", {"dt", "nn", "vb"}) == ItemFaults(*faults)


def test_a_gold_tag_may_be_what_missing_ones_look_like():
    assert count_faults("_ NN", "_ NN", {"_", "nn"}) == ItemFaults(0, 0, 0, 0)


@pytest.mark.parametrize(
    ("prediction", "faults"),
    [
        ("3:a 5:b 0:root", (0, 0, 0, 1)),
        ("4:a 1:b 0:root 9:x", (0, 1, 0, 1)),
        ("a 1: _", (1, 0, 2, 0)),
        ("-1:a 1:b", (1, 0, 1, 0)),
    ],
)
def test_faults_of_trees_are_counted_apart_from_wrong_heads(prediction, faults):
    assert count_faults(prediction, "2:det 3:nsubj 0:root", None) == ItemFaults(*faults)
