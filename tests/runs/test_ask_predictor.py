"""The predictor in this process: how it is asked, and whose fault what goes wrong is."""

from types import MappingProxyType

import pytest

from decabench.errors import DecabenchError
from decabench.predictors.protocol import Answer, Failure, Setting
from decabench.runs.ask import ask_predictor
from decabench.tasks.example import Question
from decabench.tasks.registry import TASKS

SETTING = Setting(TASKS["sst"], "validation", lambda: iter(()))


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
    return list(ask_predictor(lambda setting: predictor, SETTING, iter(questions(count)), batch_size))


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
        (["x"], "returned 1 answers for 2 questions of sst: return a list with one text for each"),
        (["x"] * 3, "returned 3 answers for 2 questions"),
        ("xx", "returned a str for 2 questions"),
        (b"xx", "returned a bytes"),
        (None, "returned None for 2 questions"),
        ({"q0": "x", "q1": "y"}, "returned a dict for 2 questions"),
        (MappingProxyType({"q0": "x", "q1": "y"}), "returned a mappingproxy"),
        ({"x", "y"}, "returned a set"),
        ({"q0": "x", "q1": "y"}.keys(), "returned a dict_keys"),
        ([1, 2], "returned 1 for a question of sst: an answer must be a text"),
    ],
)
def test_breaches_of_the_protocol_are_not_about_one_example(answers, sentence):
    with pytest.raises(DecabenchError, match=sentence):
        ask(Returns(answers), 2)


def test_a_factory_that_fails_is_blamed():
    def factory(setting):
        raise OSError("no weights")

    with pytest.raises(DecabenchError, match=r"failed on sst after 0 answers \(OSError: no weights\)"):
        list(ask_predictor(factory, SETTING, questions(1), 4))


@pytest.mark.parametrize(
    "change", [list.reverse, list.clear, lambda batch: batch.sort(key=lambda q: q.context)]
)
def test_what_a_predictor_does_to_its_list_swaps_no_answers(change):
    class Rude:
        def predict(self, batch):
            answers = [question.id for question in batch]
            change(batch)
            return answers

    assert ask(Rude(), 5) == [(f"q{number}", Answer(f"q{number}")) for number in range(5)]


class Streams:
    """Yields what a function makes of the questions."""

    def __init__(self, make):
        self.make = make

    def stream(self, asked):
        return self.make(asked)


@pytest.mark.parametrize(
    ("pair", "sentence"),
    [
        (("q0", "x", 3), r"streamed \('q0', 'x', 3\) for sst: it must yield pairs"),
        ("q0", "streamed 'q0' for sst"),
        ("ab", "streamed 'ab' for sst"),
        (None, "streamed None"),
        ((["q0"], "x"), "it must yield pairs"),
        (("q0", 3), "returned 3 for a question of sst: an answer must be a text"),
    ],
)
def test_what_a_stream_may_not_yield(pair, sentence):
    with pytest.raises(DecabenchError, match=sentence):
        ask(Streams(lambda asked: iter([pair])), 1)


@pytest.mark.parametrize("error", [ValueError("no\nmore"), SystemExit("no more"), GeneratorExit("no more")])
def test_a_stream_that_breaks_says_where_and_keeps_what_it_said(error):
    def breaks(asked):
        for question, _ in zip(asked, range(3), strict=False):
            yield question.id, Answer("x")
        raise error

    found = ask_predictor(lambda setting: Streams(breaks), SETTING, questions(5), 4)
    assert [next(found)[0] for _ in range(3)] == ["q0", "q1", "q2"]
    sentence = rf"failed on sst after 3 answers \({type(error).__name__}: no more\): .*same command.*--debug"
    with pytest.raises(DecabenchError, match=sentence):
        next(found)


def test_a_stream_is_closed_at_once_with_its_taker():
    events = []

    def held(asked):
        try:
            for question in asked:
                yield question.id, Answer("x")
        finally:
            events.append("closed")

    found = ask_predictor(lambda setting: Streams(held), SETTING, questions(5), 4)
    next(found)
    found.close()
    assert events == ["closed"]


def ends(*_):
    raise SystemExit(0)


class Ends:
    predict = ends


class EndsStream:
    stream = ends


@pytest.mark.parametrize("factory", [ends, lambda setting: Ends(), lambda setting: EndsStream()])
def test_a_predictor_cannot_end_the_program_as_if_all_were_well(factory):
    with pytest.raises(DecabenchError, match=r"The predictor .* on sst .*\(SystemExit: 0\)"):
        list(ask_predictor(factory, SETTING, questions(3), 4))


@pytest.mark.parametrize("name", ["predict", "stream"])
def test_a_person_can_end_it(name):
    def interrupted(*_):
        raise KeyboardInterrupt

    predictor = type("Predictor", (), {name: interrupted})()
    with pytest.raises(KeyboardInterrupt):
        ask(predictor, 3)
