"""Which models may be asked several prompts at once."""

import pytest

pytest.importorskip("torch", reason="needs the extra hf")
pytest.importorskip("transformers", reason="needs the extra hf")

import torch
from transformers import RwkvConfig, RwkvForCausalLM

from decabench.predictors.hf.weights import Loaded, find_source, load_model, local_folder, pads_safely
from tests.predictors.hf.hf_models import save_llama, save_t5


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
