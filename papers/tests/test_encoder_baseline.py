import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed: pip install 'decabench[train]'")
pytest.importorskip("transformers", reason="pip install 'decabench[hf]'")

from decabench.errors import DecabenchError
from decabench.predictors import Setting
from decabench.tasks import TASKS, Question
from papers.encode_words import encode_texts
from papers.encoder_baseline import LabelClassifier
from tests.models.encoders import write_encoder

TRAIN = [("good", "positive"), ("heartwarming", "positive"), ("bad", "negative")] * 10


def setting(task, examples):
    return Setting(task, "validation", lambda: iter(()), training_examples=lambda: iter(examples))


@pytest.fixture
def encoder(tmp_path, monkeypatch):
    monkeypatch.setenv("ENCODER", str(folder := write_encoder(tmp_path)))
    return folder


def test_one_question_for_all_reads_the_context(encoder):
    examples = [(Question(str(at), "Good or bad?", text), label) for at, (text, label) in enumerate(TRAIN)]
    model = LabelClassifier(setting(TASKS["sst"], examples))
    asked = [Question("a", "Good or bad?", "heartwarming"), Question("b", "Good or bad?", "bad")]
    assert model.predict(asked) == ["positive", "negative"]
    np.testing.assert_allclose(
        model.features(asked), encode_texts(encoder, ["heartwarming", "bad"]), atol=1e-6
    )


def test_questions_that_differ_are_read_too(encoder):
    examples = [(Question(str(at), text, "good"), label) for at, (text, label) in enumerate(TRAIN)]
    model = LabelClassifier(setting(TASKS["sst"], examples))
    context, asked = encode_texts(encoder, ["good", "bad"])
    np.testing.assert_allclose(
        model.features([Question("a", "bad", "good")])[0],
        np.concatenate([context, asked, context * asked, abs(context - asked)]),
        atol=1e-6,
    )
    assert model.predict([Question("a", "bad", "good")]) == ["negative"]


def test_other_tasks_and_no_encoder_are_refused(encoder, monkeypatch):
    with pytest.raises(DecabenchError, match="no fixed labels"):
        LabelClassifier(setting(TASKS["squad"], []))
    monkeypatch.delenv("ENCODER")
    with pytest.raises(DecabenchError, match="Set ENCODER"):
        LabelClassifier(setting(TASKS["sst"], []))
