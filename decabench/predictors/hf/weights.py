"""Find a model's files, reject incomplete models and files that could run code, and load the weights."""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext, redirect_stderr
from dataclasses import dataclass, replace
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from decabench.errors import DecabenchError, ModelError, require_package
from decabench.text import excerpt
from decabench.untrusted import read_json

SMALL = ("*.json", "*.jinja", "*.model", "*.spm", "*.txt", "*.tiktoken", "*.vocab")
"""Configuration and tokenizer files, which are checked before a run."""

WEIGHTS = "*.safetensors"
"""The only weight files to download and load, because pickle files can run code."""

NOT_FETCHED = ("*/*", "consolidated*")
"""Files that aren't downloaded because they contain the same weights in another format."""

TOKENIZERS = ("tokenizer.json", "tekken.json", "*.model", "*.spm", "*.tiktoken", "vocab.*", "*.vocab")
"""Tokenizer files. A model must have at least one of them."""

_ADAPTER = "adapter_config.json"
_REPOSITORY = re.compile(r"[\w.-]+(/[\w.-]+)?")
_GGUF_OF_REPOSITORY = re.compile(r"([\w.-]+/[\w.-]+)/([\w./-]+\.gguf)")


@dataclass(frozen=True)
class ModelSource:
    """The location of a model. Instances are small and can be pickled.

    A model folder must have the same path on every machine that loads it.
    """

    name: str
    """The repository's name, or the last part of the path."""
    folder: str | None = None
    """The folder of a local model."""
    commit: str | None = None
    """The full commit hash of a model on the Hub."""
    gguf: str | None = None
    """The GGUF file in the folder or repository, if any."""
    adapter: str | None = None
    """The local folder of a PEFT adapter, if any."""


def find_source(target: str, revision: str | None) -> ModelSource:
    """Find the model named by `target`, resolving a name on the Hub to its commit.

    Raises DecabenchError if there is no such model, or if it is incomplete or requires code from the Hub.
    """
    path = Path(target).expanduser()
    if target and path.is_file():
        if path.suffix != ".gguf":
            raise DecabenchError(
                f"hf: {target} is a file but not a .gguf file. Specify a folder, a .gguf file, or a model on the Hub "
                "as owner/name."
            )
        # In the Hub's cache, the file is a symbolic link to a file without a suffix, so only the folder is resolved.
        return ModelSource(path.name, str(path.parent.resolve()), gguf=path.name)
    if target and path.is_dir():
        return _in_folder(path.resolve())
    if in_repository := _GGUF_OF_REPOSITORY.fullmatch(target):
        repository, file = in_repository.groups()
        return ModelSource(repository, commit=_snapshot(repository, revision, ()).name, gguf=file)
    if not _REPOSITORY.fullmatch(target) or target.startswith("."):
        missing = f"there is no folder {target!r}" if target else "no model is specified"
        raise DecabenchError(f"hf: {missing}. Specify a local folder, or a model on the Hub as owner/name.")
    folder = _snapshot(target, revision, SMALL)
    _check(target, folder)
    return ModelSource(target, commit=folder.name)


def require_packages(*more: str) -> None:
    """Raise DecabenchError if torch, transformers or one of the given packages is not installed."""
    if "bitsandbytes" in more and find_spec("bitsandbytes") is None:
        raise DecabenchError(
            "hf: --quantize requires the package bitsandbytes. Run pip install bitsandbytes."
        )
    require_package("The predictor hf", "hf", "torch", "transformers", *more)


def with_adapter(source: ModelSource, adapter: str) -> ModelSource:
    """Return a copy of the source that uses an adapter from a folder or the Hub.

    Raises DecabenchError if there is no such adapter, or if it isn't in safetensors format.
    """
    require_packages("peft")
    folder = Path(adapter).expanduser()
    if not folder.is_dir():
        if not _REPOSITORY.fullmatch(adapter) or adapter.startswith("."):
            raise DecabenchError(
                f"hf: there is no adapter {adapter!r}. Specify a local folder, or an adapter on the Hub as owner/name."
            )
        folder = _snapshot(adapter, None, (_ADAPTER, WEIGHTS))
    if not (folder / _ADAPTER).is_file() or not next(folder.glob(WEIGHTS), None):
        raise DecabenchError(
            f"hf: {adapter} is not an adapter in safetensors format. An adapter consists of {_ADAPTER} and "
            "adapter_model.safetensors, which are written by peft's save_pretrained."
        )
    return replace(source, adapter=str(folder.resolve()))


