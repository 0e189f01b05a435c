"""One task's run: what is asked, what is counted, when it stops."""

import pytest

from decabench.errors import DecabenchError
from decabench.files import fingerprint
from decabench.predictors.protocol import Answer, Failure, Setting
from decabench.runs.ask import Silent, TaskRun, answer_task, ask_predictor
from decabench.runs.journal import Journal, JournalKey
from decabench.runs.plan import PlannedTask, Reading
from decabench.tasks.example import Question
from decabench.tasks.registry import TASKS

QUESTIONS = [Question(f"q{number}", "What?", "This.") for number in range(10)]
SETTING = Setting(TASKS["sst"], "validation", lambda: iter(()))


class Engine:
    """Answers with a function of the question, and remembers what it was asked."""

    def __init__(self, answer):
        self.answer = answer
        self.asked = []

    def outcomes(self, setting, questions):
        for question in questions:
            self.asked.append(question.id)
            yield question.id, self.answer(question)


@pytest.fixture
def journal(tmp_path):
    with Journal(tmp_path, JournalKey("sst", "validation", 0, fingerprint({}))) as journal:
        yield journal


def run(engine, journal, questions=QUESTIONS, **changes):
    return answer_task(TaskRun(planned(questions, journal), journal, engine, **changes))


def planned(questions, journal):
    return PlannedTask(TASKS["sst"], 0, None, Reading(), False, journal.key, SETTING, lambda: iter(questions))


def fail_on(*ids):
    return lambda question: (
        Failure("broken") if question.id in ids else Answer(question.id, "stop", None, 10, 2)
    )


def test_all_is_asked_once(journal):
    engine = Engine(fail_on())
    tally = run(engine, journal)
    assert engine.asked == [question.id for question in QUESTIONS]
    assert (tally.total, tally.answered, tally.resumed, tally.failed) == (10, 10, 0, 0)
    assert (tally.prompt_tokens, tally.completion_tokens) == (100, 20)
    assert len(journal.outcomes) == 10


def test_loading_the_model_does_not_count_as_time_for_answers(journal, monkeypatch):
    now = [0.0]
    monkeypatch.setattr("decabench.runs.ask.time.monotonic", lambda: now[0])

    class SlowToLoad(Engine):
        def outcomes(self, setting, questions):
            now[0] += 300
            return super().outcomes(setting, questions)

    def answer(question):
        now[0] += 2
        return Answer(question.id)

    assert run(SlowToLoad(answer), journal).seconds == 20


def test_what_has_an_answer_is_not_asked_again_and_what_failed_is(journal):
    run(Engine(fail_on("q3", "q7")), journal)
    engine = Engine(fail_on("q7"))
    tally = run(engine, journal)
    assert engine.asked == ["q3", "q7"]
    assert (tally.total, tally.resumed, tally.answered, tally.failed) == (10, 8, 1, 1)
    assert tally.commonest_error == "broken"


def test_failures_in_a_row_stop_it(journal):
    engine = Engine(lambda question: Failure("the disk is gone."))
    with pytest.raises(
        DecabenchError, match=r"Stopped on sst after 4 failures in a row .* the disk is gone\. Fix"
    ):
        run(engine, journal, give_up_after=4)
    assert len(engine.asked) == 4 and len(journal.outcomes) == 4


def test_what_was_never_asked_comes_before_what_failed(journal):
    """A killed run with failures here and there gets on, however many they were."""
    run(Engine(fail_on("q0", "q1", "q2", "q4")), journal, QUESTIONS[:6])
    engine = Engine(fail_on("q0", "q1", "q2", "q7"))
    tally = run(engine, journal, give_up_after=2)
    assert engine.asked == ["q6", "q7", "q8", "q9", "q0", "q1", "q2", "q4"]
    assert (tally.resumed, tally.answered, tally.failed) == (2, 4, 4)


