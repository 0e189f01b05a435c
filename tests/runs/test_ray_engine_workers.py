"""A cluster worker, called in this process without starting Ray."""

import os
import pickle
import sys
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from decabench.errors import DecabenchError, MissingDataError
from decabench.predictors.protocol import Answer, Setting
from decabench.runs.ray_engine import Worker, WorkerEnvironment, unpickle_error
from decabench.tasks.example import Question
from decabench.tasks.registry import TASKS

EVENTS = []
QUESTIONS = [Question(f"q{number}", "What?", "This.") for number in range(3)]


def nothing():
    return iter(())


def setting(task="sst"):
    return pickle.dumps(Setting(TASKS[task], "validation", nothing))


class Odd(DecabenchError):
    """An error that can't be unpickled."""

    def __init__(self, what, when):
        super().__init__(f"{what} at {when}")


class Echo:
    def __init__(self, setting):
        EVENTS.append(("made", setting.task.name))

    def predict(self, questions):
        return [question.id for question in questions]


class Stops:
    """Answers one question and raises an error on the next."""

    def __init__(self, error):
        self.error = error

    def stream(self, questions):
        yield next(iter(questions)).id, Answer("x")
        raise self.error


@dataclass(frozen=True)
class Backend:
    what: str = "echo"
    prompted = False

    def describe(self):
        return {}

    @contextmanager
    def open(self):
        if self.what == "absent":
            raise MissingDataError("There are no weights.")
        EVENTS.append("opened")
        errors = {"key": KeyError("gone"), "exit": SystemExit(3), "odd": Odd("It broke", "noon")}
        yield Echo if self.what == "echo" else lambda setting: Stops(errors[self.what])
        EVENTS.append("closed")


@pytest.fixture
def worker():
    EVENTS.clear()
    here = WorkerEnvironment(os.getcwd(), tuple(sys.path), share=0)
    return lambda what="echo": Worker(pickle.dumps(Backend(what)), here)


def test_one_load_a_run_and_one_predictor_a_task(worker):
    one = worker()
    assert one.ready() is None and one.ready() is None
    for task in ("sst", "sst", "schema"):
        reply = one.ask(setting(task), QUESTIONS, 2)
        assert reply.outcomes == [(question.id, Answer(question.id)) for question in QUESTIONS]
        assert reply.error is None
    one.close()
    assert EVENTS == ["opened", ("made", "sst"), ("made", "schema"), "closed"]


@pytest.mark.parametrize(
    ("what", "sentence"),
    [
        ("key", "The predictor failed on sst after 1 answer (KeyError: 'gone')"),
        ("exit", "The predictor failed on sst after 1 answer (SystemExit: 3)"),
        ("odd", "It broke at noon"),
    ],
)
def test_what_was_answered_before_an_error_is_kept(worker, what, sentence):
    one = worker(what)
    one.ready()
    reply = one.ask(setting(), QUESTIONS, 2)
    assert reply.outcomes == [("q0", Answer("x"))]
    error = unpickle_error(reply.error)
    assert isinstance(error, DecabenchError) and str(error).startswith(sentence)


def test_a_worker_goes_where_the_command_is(tmp_path, monkeypatch):
    monkeypatch.chdir(Path.cwd())
    monkeypatch.setattr(sys, "path", ["first"])
    monkeypatch.setenv("OMP_NUM_THREADS", "77")
    monkeypatch.setenv("DECABENCH_MODELS", "")
    place = WorkerEnvironment(str(tmp_path), ("first", "second"), 10_000, "own.module:FAMILY")
    place.enter()
    assert os.environ["DECABENCH_MODELS"] == "own.module:FAMILY"
    assert (os.getcwd(), sys.path, os.environ["OMP_NUM_THREADS"]) == (str(tmp_path), ["first", "second"], "1")
    replace(place, folder=str(tmp_path / "not here")).enter()
    assert os.getcwd() == str(tmp_path)
