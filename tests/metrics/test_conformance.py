"""All shared conformance cases: scores of the official scorers on real rows."""

import json
import os

import pytest

from decabench.metrics import (
    METRICS,
    accuracy,
    bleu,
    corpus_f1,
    items,
    joint_goal_em,
    lfem,
    mse,
    nf1,
    parsing_ud,
    pearson,
    relatedness,
    rouge_perl,
    rouge_score,
    score_rows,
    sequence_f1,
    spearman,
    tag_accuracy,
    uas_las,
)
from tests.sources import SHARED

CASES = SHARED / "conformance"

pytestmark = [
    pytest.mark.mirror,
    pytest.mark.skipif(not CASES.is_dir(), reason=f"no conformance cases in {CASES} (set DECABENCH_SHARED)"),
]


def expected(case):
    content = json.loads((CASES / f"{case}.expected.json").read_text())
    return content.get("expected", content)


def read(case):
    """Return (predictions, references, rows)."""
    lines = (CASES / f"{case}.jsonl").read_text(encoding="utf-8").strip().split("\n")
    rows = [json.loads(line) for line in lines]
    return [row["prediction"] for row in rows], [row["gold"] for row in rows], rows


def score_text(predictions, gold):
    return dict(nf1(predictions, gold).details)


def score_zre(predictions, gold):
    return score_text(predictions, gold) | corpus_f1(predictions, gold).details


def score_woz(predictions, gold):
    answers = [pair[0][1] for pair in gold]
    return score_text(predictions, answers) | joint_goal_em(predictions, gold).details


def score_wikisql(predictions, gold):
    answers = [reference[0]["answer"] for reference in gold]
    return score_text(predictions, answers) | lfem(predictions, gold).details


def score_iwslt(predictions, gold):
    details = bleu(predictions, gold).details
    return {"bleu_lowercase": details["bleu"], "bleu_cased": details["bleu_cased"]}


@pytest.mark.parametrize(
    ("case", "scores_of"),
    [
        ("srl", score_text),
        ("sst", score_text),
        ("schema", score_text),
        ("zre", score_zre),
        ("woz.en", score_woz),
        ("wikisql", score_wikisql),
        ("iwslt.en.de", score_iwslt),
    ],
)
def test_official_scores_to_1e_6(case, scores_of):
    predictions, gold, _ = read(case)
    scores = scores_of(predictions, gold)
    wanted = expected(case)
    assert {name: scores[name] for name in wanted} == pytest.approx(wanted, rel=0, abs=1e-6)


@pytest.mark.parametrize("case", ["squad.logistic-regression", "squad.r-net-plus-ensemble"])
def test_squad(case):
    # The official scorer walks over the data: ids that it has not are passed over, those left out score 0.
    data = json.loads((SHARED / "mirror" / "squad" / "dev-v1.1.json").read_text(encoding="utf-8"))["data"]
    questions = [
        entry for article in data for paragraph in article["paragraphs"] for entry in paragraph["qas"]
    ]
    answers = [[answer["text"] for answer in entry["answers"]] for entry in questions]
    given = json.loads((CASES / f"{case}.predictions.json").read_text(encoding="utf-8"))
    details = nf1([given.get(entry["id"], "") for entry in questions], answers).details
    wanted = expected(case)
    assert details["nem"] == pytest.approx(wanted["exact_match"], abs=1e-6)
    assert details["nf1"] == pytest.approx(wanted["f1"], abs=1e-6)


def test_chunks_of_conll_2000():
    predictions, gold, _ = read("conll2000.chunk")
    wanted = expected("conll2000.chunk")
    totals = map(sum, zip(*METRICS["sequence_f1"].statistics(predictions, items(gold)), strict=True))
    right, predicted, chunks, tokens, _ = totals
    assert (right, predicted, chunks) == (
        wanted["correct_chunks"],
        wanted["found_chunks"],
        wanted["gold_chunks"],
    )
    assert tokens == wanted["tokens"]
    details = sequence_f1(predictions, gold).details
    assert round(details["sequence_f1"], 2) == wanted["f1"]
    assert round(details["precision"], 2) == wanted["precision"]
    assert round(details["recall"], 2) == wanted["recall"]
    assert round(details["tag_accuracy"], 2) == wanted["accuracy"]