def test_what_failed_before_is_no_news_but_what_fails_anew_is(journal):
    run(Engine(fail_on("q0", "q1", "q2")), journal, QUESTIONS[:3])
    engine = Engine(fail_on(*(question.id for question in QUESTIONS)))
    with pytest.raises(DecabenchError, match="after 3 failures in a row"):
        run(engine, journal, give_up_after=3)
    assert engine.asked == ["q3", "q4", "q5"]


def test_a_question_without_an_outcome_has_failed(journal):
    class Forgetful(Engine):
        def outcomes(self, setting, questions):
            return (pair for pair in super().outcomes(setting, questions) if pair[0] != "q4")

    tally = run(Forgetful(fail_on()), journal)
    assert (tally.answered, tally.failed) == (9, 1)
    assert journal.outcomes["q4"] == Failure("the predictor stopped without answering this question")


@pytest.mark.parametrize("extra", ["q0", "nobody"])
def test_an_answer_to_what_was_not_asked_is_refused(journal, extra):
    class Talkative(Engine):
        def outcomes(self, setting, questions):
            yield from super().outcomes(setting, questions)
            yield extra, Answer("more")

    with pytest.raises(
        DecabenchError, match=f"answered '{extra}' in sst more than once, or without being asked"
    ):
        run(Talkative(fail_on()), journal)
    assert len(journal.outcomes) == 10


@pytest.mark.parametrize(
    ("text", "error"),
    [("\ud800", "bad-encoding"), ("\x00" * 100_000, "too-large"), (5, "the answer must be a string, not 5")],
)
def test_what_could_not_be_written_has_failed(journal, text, error):
    tally = run(Engine(lambda question: Answer(text)), journal, QUESTIONS[:2])
    assert tally.failed == 2 and tally.commonest_error.startswith(error)


def test_progress_is_reported(journal):
    states = []

    class Told(Silent):
        def begin(self, tally):
            states.append(("begin", tally.done))

        def update(self, tally):
            states.append(("update", tally.done))

        def end(self, tally):
            states.append(("end", tally.done))

    run(Engine(fail_on("q1")), journal, QUESTIONS[:2], progress=Told())
    assert states == [("begin", 0), ("update", 1), ("update", 2), ("end", 2)]


def test_cut_answers_are_counted_in_resumed_runs_too(journal):
    """A warning about truncation that only the first run printed would be missing from the last."""
    cut = {"q1": Answer("x", "length"), "q2": Answer("x", "stop", (0, 3))}
    engine = Engine(lambda question: cut.get(question.id, Answer("x")))
    for _ in range(2):
        tally = run(engine, journal)
        assert (tally.cut, tally.truncated) == (1, 1)


# The predictor in this process: how it is asked, and whose fault what goes wrong is


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
        (["x"], "returned 1 answer for 2 questions in sst. Return a list with one text for each"),
        (["x"] * 3, "returned 3 answers for 2 questions"),
        ("xx", "returned a str for 2 questions"),
        (None, "returned None for 2 questions"),
        ({"q0": "x", "q1": "y"}, "returned a dict for 2 questions"),
        ([1, 2], "returned 1 for a question in sst. Answers must be strings"),
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
        (("q0", "x", 3), r"streamed \('q0', 'x', 3\) for sst. A predictor must yield"),
        ("q0", "streamed 'q0' for sst"),
        ("ab", "streamed 'ab' for sst"),
        (None, "streamed None"),
        ((["q0"], "x"), "must yield"),
        (("q0", 3), "returned 3 for a question in sst. Answers must be strings"),
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
    sentence = rf"failed on sst after 3 answers \({type(error).__name__}: no more\)\. .*same command.*--debug"
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
def test_ctrl_c_ends_a_predictor(name):
    def interrupted(*_):
        raise KeyboardInterrupt

    predictor = type("Predictor", (), {name: interrupted})()
    with pytest.raises(KeyboardInterrupt):
        ask(predictor, 3)
