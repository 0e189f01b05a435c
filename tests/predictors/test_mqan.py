"""A trained model as a predictor."""

import pickle

import pytest

pytest.importorskip("torch")

from decabench.errors import DataError, DecabenchError, MissingDataError
from decabench.predictor import Answer, Backend, Question, Setting, StreamingPredictor
from decabench.predictors.mqan import backend
from decabench.predictors.options import ModelOptions
from decabench.tasks import TASKS
from decabench.training.trainer import train
from tests.training.conftest import make_run, one_thread  # noqa: F401

OPTIONS = ModelOptions(device="cpu")


@pytest.fixture
def trained(make_run):  # noqa: F811
    run = make_run(steps=4, cut_context={"sst": 5})
    train(run)
    return run


def setting(task):
    return Setting(TASKS[task], "validation", lambda: iter(()), dict)


def questions(run, task):
    return [Question(row.id, row.question, row.context) for row in run.store.examples(task, "validation")]


def test_it_is_a_backend(trained):
    made = pickle.loads(pickle.dumps(backend(str(trained.output), OPTIONS)))
    assert isinstance(made, Backend)
    assert not made.prompted
    described = made.describe()
    assert described["weights"].startswith("sha256:")
    assert described["config"]["model"]["dimension"] == 8
    assert described["decoding"] == "greedy"


def test_it_answers_every_question_once(trained):
    asked = questions(trained, "schema")
    with backend(str(trained.output), OPTIONS).open() as make:
        predictor = make(setting("schema"))
        assert isinstance(predictor, StreamingPredictor)
        found = dict(predictor.stream(iter(asked)))
    with backend(str(trained.output), ModelOptions(device="cpu", batch_size=3)).open() as make:
        assert dict(make(setting("schema")).stream(asked)) == found
    assert list(found) == [question.id for question in asked]
    assert all(isinstance(answer, Answer) and answer.prompt_tokens for answer in found.values())


def test_it_says_what_it_was_shown(trained):
    asked = questions(trained, "sst")
    with backend(str(trained.output), ModelOptions(device="cpu", max_new_tokens=2)).open() as make:
        found = dict(make(setting("sst")).stream(asked))
    cut = [answer for answer in found.values() if answer.context_kept]
    assert cut and all(answer.context_kept[0] == 0 < answer.context_kept[1] for answer in cut)
    assert all(answer.completion_tokens <= 2 for answer in found.values())
    assert {answer.finish for answer in found.values()} <= {"stop", "length"}


@pytest.mark.parametrize(
    ("options", "words"),
    [({"temperature": 0.5}, "temperature"), ({"chat": True}, "chat"), ({"dtype": "float16"}, "not float16")],
)
def test_options_it_cannot_honour(options, words):
    with pytest.raises(DecabenchError, match=words):
        backend("x", ModelOptions(**options))


def test_damaged_checkpoints(trained, tmp_path):
    with pytest.raises(MissingDataError, match="no checkpoint"):
        backend(str(tmp_path / "none"), OPTIONS).describe()
    (folder,) = (trained.output / "checkpoints").glob("step-00000004")
    (folder / "model.safetensors").write_bytes(b"\x80\x04N.")  # a pickle
    with pytest.raises(DataError, match="cannot be read"), backend(str(folder), OPTIONS).open():
        pass
    (folder / "checkpoint.json").write_text("{}")
    with pytest.raises(DataError, match="cannot be read"):
        backend(str(folder), OPTIONS).describe()
