"""The metric classes."""

import random
from collections import Counter, defaultdict

import numpy as np
import pytest
import sklearn.metrics

from decabench.metrics import (
    METRICS,
    MetricError,
    accuracy,
    confusions,
    items,
    macro_f1,
    mcc,
    tag_accuracy,
    tag_macro_f1,
)
from tests.sources import SHARED

HIEN = SHARED / "mirror" / "hien.pos"

LABELS = ["negative", "positive", "very negative", "neutral", "rare"]


def draw(seed, size=300, predicted=LABELS):
    """Return (predicted, gold). Half of the predictions are right, and the others are random."""
    source = random.Random(seed)
    gold = source.choices(LABELS, weights=[5, 3, 2, 2, 0.1], k=size)
    return [label if source.random() < 0.5 else source.choice(predicted) for label in gold], gold


def official_f1(predicted, gold, average):
    """Return scikit-learn's F1 over the gold labels."""
    found = sklearn.metrics.f1_score(
        gold, predicted, labels=sorted(set(gold)), average=average, zero_division=0
    )
    return 100 * found


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("size", [6, 30, 300])
def test_labels_agree_with_scikit_learn(seed, size):
    predicted, gold = draw(seed, size)
    details = macro_f1(predicted, gold).details
    assert details["macro_f1"] == pytest.approx(official_f1(predicted, gold, "macro"), abs=1e-9)
    assert details["weighted_f1"] == pytest.approx(official_f1(predicted, gold, "weighted"), abs=1e-9)
    assert details["accuracy"] == float(accuracy(predicted, gold))
    known = [label if label in gold else "other" for label in predicted]
    wanted = 100 * sklearn.metrics.matthews_corrcoef(gold, known)
    assert float(mcc(predicted, gold)) == pytest.approx(wanted, abs=1e-9)


@pytest.mark.parametrize("seed", range(4))
def test_predictions_of_no_class_count_against_the_gold_ones_alone(seed):
    predicted, gold = draw(seed, predicted=[*LABELS, "I cannot say", ""])
    assert float(macro_f1(predicted, gold)) == pytest.approx(official_f1(predicted, gold, "macro"), abs=1e-9)
    known = [label if label in gold else "other" for label in predicted]
    wanted = 100 * sklearn.metrics.matthews_corrcoef(gold, known)
    assert float(mcc(predicted, gold)) == pytest.approx(wanted, abs=1e-9)


@pytest.mark.parametrize("name", ["macro_f1", "mcc"])
def test_resamples_agree_with_scikit_learn(name):
    predicted, gold = draw(9, 60)
    references = items(gold)
    metric = METRICS[name].for_data(references)
    rows = np.asarray(metric.statistics(predicted, references))
    counts = np.random.default_rng(0).multinomial(60, [1 / 60] * 60, 40)
    found = metric.score(dict(zip(metric.columns, (counts @ rows).T, strict=True)))[name]
    for score, drawn in zip(found, counts, strict=True):
        ours, theirs = ([side[at] for at in np.repeat(np.arange(60), drawn)] for side in (predicted, gold))
        known = [label if label in theirs else "other" for label in ours]
        if name == "mcc" and known == ours:  # else the label is a class of the data, but not of the resample
            wanted = 100 * sklearn.metrics.matthews_corrcoef(theirs, ours)
            assert score == pytest.approx(wanted, abs=1e-9)
        elif name == "macro_f1":
            assert score == pytest.approx(official_f1(ours, theirs, "macro"), abs=1e-9)


@pytest.mark.parametrize(
    ("predictions", "references", "macro", "correlation"),
    [
        (["a", "b"], ["a", "b"], 100, 100),
        (["b", "a"], ["a", "b"], 0, -100),
        (["a", "a"], ["a", "b"], 100 / 3, 0),  # no spread
        (["", ""], ["a", "b"], 0, 0),
        (["x", "x"], ["x", "x"], 100, 0),
        ([" B  C", "a"], ["b c", ["d", "A"]], 200 / 3, 100),  # d is a class that never occurs as gold
    ],
)
def test_known_examples(predictions, references, macro, correlation):
    found = macro_f1(predictions, references).details
    occurring = 100 if macro == pytest.approx(200 / 3) else macro
    assert (found["macro_f1"], found["mcc"]) == pytest.approx((occurring, correlation))


