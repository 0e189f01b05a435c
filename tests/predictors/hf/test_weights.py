"""Loading weights: adapters, quantization, files behind links, and padding."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch", reason="needs the extra hf")
pytest.importorskip("transformers", reason="needs the extra hf")

import torch
from transformers import RwkvConfig, RwkvForCausalLM

from decabench.errors import DecabenchError
from decabench.predictors.hf.backend import HfBackend, backend
from decabench.predictors.hf.weights import Loaded, find_source, load_model, local_folder, pads_safely
from decabench.predictors.protocol import ModelOptions
from tests.predictors.hf.hf_models import asked, save_llama, save_t5, setting

pytestmark = pytest.mark.filterwarnings("ignore:.*is_gradient_checkpointing:FutureWarning")


def save_adapter(model: Path, folder: Path, **config: Any) -> Path:
    """Save an adapter with large random weights, so that all answers change."""
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
    with pytest.raises(DecabenchError, match="the adapter for adapter can't be loaded"):
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
    for absent in ("peft", "bitsandbytes"):
        monkeypatch.setitem(sys.modules, absent, None)
    with pytest.raises(DecabenchError, match=r"requires peft, which is not installed\. .*decabench\[hf\]"):
        backend(model, ModelOptions(adapter=model))
    with pytest.raises(DecabenchError, match="pip install bitsandbytes"):
        backend(model, ModelOptions(quantize="4bit"))


def test_a_gguf_file_behind_the_hubs_links(tmp_path: Path) -> None:
    """The file in the hub's snapshot is a link to a blob. The blob's name is its digest, without a suffix."""
    blob = tmp_path / "models--o--n" / "blobs" / "0a1b2c"
    snapshot = tmp_path / "models--o--n" / "snapshots" / "c0ffee"
    for folder in (blob.parent, snapshot):
        folder.mkdir(parents=True)
    blob.write_bytes(b"GGUF")
    (snapshot / "tiny-q8_0.gguf").symlink_to("../../blobs/0a1b2c")
    for target in (snapshot / "tiny-q8_0.gguf", snapshot):
        source = find_source(str(target), None)
        assert (source.name, source.gguf) == ("tiny-q8_0.gguf", "tiny-q8_0.gguf")
        assert (local_folder(source) / "tiny-q8_0.gguf").read_bytes() == b"GGUF"


def test_a_folder_behind_a_link_is_recorded_where_it_is(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "m.gguf").write_bytes(b"GGUF")
    (tmp_path / "link").symlink_to("real")
    assert find_source(str(tmp_path / "link" / "m.gguf"), None).folder == str(tmp_path / "real")


@pytest.mark.parametrize("save", [save_llama, save_t5])
def test_attention_that_is_masked(tmp_path, save):
    source = find_source(str(save(tmp_path / "model")), None)
    assert pads_safely(load_model(source, local_folder(source), "float32", "cpu", None))


def test_a_recurrent_model_that_reads_padding():
    torch.manual_seed(0)
    config = RwkvConfig(
        vocab_size=64, hidden_size=32, num_hidden_layers=2, attention_hidden_size=32, context_length=64
    )
    model = RwkvForCausalLM(config).eval()
    assert not pads_safely(Loaded(model, None, False, frozenset(), 0, 64))