def local_folder(source: ModelSource, weights: bool = True) -> Path:
    """Return a model's folder, downloading missing files from the Hub.

    Without `weights`, only small files are downloaded, but a GGUF file is always downloaded completely.
    Raises DecabenchError if the folder or a file is missing, or if a download fails.
    """
    if source.folder is not None:
        folder = Path(source.folder)
        if not folder.is_dir():
            raise DecabenchError(
                f"hf: there is no folder {folder} on this machine. Put the model where all machines can read it."
            )
    elif source.gguf is not None:
        folder = _snapshot(source.name, source.commit, (source.gguf,))
    else:
        folder = _snapshot(source.name, source.commit, (*SMALL, WEIGHTS) if weights else SMALL)
    if source.gguf is not None and not (folder / source.gguf).is_file():
        raise DecabenchError(f"hf: {source.name} has no file {source.gguf}. Check the model's list of files.")
    if source.gguf is None and weights:
        _check_weights(source.name, folder)
    return folder


def _in_folder(folder: Path) -> ModelSource:
    files = sorted(path.name for path in folder.glob("*.gguf"))
    if files and not (folder / "config.json").exists():
        if len(files) > 1:
            raise DecabenchError(
                f"hf: {folder.name} contains {len(files)} GGUF files ({', '.join(files)}). Specify one of these files."
            )
        return ModelSource(files[0], str(folder), gguf=files[0])
    _check(folder.name, folder)
    _check_weights(folder.name, folder)
    return ModelSource(folder.name, str(folder))


def _check(name: str, folder: Path) -> None:
    if (folder / _ADAPTER).exists():  # transformers might load it with the model, but it wouldn't be recorded
        raise DecabenchError(
            f"hf: {name} is an adapter. Specify the adapter's base model, as in hf:MODEL --adapter {name}."
        )
    try:
        config = read_json(folder / "config.json")
    except FileNotFoundError:
        raise DecabenchError(
            f"hf: {name} has no config.json, so it is not a transformers model. Specify a folder written by "
            "save_pretrained, or a .gguf file."
        ) from None
    except (OSError, ValueError) as error:
        raise DecabenchError(f"hf: config.json in {name} can't be read ({excerpt(str(error))}).") from None
    if kernel := next((kernel for kernel in _kernels(config) if "/" in kernel), ""):
        raise DecabenchError(
            f"hf: config.json in {name} requests the kernels {excerpt(kernel)} from the Hub. decabench does not "
            "download kernels, because they are code. Remove the setting that requests them."
        )
    if not any(next(folder.glob(pattern), None) for pattern in TOKENIZERS):
        raise DecabenchError(
            f"hf: {name} has no tokenizer. Save the tokenizer next to the model with tokenizer.save_pretrained."
        )


def _kernels(config: Any) -> Iterator[str]:
    if isinstance(config, list):
        for value in config:
            yield from _kernels(value)
    elif isinstance(config, dict):
        for key, value in config.items():
            if key == "quant_method" and value == "mxfp4":
                yield "kernels-community/triton_kernels"  # transformers always downloads it for this format
            elif key.endswith("_implementation"):
                yield from map(str, value.values() if isinstance(value, dict) else (value,))
            else:
                yield from _kernels(value)


def _check_weights(name: str, folder: Path) -> None:
    if next(folder.glob(WEIGHTS), None):
        return
    if next(folder.glob("*.bin"), None) or next(folder.glob("*.pt"), None):
        raise DecabenchError(
            f"hf: {name} has only pickled weights, which can run code. Save the model again with "
            "save_pretrained(..., safe_serialization=True)."
        )
    raise DecabenchError(
        f"hf: {name} has no weights in safetensors format (*.safetensors). Specify a model in this format, or a .gguf "
        "file."
    )


def _snapshot(repository: str, revision: str | None, patterns: tuple[str, ...]) -> Path:
    import huggingface_hub

    ignored = None if any("/" in pattern for pattern in patterns) else list(NOT_FETCHED)
    with _hub_errors(repository, revision):
        found = huggingface_hub.snapshot_download(
            repository, revision=revision, allow_patterns=list(patterns), ignore_patterns=ignored
        )
    return Path(found)


_REFUSALS = {
    "GatedRepoError": "you must set HF_TOKEN and accept the terms on the repository's page",
    "RevisionNotFoundError": "there is no revision with this name",
    "RepositoryNotFoundError": "there is no such repository, or HF_TOKEN does not grant access to it",
    "HFValidationError": "this is not a valid repository name",
}
"""Explanations of errors raised by the Hub client, by exception class name."""


