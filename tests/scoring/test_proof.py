"""Proving tasks: the ten tasks pass, and broken tasks fail."""

from dataclasses import replace

import pytest

from decabench.errors import MetricError
from decabench.scoring.proof import prove_task
from decabench.tasks import DECATHLON, TASKS, Label, Number, Tags, Text, Tree
from decabench.tasks.example import Example
from decabench.tasks.store import SplitRecord, Store


def example(number, answer, **changes):
    fields = {"question": "What?", "context": "This.", "units": ("g",), **changes}
    return Example(id=f"x_g_{number}", answers=(answer,), **fields)


SOUND = [example(number, f"answer {number}") for number in range(5)]


@pytest.fixture
def failing(tmp_path):
    """Return the names of the failed checks."""

    def names(examples, **changes):
        store, task = (
            Store(tmp_path),
            replace(
                TASKS["sst"],
                **{
                    "name": "broken",
                    "metric": "em",
                    "output": Text(),
                    "prompt": None,
                    "variants": (),
                    "counts": {},
                    **changes,
                },
            ),
        )
        rows, fingerprint, _ = store.write("broken", "validation", examples)
        record = SplitRecord(rows, fingerprint, "user", "here", False, (), 1)
        store.write_records(task, {"validation": record})
        return {check.name for check in prove_task(task, "validation", store) if not check.passed}

    return names


@pytest.mark.parametrize("name", DECATHLON.tasks)
def test_the_ten_are_proven(home, name):
    checks = prove_task(TASKS[name], "validation", Store(home))
    assert [check for check in checks if not check.passed] == []
    has_structure = name in ("sst", "multinli.in.out", "schema", "woz.en", "wikisql")
    assert len({check.name for check in checks}) == (7 if has_structure else 6)


def test_a_sound_task(failing):
    assert failing(SOUND) == set()


@pytest.mark.parametrize(
    ("example_0", "changes", "failed"),
    [
        (example(0, "u", context=" "), {}, {"every example has text"}),
        (example(0, "u", question=" "), {"question_varies": True}, {"every example has text"}),
        (example(0, "u", question="Who?"), {}, {"question_varies is set if questions vary"}),
        (example(0, " "), {"metric": "nf1"}, {"every example has text", "gold answers score 100"}),
        (example(0, "the"), {"metric": "nf1"}, {"gold answers score 100"}),
    ],
)
def test_a_broken_example(failing, example_0, changes, failed):
    assert failing([example_0, *SOUND[1:]], **changes) == failed


def test_answers_that_are_all_the_same_prove_nothing(failing):
    assert failing([example(number, "u") for number in range(5)]) == {"shuffled answers score below gold"}


def test_a_metric_that_needs_what_the_task_has_not(failing):
    with pytest.raises(MetricError, match="requires meta"):
        failing(SOUND, metric="lfem")


def test_a_gold_score_of_its_own(failing):
    """If gold answers don't get full marks from the official scorer, they must from the corrected score."""
    assert failing([example(0, "the"), *SOUND[1:]], metric="nf1", gold_score="em") == set()


def test_a_small_task_without_contexts_whose_error_is_to_be_low(failing):
    """Shuffling two answers may change nothing, errors are best at 0, and a task may have no contexts."""
    small = [Example(str(number), "How many?", "", (str(number),), (str(number),)) for number in range(2)]
    assert failing(small, metric="mse") == set()
    assert failing(small) == set()


def test_some_contexts_and_some_none_do_not_render(failing):
    one = Example("odd", "How many?", "", ("odd",), ("odd",))
    assert failing([one, *SOUND], question_varies=True) == {"every example has text"}


READ = "gold answers stay the same when read and written"
SHUFFLED = "shuffled answers score below gold"
TAGS, IOBES = Tags(), Tags("IOBES")
STATES = {"metric": "joint_goal_em"}
QUERIES = {"metric": "lfem", "gold_score": "lfem_corrected"}
TABLE = {"header": ["a", "b", "where"]}


def examples_of(*answers, **changes):
    words = {"context": " ".join("w" * len(answers[0].split()))}
    return [example(number, answer, **{**words, **changes}) for number, answer in enumerate(answers)]


def query(number, answer, sql):
    return example(number, answer, meta={**TABLE, "sql": sql})


SELECT = [
    query(number, f"SELECT a FROM table WHERE b = {number}", {"sel": 0, "agg": 0, "conds": [[1, 0, number]]})
    for number in range(4)
]
MISREAD = query(9, "SELECT where FROM table WHERE b = 1", {"sel": 2, "agg": 0, "conds": [[1, 0, 1]]})


@pytest.mark.parametrize(
    ("examples", "changes", "failed"),
    [
        (examples_of("yes", "no", "yes"), {"output": Label(("yes", "no")), "metric": "accuracy"}, set()),
        (examples_of("yes", "no", "yes"), {"output": Label(("yes", "no")), "metric": "mcc"}, set()),
        (examples_of("yes", "maybe"), {"output": Label(("yes", "no"))}, {READ}),
        (examples_of("US", "us", "UK"), {"output": Label(), "metric": "accuracy"}, {READ}),
        (examples_of("1", "2.5", "5"), {"output": Number(1, 5), "metric": "mse"}, set()),
        (examples_of("1", "2.5", "5"), {"output": Number(1, 5), "metric": "pearson"}, set()),
        (examples_of("1", "2,5"), {"output": Number(1, 5), "metric": "pearson"}, {READ}),
        (examples_of("N V", "V V", "N N"), {"output": TAGS, "metric": "tag_accuracy"}, set()),
        (examples_of("N V", "n V"), {"output": TAGS, "metric": "tag_accuracy"}, {READ}),
        (examples_of("B-X E-X O", "O S-X O"), {"output": IOBES, "metric": "sequence_f1"}, set()),
        (examples_of("B-X E-X S-Y", "O S-X O"), {"output": IOBES, "metric": "sequence_f1"}, set()),
        (examples_of("B-X L-X O", "O U-X O"), {"output": IOBES, "metric": "sequence_f1"}, {READ}),
        (examples_of("B-X O", "O B-X"), {"output": Text(), "metric": "sequence_f1"}, set()),
        (examples_of("2:a:x 0:b", "0:b 1:c"), {"output": Tree(), "metric": "parsing"}, set()),
        (examples_of("2:a 1:b", "0:b 1:c"), {"output": Tree(), "metric": "parsing"}, {READ}),
        (examples_of("None", "at: 17.30;", "at: 8, food: thai; phone"), STATES, set()),
        (examples_of("None", "at: 17.30;", "at: 8;"), {"metric": "dialogue_f1"}, set()),
        (examples_of("None", "at: 17:30;", "at: 8;"), STATES, {READ}),
        (
            examples_of("at: the house on the hill by the lake;", "at: 8;"),
            STATES,
            {READ},
        ),  # for a language model
        (examples_of("None", "at: 8;", "at: 8; phone"), STATES, {SHUFFLED}),
        (SELECT, QUERIES, set()),
        ([*SELECT, MISREAD], QUERIES, {READ}),
        ([*SELECT, MISREAD], {**QUERIES, "gold_score": ""}, {READ}),
        ([replace(SELECT[at % 4], id=f"x_{at}") for at in range(1_000)] + [MISREAD], QUERIES, set()),
    ],
)
def test_structured_answers(failing, examples, changes, failed):
    assert failing(examples, **changes) == failed
