"""Adapters change the answers, are recorded, and belong to a model; weights can be quantized while they load."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from decabench.errors import DecabenchError
from decabench.predictors.hf import weights
from decabench.predictors.hf.backend import HfBackend, backend
from decabench.predictors.protocol import ModelOptions
from tests.predictors.hf.hf_models import asked, save_llama, setting

pytest.importorskip("transformers", reason="needs the extra hf")
pytestmark = pytest.mark.filterwarnings("ignore:.*is_gradient_checkpointing:FutureWarning")


def save_adapter(model: Path, folder: Path, **config: Any) -> Path:
    """An adapter with large random weights, so that no answer stays the same."""
    peft = pytest.importorskip("peft", reason="needs the extra hf")
    import torch
    from transformers import AutoModelForCausalLM

    lora = peft.LoraConfig(r=4, target_modules=["q_proj", "down_proj"], **config)
    adapted = peft.get_peft_model(AutoModelForCausalLM.from_pretrained(model), lora)
    torch.manual_seed(1)
    with torch.no_grad():
        for name, weight in adapted.named_parameters():
            if "lora_" in name:
                weight.normal_()
    adapted.save_pretrained(folder)
    return folder


def answers(made: HfBackend) -> dict[str, Any]:
    with made.open() as factory:
        return dict(factory(setting()).stream(asked(2)))


def test_an_adapter_decides_answers_and_is_recorded(tmp_path: Path) -> None:
    model = save_llama(tmp_path / "model")
    adapter = save_adapter(model, tmp_path / "adapter")
    plain, adapted = (
        backend(str(model), ModelOptions()),
        backend(str(model), ModelOptions(adapter=str(adapter))),
    )
    assert set(adapted.describe()) - set(plain.describe()) == {"adapter"}
    assert answers(plain) != answers(adapted) == answers(adapted)
    with pytest.raises(DecabenchError, match="hf:MODEL --adapter adapter"):
        backend(str(adapter), ModelOptions())


def test_an_adapter_of_another_model_is_refused(tmp_path: Path) -> None:
    model = save_llama(tmp_path / "model")
    adapter = save_adapter(model, tmp_path / "adapter")
    config = (adapter / "adapter_config.json").read_text()
    (adapter / "adapter_config.json").write_text(config.replace("down_proj", "up_proj"))
    with pytest.raises(DecabenchError, match="the adapter for adapter cannot be loaded"):
        answers(backend(str(model), ModelOptions(adapter=str(adapter))))
    (adapter / "adapter_model.safetensors").unlink()
    with pytest.raises(DecabenchError, match="is not an adapter in safetensors"):
        backend(str(model), ModelOptions(adapter=str(adapter)))


@pytest.mark.parametrize("quantize", ["4bit", "8bit"])
def test_quantized_weights(tmp_path: Path, quantize: str) -> None:
    pytest.importorskip("bitsandbytes", reason="needs the package bitsandbytes")
    made = backend(str(save_llama(tmp_path)), ModelOptions(quantize=quantize))
    assert made.describe()["quantized"] == quantize
    assert len(answers(made)) == 2


def test_missing_packages_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = str(save_llama(tmp_path))
    found = weights.find_spec
    absent = ("peft", "bitsandbytes")
    monkeypatch.setattr(weights, "find_spec", lambda name: None if name in absent else found(name))
    with pytest.raises(DecabenchError, match=r"requires peft: .*decabench\[hf\]"):
        backend(model, ModelOptions(adapter=model))
    with pytest.raises(DecabenchError, match="pip install bitsandbytes"):
        backend(model, ModelOptions(quantize="4bit"))
