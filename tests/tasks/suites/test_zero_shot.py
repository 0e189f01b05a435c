"""The zero-shot suite: the tasks of the paper's section 4.3 and others, without a total."""

from __future__ import annotations

from decabench.tasks import DECATHLON, SUITES, TASKS
from decabench.tasks.suites.zero_shot import ZERO_SHOT


def test_its_tasks() -> None:
    assert SUITES["zero-shot"] is ZERO_SHOT
    assert ZERO_SHOT.total == "none"
    assert not set(ZERO_SHOT.tasks) & set(DECATHLON.tasks)
    pairs = [name for name in ZERO_SHOT.tasks if name.startswith("iwslt.")]
    assert len(pairs) == 7
    assert {TASKS[name].metric for name in pairs} == {"bleu"}


def test_published_scores() -> None:
    scores = [dict(row.scores) for row in ZERO_SHOT.published]
    assert scores == [{"snli": 62.0, "sentences.amazon": 82.1, "sentences.yelp": 80.8}, {"snli": 87.0}]


def test_metrics_beside_the_headline() -> None:
    """Those that the field reports for translation and dialogue; the decathlon's own tasks stay as they are."""
    for name in ("multi30k.en.de", *(name for name in ZERO_SHOT.tasks if name.startswith("iwslt."))):
        assert {"chrf2", "chrf_plus_plus", "ter"} <= set(TASKS[name].secondary), name
    assert "dialogue_f1" in TASKS["woz.de"].secondary
    assert TASKS["sick.entailment"].secondary == TASKS["snli"].secondary == ("macro_f1", "mcc")
    assert TASKS["iwslt.en.de"].secondary == TASKS["woz.en"].secondary == ("nf1",)