@contextmanager
def _hub_errors(repository: str, revision: str | None) -> Iterator[None]:
    """Replace the Hub's errors with decabench's own, because the Hub's messages may contain an access token."""
    try:
        yield
    except (OSError, RuntimeError, ValueError) as error:
        kind, status = type(error).__name__, getattr(getattr(error, "response", None), "status_code", "")
    else:
        return
    at = f"{repository} at {revision}" if revision else repository
    start = f"hf: {at} is not a local folder, and could not be fetched from the Hub"
    if kind in _REFUSALS:
        raise DecabenchError(f"{start}: {_REFUSALS[kind]}.")
    raise ModelError(
        f"{start}: the Hub can't be reached, and the files are not in the local cache "
        f"({kind}{status and f', HTTP status {status}'}). Specify a local folder, set HF_ENDPOINT to a mirror, or set "
        "HF_HOME to a cache that has the model."
    )


SANE = 10_000_000
"""The highest plausible sequence length, in tokens. Tokenizers without a maximum report a far larger number."""


@dataclass(frozen=True)
class Loaded:
    """A model in memory, ready for use."""

    model: Any
    """The transformers model, in evaluation mode."""
    tokenizer: Any
    """The model's tokenizer."""
    is_encoder_decoder: bool
    """Whether prompts are passed to an encoder, which leaves the decoder's whole window for the answer."""
    ends: frozenset[int]
    """The ids of tokens that end an answer."""
    pad: int
    """The id of the padding token, which is hidden by the attention mask."""
    tokens: int
    """The vocabulary size. A token id beyond it would crash the process on a GPU."""

    @cached_property
    def grammar_vocabulary(self) -> Any:
        """The vocabulary in the form that llguidance reads."""
        from llguidance.hf import from_tokenizer

        return from_tokenizer(self.tokenizer, n_vocab=self.tokens, eos_token=sorted(self.ends))


def load_config(source: ModelSource, folder: Path) -> Any:
    """Load the model's configuration. Raises DecabenchError if that fails."""
    with _errors(source.name, "configuration"):
        from transformers import AutoConfig

        return AutoConfig.from_pretrained(folder, **_common(source))


def load_tokenizer(source: ModelSource, folder: Path) -> Any:
    """Load the model's tokenizer. Raises DecabenchError if that fails, or if its chat template can't be inspected."""
    with _errors(source.name, "tokenizer"):
        from transformers import AutoTokenizer

        tokenizer = AutoTokenizer.from_pretrained(folder, **_common(source))
    if type(tokenizer).__name__.startswith("MistralCommon"):
        raise DecabenchError(
            f"hf: the tokenizer of {source.name} is from mistral_common, whose chat template can't be inspected. "
            "Uninstall that package, or serve the model and use openai:URL."
        )
    return tokenizer


def load_model(
    source: ModelSource,
    folder: Path,
    dtype: str,
    device: str,
    device_map: str | None = None,
    quantize: str | None = None,
) -> Loaded:
    """Load a model's weights.

    Raises DecabenchError if the weights can't be loaded, or if tensors are missing, which transformers would
    initialize randomly.
    """
    import torch
    import transformers

    config = load_config(source, folder)
    tokenizer = load_tokenizer(source, folder)
    given: dict[str, Any] = {"device_map": device_map} if device_map else {}
    if source.gguf:
        # The weights are unpacked, because packed weights need compiled kernels, which transformers would
        # download from the Hub. Versions of transformers without this setting always unpack.
        config_class = getattr(transformers, "GgufConfig", None)
        given |= {"quantization_config": config_class(dequantize=True)} if config_class else {}
    else:
        given |= {"use_safetensors": True}
    if quantize:
        given = {"device_map": {"": device}} | given | {"quantization_config": _quantization(quantize, dtype)}
    # While unpacking a GGUF file, transformers shows a progress bar that can't be turned off.
    with _errors(source.name, "weights"), redirect_stderr(io.StringIO()) if source.gguf else nullcontext():
        kind: Any = transformers.AutoModelForCausalLM
        if config.is_encoder_decoder:
            kind = transformers.AutoModelForSeq2SeqLM
        model, report = kind.from_pretrained(
            folder,
            config=config,
            dtype=getattr(torch, dtype),
            output_loading_info=True,
            **_common(source),
            **given,
        )
        if not device_map and getattr(model, "hf_quantizer", None) is None:
            model.to(device)  # quantized weights are already on their device
    _require_whole(source.name, report)
    if source.adapter:
        model = _adapted(model, Path(source.adapter), merges=not quantize)
    return _ready(model.eval(), tokenizer)


def _quantization(quantize: str, dtype: str) -> Any:
    import transformers

    config: Any = transformers.BitsAndBytesConfig  # untyped
    if quantize == "8bit":
        return config(load_in_8bit=True)
    return config(load_in_4bit=True, bnb_4bit_quant_type="nf4", bnb_4bit_compute_dtype=dtype)


