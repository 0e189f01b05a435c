"""`vllm:NAME_OR_PATH`, with a small stub of vLLM, because the real package needs a GPU."""

from __future__ import annotations

import sys
from dataclasses import replace
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any, ClassVar

import pytest

pytest.importorskip("torch", reason="needs the extra hf")
pytest.importorskip("transformers", reason="needs the extra hf")

from decabench.errors import DecabenchError, ModelError
from decabench.predictors import vllm_models
from decabench.predictors.protocol import Answer, Failure, ModelOptions
from decabench.predictors.schemes import make_backend
from decabench.tasks.wording import AnswerForm
from tests.predictors.hf.hf_models import CHAT, asked, save_llama, setting


class Named(SimpleNamespace):
    """Parameters or a prompt, stored as attributes."""


class Engine:
    """A stub of vLLM's `LLM` that records its inputs and answers with `says`."""

    made: ClassVar[list[Engine]] = []
    says: Any = staticmethod(lambda params: ("yes", "stop"))

    def __init__(self, model: str, trust_remote_code: bool, **given: Any) -> None:
        if "bad" in given:
            raise ValueError("unexpected argument bad")
        self.model, self.given, self.asked = model, given, []
        assert not trust_remote_code
        Engine.made.append(self)

    def get_tokenizer(self) -> Any:
        from transformers import AutoTokenizer

        return AutoTokenizer.from_pretrained(self.model)

    def generate(self, prompts: list[Named], settings: list[Named], use_tqdm: bool) -> list[Named]:
        assert not use_tqdm
        self.asked += list(zip(prompts, settings, strict=True))
        made = [self.says(params) for params in settings]
        return [Named(outputs=[Named(text=text, finish_reason=why, token_ids=[1, 2])]) for text, why in made]


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> type[Engine]:
    module, sampling = ModuleType("vllm"), ModuleType("vllm.sampling_params")
    vars(module).update(LLM=Engine, SamplingParams=Named, TokensPrompt=Named)
    vars(sampling).update(StructuredOutputsParams=Named)
    monkeypatch.setitem(sys.modules, "vllm", module)
    monkeypatch.setitem(sys.modules, "vllm.sampling_params", sampling)
    module.__spec__ = ModuleSpec("vllm", None)
    monkeypatch.setattr(vllm_models, "version", lambda name: "0.33.0")
    monkeypatch.setattr(Engine, "made", [])
    return Engine


def outcomes(folder: Path, count: int, about: Any = None, **options: Any) -> dict[str, Answer | Failure]:
    with vllm_models.backend(str(folder), ModelOptions(**options)).open() as factory:
        return dict(factory(about or setting()).stream(asked(count)))


def test_answers_and_the_record(engine: type[Engine], tmp_path: Path) -> None:
    body = '{"tensor_parallel_size": 2}'
    found = outcomes(save_llama(tmp_path / "m", chat=CHAT), 3, body=body, temperature=0.5, seed=3)
    assert list(found) == ["q0", "q1", "q2"]
    (made,) = engine.made
    assert made.given == {"dtype": "auto", "seed": 3, "tensor_parallel_size": 2}
    prompt, params = made.asked[0]
    answer = found["q0"]
    assert isinstance(answer, Answer) and (answer.text, answer.finish, answer.completion_tokens) == (
        "yes",
        "stop",
        2,
    )
    assert answer.prompt_tokens == len(prompt.prompt_token_ids)
    assert (params.temperature, params.max_tokens) == (0.5, 12)
    assert len({params.seed for _, params in made.asked}) == 3
    backend = vllm_models.backend(str(tmp_path / "m"), ModelOptions(body=body))
    described = backend.describe()
    assert (described["vllm"], described["engine"]) == ("0.33.0", {"tensor_parallel_size": 2})
    assert "torch" not in described and (backend.label, backend.gpus) == ("vllm:m", 2.0)


def test_a_schema_is_enforced_and_a_cut_while_reasoning_gets_more_room(
    engine: type[Engine], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    says = lambda params: ("<think>hm", "length") if params.max_tokens < 99 else ("no", "stop")  # noqa: E731
    monkeypatch.setattr(engine, "says", staticmethod(says))
    about = setting(form=AnswerForm("label", ("no", "yes")))
    about = replace(about, prompting=replace(about.prompting, protocol="json"))
    found = outcomes(save_llama(tmp_path / "m"), 2, about)
    assert [answer.text for answer in found.values() if isinstance(answer, Answer)] == ["no", "no"]
    schema = engine.made[0].asked[0][1].structured_outputs.json
    assert schema["properties"]["answer"]["enum"] == ["no", "yes"]


def test_faults_are_plain(engine: type[Engine], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = save_llama(tmp_path / "m")
    with pytest.raises(ModelError, match="vLLM can't load m: ValueError: unexpected argument bad"):
        outcomes(folder, 1, body='{"bad": 1}')
    with pytest.raises(DecabenchError, match="vllm does not use --device"):
        make_backend(f"vllm:{folder}", ModelOptions(device="cpu"))
    monkeypatch.setitem(sys.modules, "vllm", None)
    with pytest.raises(DecabenchError, match=r"requires vllm, which is not installed\. .*decabench\[vllm\]"):
        vllm_models.backend(str(folder), ModelOptions())
