"""One task's run: what is asked, what is counted, when it stops."""

import pytest

from decabench.errors import DecabenchError
from decabench.files import fingerprint
from decabench.predictors.protocol import Answer, Failure, Setting
from decabench.runs.ask import Silent, TaskRun, answer_task
from decabench.runs.journal import Journal, JournalKey
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
    return answer_task(TaskRun("sst", engine, SETTING, lambda: iter(questions), journal, **changes))


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
        DecabenchError, match=r"Stopped on sst after 4 failures in a row; .* the disk is gone\. Fix"
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
    assert journal.outcomes["q4"] == Failure("the predictor ended without answering it")


@pytest.mark.parametrize("extra", ["q0", "nobody"])
def test_an_answer_to_what_was_not_asked_is_refused(journal, extra):
    class Talkative(Engine):
        def outcomes(self, setting, questions):
            yield from super().outcomes(setting, questions)
            yield extra, Answer("more")

    with pytest.raises(DecabenchError, match=f"answered '{extra}' of sst twice, or without being asked"):
        run(Talkative(fail_on()), journal)
    assert len(journal.outcomes) == 10


@pytest.mark.parametrize(
    ("text", "error"),
    [("\ud800", "bad-encoding"), ("\x00" * 100_000, "too-large"), (5, "the answer must be a string, not 5")],
)
def test_what_could_not_be_written_has_failed(journal, text, error):
    tally = run(Engine(lambda question: Answer(text)), journal, QUESTIONS[:2])
    assert tally.failed == 2 and tally.commonest_error.startswith(error)


def test_it_is_told_as_it_goes(journal):
    states = []

    class Told(Silent):
        def begin(self, tally):
            states.append(("begin", tally.done))

        def update(self, tally):
            states.append(("update", tally.done))

        def end(self, tally):
            states.append(("end", tally.done))

    answer_task(TaskRun("sst", Engine(fail_on("q1")), SETTING, lambda: iter(QUESTIONS[:2]), journal, Told()))
    assert states == [("begin", 0), ("update", 1), ("update", 2), ("end", 2)]


def test_cuts_are_told_of_what_was_resumed_too(journal):
    """Truncation that only the first run told of would be silent in the last."""
    cut = {"q1": Answer("x", "length"), "q2": Answer("x", "stop", (0, 3))}
    engine = Engine(lambda question: cut.get(question.id, Answer("x")))
    for _ in range(2):
        tally = run(engine, journal)
        assert (tally.cut, tally.truncated) == (1, 1)
