"""Whether a model answers a padded prompt as it answers the prompt alone. Some architectures do not."""

from __future__ import annotations

import io
import json
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, redirect_stderr
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from decabench.errors import DecabenchError
from decabench.text import excerpt

__all__ = [
    "Loaded",
    "Source",
    "find_source",
    "load_config",
    "load_model",
    "load_tokenizer",
    "local_folder",
    "pads_safely",
    "positions",
    "read_config",
]

# ---- hf_source

SMALL = ("*.json", "*.jinja", "*.model", "*.spm", "*.txt", "*.tiktoken", "*.vocab")
"""Configuration and tokenizer, which are looked at before a run."""

WEIGHTS = "*.safetensors"
"""The only weights that are fetched and loaded; pickles can run code."""

NOT_FETCHED = ("*/*", "consolidated*")
"""Other formats of the same weights, which repositories keep beside those for transformers."""

TOKENIZERS = ("tokenizer.json", "tekken.json", "*.model", "*.spm", "*.tiktoken", "vocab.*", "*.vocab")
"""What a tokenizer is read from: one of them is enough."""

_REPOSITORY = re.compile(r"[\w.-]+(/[\w.-]+)?")
_GGUF_OF_REPOSITORY = re.compile(r"([\w.-]+/[\w.-]+)/([\w./-]+\.gguf)")


@dataclass(frozen=True)
class Source:
    """A model that was found. It can be pickled; a folder must be at the same place wherever it is opened."""

    name: str
    """The repository's name, or the last part of the path."""
    folder: str | None = None
    """The folder, for what is on the disk."""
    commit: str | None = None
    """The full commit, for what is on the hub."""
    gguf: str | None = None
    """The file in the folder or repository, for GGUF."""


def find_source(target: str, revision: str | None) -> Source:
    """The model that `target` names. A name of the hub is resolved to its commit. Raises DecabenchError."""
    path = Path(target).expanduser()
    if target and path.is_file():
        if path.suffix != ".gguf":
            raise DecabenchError(
                f"hf: takes a folder, a .gguf file or a name of the hub, and {target} is a file."
            )
        return Source(path.name, str(path.resolve().parent), gguf=path.name)
    if target and path.is_dir():
        return _in_folder(path.resolve())
    if in_repository := _GGUF_OF_REPOSITORY.fullmatch(target):
        repository, file = in_repository.groups()
        return Source(repository, commit=_snapshot(repository, revision, ()).name, gguf=file)
    if not _REPOSITORY.fullmatch(target) or target.startswith("."):
        raise DecabenchError(
            f"hf: finds no folder {target!r}, and it is no name of the hub, which looks like owner/name."
        )
    folder = _snapshot(target, revision, SMALL)
    _check(target, folder)
    return Source(target, commit=folder.name)


def local_folder(source: Source, weights: bool = True) -> Path:
    """The folder with everything in it, or without the weights; fetches what the hub's cache lacks.

    Raises DecabenchError. A GGUF file is one piece: there is nothing without its weights.
    """
    if source.folder is not None:
        folder = Path(source.folder)
        if not folder.is_dir():
            raise DecabenchError(
                f"hf: the folder {folder} is not on this machine: put the model where all can read it."
            )
    elif source.gguf is not None:
        folder = _snapshot(source.name, source.commit, (source.gguf,))
    else:
        folder = _snapshot(source.name, source.commit, (*SMALL, WEIGHTS) if weights else SMALL)
    if source.gguf is not None and not (folder / source.gguf).is_file():
        raise DecabenchError(f"hf: {source.name} has no file {source.gguf}: look at what it lists.")
    if source.gguf is None and weights:
        _check_weights(source.name, folder)
    return folder


def read_config(name: str, folder: Path) -> dict[str, Any]:
    """The model's config.json. Raises DecabenchError."""
    try:
        content = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise DecabenchError(
            f"hf: {name} has no config.json, so it is no model of transformers: name the folder that save_pretrained "
            "wrote, or a .gguf file."
        ) from None
    except (OSError, ValueError) as error:
        raise DecabenchError(f"hf: config.json of {name} cannot be read ({excerpt(str(error))}).") from None
    if not isinstance(content, dict):
        raise DecabenchError(f"hf: config.json of {name} is no JSON object.")
    return content


def _in_folder(folder: Path) -> Source:
    files = sorted(path.name for path in folder.glob("*.gguf"))
    if files and not (folder / "config.json").exists():
        if len(files) > 1:
            raise DecabenchError(
                f"hf: {folder.name} has {len(files)} GGUF files ({', '.join(files)}): name one."
            )
        return Source(files[0], str(folder), gguf=files[0])
    _check(folder.name, folder)
    _check_weights(folder.name, folder)
    return Source(folder.name, str(folder))


def _check(name: str, folder: Path) -> None:
    """Refuses what transformers would take for something else, or would run code for."""
    if (folder / "adapter_config.json").exists():
        raise DecabenchError(
            f"hf: {name} is an adapter, whose base model would go unrecorded: merge the two and save them whole."
        )
    config = read_config(name, folder)
    if any("/" in kernel for kernel in _kernels(config)):
        raise DecabenchError(
            f"hf: config.json of {name} asks for kernels of the hub, which is code: remove that line."
        )
    if not any(next(folder.glob(pattern), None) for pattern in TOKENIZERS):
        raise DecabenchError(
            f"hf: {name} has no tokenizer: save it beside the model with tokenizer.save_pretrained."
        )


