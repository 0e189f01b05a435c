"""What each baseline answers."""

from collections import Counter

import pytest

from decabench.errors import MissingDataError
from decabench.predictors.baselines import OracleSetting, first_option
from decabench.predictors.protocol import Setting
from decabench.predictors.schemes import PREDICTORS
from decabench.tasks.example import Question
from decabench.tasks.registry import TASKS


def answers(name, questions, training=(), gold=None, seed=0, task="sst"):
    setting = Setting(TASKS[task], "validation", lambda: iter(training), seed)
    if gold is not None:
        setting = OracleSetting(**vars(setting), gold_answers=lambda: gold)
    return list(PREDICTORS[name](setting).predict(questions))


def question(id="a", question="What?", context="Some words."):
    return Question(id, question, context)


@pytest.mark.parametrize(
    ("asked", "option"),
    [
        ("Is this review negative or positive?", "negative"),
        ('Hypothesis: "Rome fell." -- entailment, neutral, or contradiction?', "entailment"),
        ('Hypothesis: "Who are you? asked Dave" -- entailment, neutral, or contradiction?', "entailment"),
        ("Hypothesis: Now or never -- or not -- entailment, neutral, or contradiction?", "entailment"),
        ("Who is hurt? Bob or Charlie?", "Bob"),
        ("What was too small? the trophy or the suitcase?", "the trophy"),
        ("Why? -- said who? the man or his son?", "the man"),
        ("Does it run on petrol, diesel or steam?", "petrol"),
        ("What Carolina player was injured in the NFC Championship Game?", ""),
        ("What is the translation from English to SQL?", ""),
        ("Translate from English to German", ""),
        ("What is the summary?", ""),
        ("What is the change in state?", ""),
        ("what might be oxygenated?", ""),
        ("Which order was it, and when?", ""),
        ("", ""),
    ],
)
def test_first_option(asked, option):
    assert first_option(asked) == option
    assert answers("first-choice", [question(question=asked)]) == [option]


@pytest.mark.parametrize(
    ("training", "answer"),
    [
        (["b", "a", "a"], "a"),
        (["b", "a", "a", "b"], "b"),
        (["c", "a", "b"], "c"),
        (["", "", "a"], ""),
    ],
)
def test_majority(training, answer):
    assert answers("majority", [question("1"), question("2")], training) == [answer, answer]


@pytest.mark.parametrize("name", ["majority", "random"])
def test_without_training_answers(name):
    with pytest.raises(MissingDataError, match=f"{name} needs training answers, and sst has none"):
        answers(name, [question()])


def test_copy_context():
    assert answers("copy-context", [question(context=" As it\nis. ")]) == [" As it\nis. "]


@pytest.mark.parametrize(
    ("context", "answer"),
    [
        ("One. Two! Three? Four.", "One. Two! Three?"),
        ("One.  Two.\nThree.\n\nFour.", "One. Two. Three."),
        ("It cost 3.50 today. Two.", "It cost 3.50 today. Two."),
        (" no end at all ", "no end at all"),
        ("", ""),
    ],
)
def test_lead_3(context, answer):
    assert answers("lead-3", [question(context=context)]) == [answer]


def test_oracle_gives_the_first_reference():
    assert answers("oracle", [question("b"), question("a")], gold={"a": "1", "b": "2"}) == ["2", "1"]


TRAINING = [str(number) for number in range(50)]
MANY = [question(str(number)) for number in range(200)]


def test_random_depends_on_seed_task_and_id_alone():
    drawn = dict(zip(MANY, answers("random", MANY, TRAINING), strict=True))
    backwards = answers("random", MANY[::-1], TRAINING)
    assert backwards == [drawn[asked] for asked in MANY[::-1]]
    assert answers("random", MANY, TRAINING) == list(drawn.values())
    changed = [question(asked.id, "Another?", "Other words.") for asked in MANY]
    assert answers("random", changed, TRAINING) == list(drawn.values())
    assert answers("random", MANY, TRAINING, seed=1) != list(drawn.values())
    assert answers("random", MANY, TRAINING, task="schema") != list(drawn.values())


def test_random_draws_by_frequency():
    drawn = Counter(
        answers("random", [question(str(number)) for number in range(2_000)], ["a", "a", "a", "b"])
    )
    assert set(drawn) == {"a", "b"}
    assert 0.70 < drawn["a"] / 2_000 < 0.80


def test_names():
    assert list(PREDICTORS) == ["majority", "first-choice", "copy-context", "lead-3", "random", "oracle"]