def _adapted(model: Any, folder: Path, merges: bool) -> Any:
    from peft import PeftModel

    with _errors(folder.name, "adapter"), warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # peft uses names that transformers has deprecated
        warnings.filterwarnings("error", message=".*missing adapter keys")
        adapted = PeftModel.from_pretrained(model, str(folder), local_files_only=True, use_safetensors=True)
        return adapted.merge_and_unload() if merges else adapted.get_base_model()


def positions(config: Any) -> int | None:
    """Return the model's maximum sequence length in tokens, or None if its configuration states no plausible limit."""
    found = getattr(config.get_text_config(decoder=True), "max_position_embeddings", None)
    return found if isinstance(found, int) and 0 < found < SANE else None


def _common(source: ModelSource) -> dict[str, Any]:
    return {
        "local_files_only": True,
        "trust_remote_code": False,
        **({"gguf_file": source.gguf} if source.gguf else {}),
    }


def _require_whole(name: str, report: dict[str, Any]) -> None:
    absent = sorted({*report.get("missing_keys", ()), *(key[0] for key in report.get("mismatched_keys", ()))})
    if absent:
        raise DecabenchError(
            f"hf: the weights in {name} lack {len(absent)} of the model's tensors ({absent[0]}, ...), which would be "
            "initialized at random. Check that the model generates text and was saved completely."
        )


def _ready(model: Any, tokenizer: Any) -> Loaded:
    """Prepare a loaded model. Of its generation settings, only special tokens are kept; decabench controls the rest."""
    import transformers

    settings: Any = transformers.GenerationConfig  # untyped
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
    try:
        yield
    except (DecabenchError, MemoryError):
        raise
    except Exception as error:
        said = excerpt(str(error), 300)
        if "trust_remote_code" in said or "custom code" in said:
            raise DecabenchError(
                f"hf: {name} requires custom code, which decabench never runs. Serve the model with another program "
                "and use openai:URL."
            ) from error
        raise ModelError(
            f"hf: the {part} for {name} can't be loaded ({type(error).__name__}: {said})."
        ) from error


_SHORT, _LONG = 6, 15  # lengths of the two test prompts, in tokens

_TOLERANCE = {"torch.float32": 1e-3}
"""The maximum difference between scores with and without padding, by data type.

The difference is relative to the largest score. Data types not listed here use `_COARSE`. If the
model ignores padding, scores change by about 1e-6. Otherwise, they change by at least 0.1.
"""

_COARSE = 0.1  # the tolerance for data types with a precision of only two or three digits


def pads_safely(loaded: Loaded) -> bool:
    """Run a prompt with and without padding, and return whether the scores agree.

    A model that reads padding as text can process only one prompt at a time. Examples are recurrent models that
    ignore the attention mask (RWKV, RecurrentGemma) and models with relative attention, such as XLNet.
    """
    alone = _scores(loaded, [_SHORT])[0]
    padded = _scores(loaded, [_SHORT, _LONG])[0]
    tolerance = _TOLERANCE.get(str(loaded.model.dtype), _COARSE)
    largest = alone.abs().max().clamp_min(1e-9)
    return bool((alone - padded).abs().max() <= tolerance * largest)


def _scores(loaded: Loaded, lengths: list[int]) -> Any:
    """Return the scores for the first generated token, as a float32 tensor of shape (batch, vocabulary).

    There is a test prompt for each of `lengths`, which are in tokens.
    """
    import torch

    # Any tokens work, as long as all prompts start with the same tokens.
    rows = [[id_ % loaded.tokens for id_ in range(7, 7 + length)] for length in lengths]
    with torch.inference_mode():
        made = loaded.model.generate(
            **padded(loaded, rows),
            max_new_tokens=1,
            do_sample=False,
            num_beams=1,
            output_logits=True,
            return_dict_in_generate=True,
        )
    return torch.nan_to_num(made.logits[0].float(), nan=0.0, posinf=0.0, neginf=0.0).cpu()


def padded(loaded: Loaded, rows: Sequence[Sequence[int]], left: bool | None = None) -> dict[str, Any]:
    """Pad rows of token ids to the length of the longest row.

    Returns `input_ids` and `attention_mask`, both of shape (rows, longest). By default, rows for causal
    models are padded on the left, because the answer must directly follow the prompt.
    """
    import torch

    left = not loaded.is_encoder_decoder if left is None else left
    longest = max(map(len, rows))
    ids = torch.full((len(rows), longest), loaded.pad, dtype=torch.long)
    mask = torch.zeros_like(ids)
    for at, row in enumerate(rows):
        place = slice(longest - len(row), longest) if left else slice(0, len(row))
        ids[at, place] = torch.tensor(row, dtype=torch.long)
        mask[at, place] = 1
    device = loaded.model.device
    return {"input_ids": ids.to(device), "attention_mask": mask.to(device)}
