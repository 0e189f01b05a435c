"""`inspect:PROVIDER/MODEL`, with a small stub of Inspect, which the tests don't install."""

import sys
from importlib.machinery import ModuleSpec
from types import ModuleType, SimpleNamespace

import pytest

from decabench.errors import DecabenchError, ModelError
from decabench.predictors import inspect_models
from decabench.predictors.protocol import Answer, Failure, ModelOptions
from tests.predictors.asking import outcomes, questions


class Turn(SimpleNamespace):
    """A message, a configuration or part of an answer."""


class Reasoning(Turn):
    """Part of an answer with reasoning."""


@pytest.fixture
def model(monkeypatch):
    """Return a stub of Inspect's model that records its inputs and answers with `says`."""
    made = SimpleNamespace(asked=[], says=lambda messages: None)

    async def generate(messages, config):
        made.asked.append((messages, config))
        return made.says(messages)

    def get_model(name, config, memoize):
        if name.startswith("nobody/"):
            raise ValueError("Model API nobody not recognized.")
        made.config = config
        return SimpleNamespace(generate=generate)

    module = ModuleType("inspect_ai.model")
    names = ("ChatMessageAssistant", "ChatMessageSystem", "ChatMessageUser", "GenerateConfig")
    vars(module).update(dict.fromkeys(names, Turn), ContentReasoning=Reasoning, get_model=get_model)
    package = ModuleType("inspect_ai")
    package.__spec__ = ModuleSpec("inspect_ai", None)
    monkeypatch.setitem(sys.modules, "inspect_ai", package)
    monkeypatch.setitem(sys.modules, "inspect_ai.model", module)
    monkeypatch.setattr(inspect_models, "version", lambda name: "0.3.285")
    return made


def output(text, stop="stop", parts=None, error=None):
    usage = Turn(
        input_tokens=5,
        input_tokens_cache_read=2,
        input_tokens_cache_write=None,
        output_tokens=3,
        reasoning_tokens=None,
    )
    message = Turn(content=parts or text)
    return Turn(
        completion=text,
        stop_reason=stop,
        usage=usage,
        message=message,
        choices=[1],
        error=error,
        model="served-1",
    )


def test_answers_and_how_they_ended(model):
    parts = [Reasoning(reasoning="hm"), Turn(text="yes")]
    says = [
        output("yes", parts=parts),
        output("ye", "max_tokens"),
        output("", "content_filter"),
        output("", error="down"),
    ]
    model.says = lambda messages: says[len(model.asked) - 1]
    made = inspect_models.backend(
        "lab/one", ModelOptions(reasoning_effort="high", omit=("seed",), concurrency=1, temperature=0.5)
    )
    found = outcomes(made, questions(4))
    assert sorted(found.values(), key=str) == sorted(
        [
            Answer("yes", "stop", None, 7, 3, "hm", "served-1"),
            Answer("ye", "length", None, 7, 3, None, "served-1"),
            Answer("", "refused", None, 7, 3, None, "served-1"),
            Failure("The provider sent no answer: down"),
        ],
        key=str,
    )
    config = model.asked[0][1]
    assert (config.temperature, config.reasoning_effort, config.max_tokens) == (0.5, "high", 16 + 4_096)
    assert not hasattr(config, "seed")
    assert made.describe() == {
        "model": "lab/one",
        "inspect": "0.3.285",
        "temperature": 0.5,
        "reasoning_effort": "high",
        "omitted": ["seed"],
    }


def test_an_answer_that_was_cut_while_the_model_reasoned_gets_more_room(model):
    parts = [Reasoning(reasoning="hm"), Turn(text="")]
    model.says = lambda messages: output("yes") if len(model.asked) > 1 else output("", "max_tokens", parts)
    made = inspect_models.backend("lab/one", ModelOptions(batch_api=True))
    assert [answer.text for answer in outcomes(made, questions(1)).values()] == ["yes"]
    assert [config.max_tokens for _, config in model.asked] == [16, 16 + 4_096]
    assert (model.config.batch, model.config.attempt_timeout, model.config.max_connections) == (
        True,
        None,
        1_000,
    )


def test_names_that_cannot_be_run(model, monkeypatch):
    with pytest.raises(ModelError, match="Inspect can't run nobody/x: ValueError: Model API nobody"):
        outcomes(inspect_models.backend("nobody/x", ModelOptions()), questions(1))
    with pytest.raises(DecabenchError, match="requires a provider and a model"):
        inspect_models.backend("claude", ModelOptions())


def test_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "inspect_ai", None)  # it may be installed
    with pytest.raises(DecabenchError, match=r"pip install 'decabench\[inspect\]'"):
        inspect_models.backend("lab/one", ModelOptions())
