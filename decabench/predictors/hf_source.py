"""Where a Hugging Face model is: a folder, a GGUF file, or a repository of the hub at a commit."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from decabench.errors import DecabenchError
from decabench.predictors.texts import excerpt

__all__ = ["Source", "find_source", "local_folder", "read_config"]

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