def test_relatedness_and_entailment_of_sick():
    predictions, gold, rows = read("sick.trial")
    labels = [[row[f"{side}_entailment"] for row in rows] for side in ("prediction", "gold")]
    scores = {"accuracy": float(accuracy(*labels))}
    scores |= {metric.name: float(metric(predictions, gold)) for metric in (pearson, spearman, mse)}
    wanted = expected("sick.trial")
    assert scores == pytest.approx({name: wanted[name] for name in scores}, rel=0, abs=1e-6)
    together = relatedness(predictions, gold).details
    assert {name: together[name] for name in ("pearson", "spearman", "mse")} == pytest.approx(
        {name: wanted[name] for name in ("pearson", "spearman", "mse")}, rel=0, abs=1e-6
    )


def test_parses_and_tags_of_ewt():
    predictions, gold, rows = read("ud_ewt.dev")
    tags = [row["gold_pos"] for row in rows]
    wanted = expected("ud_ewt.dev")
    details = uas_las(predictions, gold, tags=tags).details
    assert details["uas"] == pytest.approx(wanted["uas_without_punctuation"], abs=1e-6)
    assert details["las"] == pytest.approx(wanted["las_without_punctuation"], abs=1e-6)
    together = parsing_ud(predictions, gold, tags=tags).details
    names = ("uas_ud", "las_ud", "clas_ud", "uas_without_punctuation", "las_without_punctuation")
    assert {name: together[name] for name in names} == pytest.approx(
        {name: wanted[name] for name in names}, rel=0, abs=1e-6
    )
    predicted_tags = [row["prediction_pos"] for row in rows]
    assert float(tag_accuracy(predicted_tags, tags)) == pytest.approx(wanted["upos_ud"], abs=1e-6)


KINDS = ("rouge1", "rouge2", "rougeL")


def assert_rows_agree(metric, rows, official):
    """Check that each example's F equals Perl's output to all five decimals."""
    for kind in KINDS:
        column = metric.columns.index(f"{kind}_f")
        worst = max(abs(row[column] - value) for row, value in zip(rows, official[kind], strict=True))
        assert worst < 1e-9, f"{kind} differs by {worst}"


def assert_printed(scores, wanted):
    """Check the averages that Perl prints, to all five decimals."""
    for kind, value in zip(KINDS, wanted.values(), strict=False):
        assert round(scores.details[kind], 3) == pytest.approx(value, abs=1e-9)


def test_rouge_of_one_string_summaries():
    predictions, gold, lines = read("cnn_dailymail")
    official = {kind: [line[kind] for line in lines] for kind in KINDS}
    rows = METRICS["rouge"].statistics(predictions, items(gold))
    assert_rows_agree(METRICS["rouge"], rows, official)
    means = score_rows(METRICS["rouge"], rows).details
    assert all(means[kind] == pytest.approx(100 * sum(official[kind]) / len(lines)) for kind in KINDS)
    printed, wanted = rouge_perl(predictions, gold), expected("cnn_dailymail")
    assert_printed(printed, wanted)
    assert printed.details["rouge"] == pytest.approx(wanted["avg_rouge"], abs=0.001)


@pytest.fixture(scope="module")
def pointer_generator():
    parquet = pytest.importorskip("pyarrow.parquet")
    return parquet.read_table(CASES / "rouge155.pointer-gen-cov.parquet").to_pydict()


def test_rouge_of_11490_summaries(pointer_generator):
    # The table of See et al. 2017: 39.53 / 17.28 / 36.38.
    predictions, references = pointer_generator["prediction"], pointer_generator["reference"]
    rows = METRICS["rouge_lines"].statistics(predictions, items(references))
    assert_rows_agree(METRICS["rouge_lines"], rows, {kind: pointer_generator[f"{kind}_f"] for kind in KINDS})
    means = score_rows(METRICS["rouge_lines"], rows).details
    wanted = expected("rouge155.pointer-gen-cov").values()
    assert [means[kind] for kind in KINDS] == pytest.approx(list(wanted), abs=0.005)


@pytest.mark.heavy
def test_printed_rouge_of_11490_summaries(pointer_generator):
    printed = rouge_perl(pointer_generator["prediction"], pointer_generator["reference"], sentences="\n")
    assert_printed(printed, expected("rouge155.pointer-gen-cov"))


@pytest.mark.slow
@pytest.mark.skipif(
    "DECABENCH_SLOW" not in os.environ, reason="a minute of rouge-score: set DECABENCH_SLOW=1"
)
def test_rouge_score_of_11490_summaries(pointer_generator):
    # rouge-score 0.1.2 on the same files: 39.26 / 17.23 / 36.17
    details = rouge_score(pointer_generator["prediction"], pointer_generator["reference"]).details
    assert [round(details[kind], 2) for kind in KINDS] == [39.26, 17.23, 36.17]
