"""The predictor in this process: how it is asked, and whose fault what goes wrong is."""

from contextlib import contextmanager

import pytest

from decabench.engines import EngineOptions, make_engine
from decabench.engines.local import LocalEngine, outcomes_of
from decabench.errors import DecabenchError, UnknownNameError
from decabench.predictor import Answer, Failure, Question, Setting
from decabench.tasks import TASKS

SETTING = Setting(TASKS["sst"], "validation", lambda: iter(()), dict)


def questions(count):
    return [Question(f"q{number}", "What?", "This.") for number in range(count)]


class Echo:
    """Answers with ids, fails on what it is told to, and remembers the sizes of its batches."""

    def __init__(self, fails=()):
        self.fails = fails
        self.sizes = []

    def predict(self, batch):
        self.sizes.append(len(batch))
        for question in batch:
            if question.id in self.fails:
                raise ZeroDivisionError(f"by nought at {question.id}")
        return [question.id for question in batch]


def ask(predictor, count, batch_size=4):
    return list(outcomes_of(lambda setting: predictor, SETTING, iter(questions(count)), batch_size))


@pytest.mark.parametrize(
    ("count", "size", "sizes"), [(0, 4, []), (3, 4, [3]), (8, 4, [4, 4]), (9, 4, [4, 4, 1]), (2, 1, [1, 1])]
)
def test_batches(count, size, sizes):
    echo = Echo()
    assert ask(echo, count, size) == [(f"q{number}", Answer(f"q{number}")) for number in range(count)]
    assert echo.sizes == sizes


def test_one_failing_example_costs_no_other():
    echo = Echo(fails=("q5",))
    found = dict(ask(echo, 8))
    assert found.pop("q5") == Failure("ZeroDivisionError: by nought at q5")
    assert found == {id: Answer(id) for id in found} and len(found) == 7
    assert echo.sizes == [4, 4, 1, 1, 1, 1]


def test_outcomes_are_taken_as_they_are():
    class Careful:
        def predict(self, batch):
            return ["text", Answer("cut", "length", (0, 3), 7, 1), Failure("too long")]

    assert [outcome for _, outcome in ask(Careful(), 3)] == [
        Answer("text"),
        Answer("cut", "length", (0, 3), 7, 1),
        Failure("too long"),
    ]


def test_outcomes_come_before_the_next_batch_is_asked():
    echo = Echo()
    stream = outcomes_of(lambda setting: echo, SETTING, questions(8), 4)
    for _ in range(4):
        next(stream)
    assert echo.sizes == [4]


def test_a_streaming_predictor_gets_all_questions_and_chooses_the_order():
    class Backwards:
        def stream(self, asked):
            for question in reversed(list(asked)):
                yield question.id, Answer("x")

    assert [id for id, _ in ask(Backwards(), 5, batch_size=2)] == ["q4", "q3", "q2", "q1", "q0"]


class Returns:
    def __init__(self, answers):
        self.answers = answers

    def predict(self, batch):
        return self.answers


@pytest.mark.parametrize(
    ("answers", "sentence"),
    [
        (["x"], "2 questions of sst and must return as many texts"),
        (["x"] * 3, "must return as many texts"),
        ("xx", "must return as many texts"),
        (None, "must return as many texts"),
        ([1, 2], "returned 1 for a question of sst: an answer is a text"),
    ],
)
def test_breaches_of_the_protocol_are_not_about_one_example(answers, sentence):
    with pytest.raises(DecabenchError, match=sentence):
        ask(Returns(answers), 2)


def test_what_is_no_predictor():
    with pytest.raises(UnknownNameError, match="needs a method"):
        ask(3, 1)


def test_a_factory_that_fails_is_blamed():
    def factory(setting):
        raise OSError("no weights")

    with pytest.raises(
        DecabenchError, match=r"failed on sst before its first question \(OSError: no weights\)"
    ):
        list(outcomes_of(factory, SETTING, questions(1), 4))


class Backend:
    """Counts how often it is opened and closed."""

    prompted = False

    def __init__(self):
        self.events = []

    def describe(self):
        return {}

    @contextmanager
    def open(self):
        self.events.append("open")
        yield lambda setting: Echo()
        self.events.append("closed")


def test_the_model_is_loaded_once_at_the_first_task():
    backend = Backend()
    with make_engine("local", EngineOptions(backend)) as engine:
        assert isinstance(engine, LocalEngine)
        assert backend.events == []
        assert len(list(engine.outcomes(SETTING, questions(3)))) == 3
        assert len(list(engine.outcomes(SETTING, questions(2)))) == 2
        assert backend.events == ["open"]
    assert backend.events == ["open", "closed"]