def _kernels(config: Any) -> Iterator[str]:
    """Every implementation of a layer that a config names, at any depth."""
    if isinstance(config, list):
        for value in config:
            yield from _kernels(value)
    elif isinstance(config, dict):
        for key, value in config.items():
            if key == "quant_method" and value == "mxfp4":
                yield "kernels-community/triton_kernels"  # what reads that form, fetched whatever is asked
            elif key.endswith("_implementation"):
                yield from map(str, value.values() if isinstance(value, dict) else (value,))
            else:
                yield from _kernels(value)


def _check_weights(name: str, folder: Path) -> None:
    if next(folder.glob(WEIGHTS), None):
        return
    if next(folder.glob("*.bin"), None) or next(folder.glob("*.pt"), None):
        raise DecabenchError(
            f"hf: {name} has only pickled weights, which can run code: save it with "
            "save_pretrained(..., safe_serialization=True)."
        )
    raise DecabenchError(
        f"hf: {name} has no weights in safetensors (*.safetensors), the only form that is loaded."
    )


def _snapshot(repository: str, revision: str | None, patterns: tuple[str, ...]) -> Path:
    """The folder of the hub's cache, named after the commit, with at least what matches."""
    import huggingface_hub

    ignored = None if any("/" in pattern for pattern in patterns) else list(NOT_FETCHED)
    with _hub_errors(repository, revision):
        found = huggingface_hub.snapshot_download(
            repository, revision=revision, allow_patterns=list(patterns), ignore_patterns=ignored
        )
    return Path(found)


@contextmanager
def _hub_errors(repository: str, revision: str | None) -> Iterator[None]:
    """The hub's errors as one sentence; what they quote may hold a token, so only the kind is told."""
    from huggingface_hub import errors

    at = f"{repository} at {revision}" if revision else repository
    try:
        yield
    except errors.GatedRepoError:
        reason = "its terms have to be accepted on its page, and HF_TOKEN set"
    except errors.RevisionNotFoundError:
        reason = f"it has no revision {revision}"
    except errors.RepositoryNotFoundError:
        reason = "there is no such repository, or HF_TOKEN may not read it"
    except errors.HFValidationError:
        reason = "that is no name of a repository"
    except (errors.LocalEntryNotFoundError, errors.OfflineModeIsEnabled):
        reason = "the hub cannot be reached, and its cache lacks the files"
    except errors.HfHubHTTPError as error:
        reason = f"the hub answered HTTP {getattr(error.response, 'status_code', 'error')}"
    except (OSError, RuntimeError) as error:
        reason = f"{type(error).__name__}{_of_disk(error)}"
    else:
        return
    raise DecabenchError(f"hf: {at} is no folder here, and was not fetched from the hub: {reason}.") from None


def _of_disk(error: BaseException) -> str:
    return f", {os.strerror(error.errno)}" if isinstance(error, OSError) and error.errno else ""


# ---- hf_loading

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


# ---- hf_padding

_SHORT, _LONG = 6, 15  # tokens of the two prompts of the probe

_TOLERANCE = {"torch.float32": 1e-3}
"""Of the largest score. Attention that sees no padding moves scores by about 1e-6; what sees it, by a tenth or more."""

_COARSE = 0.1  # where a score has two or three digits


def pads_safely(loaded: Loaded) -> bool:
    """Asks the model one short prompt alone, and again padded beside a longer one.

    Recurrent models that pass over the attention mask (RWKV, RecurrentGemma) and relative attention of XLNet's kind
    take the padding for text: they can only be asked one prompt at a time.
    """
    alone = _scores(loaded, [_SHORT])[0]
    padded = _scores(loaded, [_SHORT, _LONG])[0]
    tolerance = _TOLERANCE.get(str(loaded.model.dtype), _COARSE)
    largest = alone.abs().max().clamp_min(1e-9)
    return bool((alone - padded).abs().max() <= tolerance * largest)


def _scores(loaded: Loaded, lengths: list[int]) -> Any:
    """The first token's scores, (batch, vocabulary), as float32."""
    import torch

    longest = max(lengths)
    ids = torch.full((len(lengths), longest), loaded.pad, dtype=torch.long)
    mask = torch.zeros_like(ids)
    for row, length in enumerate(lengths):
        at = slice(0, length) if loaded.is_encoder_decoder else slice(longest - length, longest)
        # Any tokens will do; the same ones begin every prompt.
        ids[row, at] = torch.arange(7, 7 + length) % loaded.tokens
        mask[row, at] = 1
    device = loaded.model.device
    with torch.inference_mode():
        made = loaded.model.generate(
            input_ids=ids.to(device),
            attention_mask=mask.to(device),
            max_new_tokens=1,
            do_sample=False,
            num_beams=1,
            output_logits=True,
            return_dict_in_generate=True,
        )
    return torch.nan_to_num(made.logits[0].float(), nan=0.0, posinf=0.0, neginf=0.0).cpu()