@pytest.mark.parametrize("seed", range(5))
def test_tags_agree_with_scikit_learn(seed):
    source = random.Random(seed)
    gold = [source.choices(["N", "V", "G_X", "_"], [5, 3, 1, 0.1], k=source.randint(1, 9)) for _ in range(50)]
    predicted = [
        [tag if source.random() < 0.6 else source.choice(["N", "V", "G_X", "?"]) for tag in tags]
        for tags in gold
    ]
    texts = [[" ".join(tags) for tags in side] for side in (predicted, gold)]
    details = tag_macro_f1(*texts).details
    ours, theirs = ([tag for tags in side for tag in tags] for side in (predicted, gold))
    assert details["tag_macro_f1"] == pytest.approx(official_f1(ours, theirs, "macro"), abs=1e-9)
    assert details["tag_weighted_f1"] == pytest.approx(official_f1(ours, theirs, "weighted"), abs=1e-9)
    assert details["tag_accuracy"] == float(tag_accuracy(*texts))
    assert details["tags_unknown"] == pytest.approx(100 * ours.count("?") / len(theirs))


def read_blocks(path):
    """Return the (word, tag) pairs of each sentence in a file, with words lower-cased as in GIRNet's code."""
    blocks, block = [], []
    for line in path.read_text(encoding="utf-8").split("\n"):
        if fields := line.split():
            block.append((fields[0].lower(), fields[-1]))
        elif block:
            blocks.append(block)
            block = []
    return blocks


@pytest.mark.mirror
@pytest.mark.skipif(not HIEN.is_dir(), reason=f"no {HIEN} (set DECABENCH_SHARED)")
def test_the_most_frequent_tag_of_each_word_on_code_switched_text():
    """On the code-switching paper's data: accuracy 68.1, macro F1 55.6 and weighted F1 67.4."""
    train, test = [], []
    for name in ("FB", "TWT", "WA"):
        blocks = read_blocks(HIEN / f"{name}_HI_EN_CR.txt")
        cut = int(0.8 * len(blocks))
        train += blocks[:cut]
        test += blocks[cut:]
    assert (len(train), len(test)) == (2_103, 528)  # GIRNet's code drops a sentence of train
    tags = defaultdict(Counter)
    for word, tag in (pair for block in train for pair in block):
        tags[word][tag] += 1
    commonest = Counter(tag for _, tag in (pair for block in train for pair in block)).most_common(1)[0][0]
    best = {word: counts.most_common(1)[0][0] for word, counts in tags.items()}
    predicted = [" ".join(best.get(word, commonest) for word, _ in block) for block in test]
    details = tag_macro_f1(predicted, [" ".join(tag for _, tag in block) for block in test]).details
    found = [details[name] for name in ("tag_accuracy", "tag_macro_f1", "tag_weighted_f1")]
    assert found == pytest.approx([68.1, 55.6, 67.4], abs=0.05)


def test_confusions_are_scikit_learn_s_and_add_up():
    predicted, gold = draw(3, predicted=[*LABELS, "huh"])
    references = items(gold)
    counts = confusions(predicted, references)
    names = sorted({*predicted, *gold})
    table = sklearn.metrics.confusion_matrix(gold, predicted, labels=names)
    assert [[counts[theirs, ours] for ours in names] for theirs in names] == table.tolist()
    parts = confusions(predicted[:99], references[:99]) + confusions(predicted[99:], references[99:])
    assert parts == counts


def test_confusions_of_tags():
    counts = confusions(["DT _ X X", ""], items(["DT NN VB", "nn"]), tags=True)
    assert counts == {("dt", "dt"): 1, ("nn", "_"): 2, ("vb", "x"): 1}


def test_1000_classes_are_scored():
    labels = [f"label{number}" for number in range(1_000)]
    assert float(macro_f1(labels, labels)) == 100


@pytest.mark.parametrize(
    ("metric", "kind", "instead"),
    [(macro_f1, "labels", "accuracy"), (mcc, "labels", "accuracy"), (tag_macro_f1, "tags", "tag_accuracy")],
)
def test_too_many_classes_are_refused_before_rows_are_made(metric, kind, instead):
    """Rows have a column for each class. Before, 2,000 labels took 475 MB."""
    gold = [f"label{number}" for number in range(1_001)]
    with pytest.raises(MetricError, match=rf"1,001 different {kind}.*at most 1,000. Use {instead} instead"):
        metric(gold, gold)
