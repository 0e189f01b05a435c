"""A model and its tokenizer in memory, from safetensors or GGUF and never from code."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, redirect_stderr
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from decabench.errors import DecabenchError
from decabench.predictors.hf_source import Source
from decabench.predictors.texts import excerpt

__all__ = ["Loaded", "load_config", "load_model", "load_tokenizer", "positions"]

SANE = 10_000_000
"""Tokenizers without a limit say a number far above this."""


@dataclass(frozen=True)
class Loaded:
    """What generates."""

    model: Any
    """A transformers model, in evaluation mode."""
    tokenizer: Any
    """Its tokenizer."""
    is_encoder_decoder: bool
    """Whether the prompt goes to an encoder, and leaves the decoder's window to the answer."""
    ends: frozenset[int]
    """The tokens that end an answer."""
    pad: int
    """The token that fills what the attention mask hides."""
    tokens: int
    """How many tokens the model knows: an id beyond would end a process that computes on a GPU."""


def load_config(source: Source, folder: Path) -> Any:
    """The model's configuration. Raises DecabenchError."""
    with _errors(source.name, "configuration"):
        from transformers import AutoConfig

        return AutoConfig.from_pretrained(folder, **_common(source))


def load_tokenizer(source: Source, folder: Path) -> Any:
    """The model's tokenizer. Raises DecabenchError."""
    with _errors(source.name, "tokenizer"):
        from transformers import AutoTokenizer

        tokenizer = AutoTokenizer.from_pretrained(folder, **_common(source))
    if type(tokenizer).__name__.startswith("MistralCommon"):
        raise DecabenchError(
            f"hf: the tokenizer of {source.name} is one of mistral_common, whose chat template cannot be seen: "
            "uninstall that package, or serve the model and use openai:URL."
        )
    return tokenizer


def load_model(source: Source, folder: Path, dtype: str, device: str, device_map: str | None) -> Loaded:
    """Reads the weights. Raises DecabenchError, also where the file lacks some: they would be drawn at random."""
    import torch

    config = load_config(source, folder)
    tokenizer = load_tokenizer(source, folder)
    given: dict[str, Any] = {"device_map": device_map} if device_map else {}
    if source.gguf:
        # Blocks that stay packed are multiplied by compiled kernels, which transformers would fetch from the hub.
        given |= _dense()
    else:
        given |= {"use_safetensors": True}
    # Unpacking GGUF draws a bar of its own, which no setting of transformers turns off.
    with _errors(source.name, "weights"), redirect_stderr(io.StringIO()) if source.gguf else nullcontext():
        model, report = _model_class(config).from_pretrained(
            folder,
            config=config,
            dtype=getattr(torch, dtype),
            output_loading_info=True,
            **_common(source),
            **given,
        )
        if not device_map and getattr(model, "hf_quantizer", None) is None:
            model.to(device)  # packed weights are where their library put them
    _require_whole(source.name, report)
    return _ready(model.eval(), tokenizer)


def positions(config: Any) -> int | None:
    """The longest sequence that the model has positions for; None where they are relative."""
    found = getattr(config.get_text_config(decoder=True), "max_position_embeddings", None)
    return found if isinstance(found, int) and 0 < found < SANE else None


def _common(source: Source) -> dict[str, Any]:
    """What every part is loaded with: nothing from the network, no code."""
    return {
        "local_files_only": True,
        "trust_remote_code": False,
        **({"gguf_file": source.gguf} if source.gguf else {}),
    }


def _dense() -> dict[str, Any]:
    import transformers

    kind = getattr(transformers, "GgufConfig", None)  # versions without it always unpack
    return {"quantization_config": kind(dequantize=True)} if kind else {}


def _model_class(config: Any) -> Any:
    from transformers import AutoModelForCausalLM, AutoModelForSeq2SeqLM

    return AutoModelForSeq2SeqLM if config.is_encoder_decoder else AutoModelForCausalLM


def _require_whole(name: str, report: dict[str, Any]) -> None:
    absent = sorted({*report.get("missing_keys", ()), *(key[0] for key in report.get("mismatched_keys", ()))})
    if absent:
        raise DecabenchError(
            f"hf: the weights of {name} lack {len(absent)} of the model's tensors ({absent[0]}, ...), which would be "
            "drawn at random: is it a model that generates text, and saved whole?"
        )


def _ready(model: Any, tokenizer: Any) -> Loaded:
    """Leaves of the saved generation settings only the tokens: sampling, penalties and limits are ours to set."""
    import transformers

    settings: Any = transformers.GenerationConfig  # which has no types
    saved = model.generation_config
    ends = _ids(saved.eos_token_id) | _ids(tokenizer.eos_token_id)
    tokens = model.get_input_embeddings().weight.shape[0]
    candidates = (tokenizer.pad_token_id, saved.pad_token_id, *sorted(ends))
    pad = next((id_ for id_ in candidates if id_ is not None and id_ < tokens), 0)
    kept = ("bos_token_id", "decoder_start_token_id", "forced_bos_token_id")
    model.generation_config = settings(
        **{name: getattr(saved, name, None) for name in kept},
        eos_token_id=sorted(ends) or None,
        pad_token_id=pad,
        use_cache=True,
    )
    return Loaded(model, tokenizer, bool(model.config.is_encoder_decoder), ends, pad, tokens)


def _ids(value: int | list[int] | None) -> frozenset[int]:
    return frozenset() if value is None else frozenset([value] if isinstance(value, int) else value)


@contextmanager
def _errors(name: str, part: str) -> Iterator[None]:
    """What transformers raises on a damaged or unknown model, as one sentence."""
    try:
        yield
    except (DecabenchError, MemoryError):
        raise
    except Exception as error:
        said = excerpt(str(error), 300)
        if "trust_remote_code" in said or "custom code" in said:
            raise DecabenchError(
                f"hf: {name} asks for its own code to be run, which decabench never does: serve it with another "
                "program and use openai:URL."
            ) from error
        raise DecabenchError(
            f"hf: the {part} of {name} cannot be loaded ({type(error).__name__}: {said})."
        ) from error
