"""`hf:NAME_OR_PATH`: a model of Hugging Face transformers, from the hub, a folder or a GGUF file."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from decabench.errors import DecabenchError
from decabench.files import file_digest
from decabench.models import check_name, first_device, require_device
from decabench.predictors.hf.generation import Decoding, Generator, Prompter, free, room
from decabench.predictors.hf.stream import BatchSize, HfPredictor
from decabench.predictors.hf.weights import (
    SANE,
    Loaded,
    Source,
    find_source,
    load_config,
    load_model,
    load_tokenizer,
    local_folder,
    pads_safely,
    positions,
)
from decabench.predictors.options import ModelOptions, unused
from decabench.predictors.protocol import PredictorFactory, Setting
from decabench.tasks import Question

if TYPE_CHECKING:
    from decabench.prompts import Prompting

__all__ = [
    "Facts",
    "HfBackend",
    "backend",
    "check_options",
    "chosen_device",
    "folder_digest",
    "quiet",
    "require_packages",
]

# ---- hf_options

DTYPES = ("auto", "float32", "bfloat16", "float16")
"""What `--dtype` takes."""

USED = (
    "revision",
    "dtype",
    "device",
    "device_map",
    "batch_size",
    "max_new_tokens",
    "max_prompt_tokens",
    "temperature",
    "top_p",
    "seed",
    "chat",
)
"""The other options are of servers, programs and trained MQANs."""


def check_options(options: ModelOptions) -> None:
    """Raises DecabenchError for an option that does not fit."""
    if flag := unused(options, USED):
        raise DecabenchError(f"hf: has no use for {flag}: it is for other predictors.")
    if (options.dtype or "auto") not in DTYPES:
        raise DecabenchError(f"--dtype is one of {', '.join(DTYPES)}, and {options.dtype} was given.")
    check_name(options.device or "auto")
    if options.device_map and options.device not in (None, "auto", "cuda"):
        raise DecabenchError("--device-map chooses the devices: leave out --device, or give --device cuda.")
    for name in ("batch_size", "max_new_tokens", "max_prompt_tokens"):
        value = getattr(options, name)
        if value is not None and value < 1:
            raise DecabenchError(f"--{name.replace('_', '-')} must be 1 or more, and {value} was given.")
    _check_sampling(options)


def _check_sampling(options: ModelOptions) -> None:
    if not 0 <= options.temperature < float("inf"):
        raise DecabenchError(f"--temperature must be 0 or more, and {options.temperature:g} was given.")
    if options.top_p is None:
        return
    if not options.temperature:
        raise DecabenchError("--top-p needs a --temperature above 0: greedy decoding draws nothing.")
    if not 0 < options.top_p <= 1:
        raise DecabenchError(f"--top-p must be above 0 and at most 1, and {options.top_p:g} was given.")


def chosen_device(options: ModelOptions) -> str:
    """The device that was asked for; else the first of cuda, mps and cpu that is here."""
    if options.device not in (None, "auto"):
        return str(options.device)
    return first_device()


def require_packages(*more: str) -> None:
    """Raises DecabenchError where the extra is not installed, or a package for GGUF or for a device map."""
    missing = [name for name in ("torch", "transformers", *more) if find_spec(name) is None]
    if missing:
        raise DecabenchError(f"hf: needs {' and '.join(missing)}: pip install 'decabench[hf]'.")


# ---- hf_quiet


@contextmanager
def quiet() -> Iterator[None]:
    """No progress bars and no warnings of transformers inside; as they were afterwards."""
    os.environ.setdefault("USE_HUB_KERNELS", "0")  # read at the first import: kernels of the hub are code
    logging: Any = import_module("transformers.utils.logging")  # which has no types
    verbosity, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(verbosity)
        if bars:
            logging.enable_progress_bar()


# ---- hf_digest

DECIDING = {".safetensors", ".json", ".jinja", ".model", ".spm", ".txt", ".tiktoken", ".vocab"}
"""Weights, configuration and tokenizer. What else lies in a folder (a README, a log) decides nothing."""

_known: dict[tuple[str, int, int, int, int], str] = {}
"""Of this process alone: path, inode, size and times of a file to its digest, for it to be read once a run."""


def folder_digest(folder: Path, gguf: str | None) -> str:
    """`sha256:` over the name and sha256 of every file that decides, or of the GGUF file. Raises DecabenchError."""
    try:
        if gguf is not None:
            return _digest(folder / gguf)
        files = sorted(path for path in folder.iterdir() if path.suffix in DECIDING and path.is_file())
        lines = [f"{path.name} {_digest(path)}\n" for path in files]
    except OSError as error:
        raise DecabenchError(f"hf: the model in {folder} cannot be read: {error.strerror}.") from None
    return f"sha256:{hashlib.sha256(''.join(lines).encode()).hexdigest()}"


def _digest(path: Path) -> str:
    status = path.stat()
    key = (str(path), status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
    if key not in _known:
        _known[key] = file_digest(path)
    return _known[key]


# ---- hf

LARGEST = {"cpu": 32, "cuda": 256, "mps": 64}
"""The largest batch of `auto`: beyond it nothing is gained."""


@dataclass(frozen=True)
class Facts:
    """What was found out about a model, with its weights still on the disk."""

    digest: str | None
    """Of its files; None for what is on the hub, where the commit says it."""
    architecture: str
    """The class of the model, as its configuration names it."""
    is_encoder_decoder: bool
    """Whether it is; else causal."""
    chat_template: str | None
    """The sha256 of the template that is used; None for plain text."""
    dtype: str
    """What it computes in."""
    device: str
    """What it runs on."""
    positions: int | None
    """The longest sequence; None where there is no limit."""
    advised: int | None
    """The longest prompt by the tokenizer's own account."""


@dataclass(frozen=True)
class HfBackend:
    """A model before it is loaded. Device and dtype are settled here, so that every worker uses the same.

    Answers on CPU in float32 do not depend on the batch (see hf_generation); elsewhere they can, in rare ties, so
    that there the batch size is part of what is described.
    """

    source: Source
    """Where it is."""
    options: ModelOptions
    """What was asked for."""
    facts: Facts
    """What it is."""

    prompted = True

    def describe(self) -> dict[str, Any]:
        """The model, its weights, how it is prompted and how it decodes; no path."""
        options, facts = self.options, self.facts
        given = {
            "revision": self.source.commit or options.revision,
            "weights": facts.digest,
            "gguf": self.source.gguf,
            "chat_template": facts.chat_template,
            "max_new_tokens": options.max_new_tokens,
            "max_prompt_tokens": options.max_prompt_tokens,
            "batch_size": None if self._watchful else options.batch_size or "auto",
        }
        sampling = {"temperature": options.temperature, "top_p": options.top_p or 1.0, "seed": options.seed}
        return {
            "model": self.source.name,
            "architecture": facts.architecture,
            "dtype": facts.dtype,
            "chat": facts.chat_template is not None,
            "decoding": sampling if options.temperature else "greedy",
            "transformers": version("transformers"),
            "torch": version("torch").partition("+")[0],
            **{name: value for name, value in given.items() if value is not None},
        }

    @contextmanager
    def open(self) -> Iterator[PredictorFactory]:
        """Loads the weights; leaving frees them. Raises DecabenchError where they are not those described."""
        require_device(self.facts.device)
        with quiet():
            folder = local_folder(self.source)
            self._require_same(folder)
            options, facts = self.options, self.facts
            held = [load_model(self.source, folder, facts.dtype, facts.device, options.device_map)]
            rows = options.batch_size if pads_safely(held[0]) else 1
            size = BatchSize(rows, LARGEST[facts.device.partition(":")[0]])
            try:
                yield lambda setting: self._predictor(setting, held[0], size)
            finally:
                held.clear()
                free()

    def token_counter(self) -> Callable[[Prompting, Question], int]:
        """Counts the tokens of prompts; loads the tokenizer alone."""
        with quiet():
            tokenizer = load_tokenizer(self.source, local_folder(self.source, weights=False))
        chat = self.facts.chat_template is not None
        return lambda prompting, question: Prompter(tokenizer, prompting, chat).count(question)

    @property
    def label(self) -> str:
        """What the submission calls it: a name without the folders above it, which are nobody's business."""
        return f"hf:{self.source.name}"

    @property
    def gpus(self) -> float:
        """GPUs that a copy on a cluster takes: one, or as many as this machine has where the weights are spread."""
        if not self.facts.device.startswith("cuda"):
            return 0.0
        if self.options.device_map is None:
            return 1.0
        import torch

        return float(max(1, torch.cuda.device_count()))

    @property
    def _watchful(self) -> bool:
        """Whether the answers are held independent of the batch. What falls out of a nucleus cannot be watched."""
        is_exact = self.facts.device == "cpu" and self.facts.dtype == "float32"
        return is_exact and self.options.top_p in (None, 1.0)

    def _require_same(self, folder: Path) -> None:
        if self.facts.digest is not None and folder_digest(folder, self.source.gguf) != self.facts.digest:
            raise DecabenchError(
                f"hf: the files of {self.source.name} are not those that the run began with: run the command again, "
                "and on a cluster give every machine the same files."
            )

    def _predictor(self, setting: Setting, loaded: Loaded, size: BatchSize) -> HfPredictor:
        if setting.prompting is None:
            raise DecabenchError(f"hf: asks with prompts, and there is none for {setting.task.name}.")
        prompting, options, facts = setting.prompting, self.options, self.facts
        chat = facts.chat_template is not None
        decoding = Decoding(
            task=setting.task.name,
            max_new_tokens=options.max_new_tokens or prompting.max_new_tokens,
            stop=() if chat else prompting.stop,
            temperature=options.temperature,
            top_p=options.top_p,
            seed=options.seed,
        )
        taken = 0 if loaded.is_encoder_decoder else decoding.max_new_tokens
        budget = room(facts.positions, facts.advised, options.max_prompt_tokens, taken)
        prompter = Prompter(loaded.tokenizer, prompting, chat, budget)
        return HfPredictor(prompter, Generator(loaded, decoding, self._watchful), size)


def backend(target: str, options: ModelOptions) -> HfBackend:
    """The backend for a folder, a GGUF file or a name of the hub; fetches the small files. Raises DecabenchError."""
    require_packages(*(("accelerate",) if options.device_map else ()))
    check_options(options)
    source = find_source(target, options.revision)
    if source.gguf:
        require_packages("gguf", "accelerate")
    with quiet():
        return HfBackend(source, options, _facts(source, options))


def _facts(source: Source, options: ModelOptions) -> Facts:
    folder = local_folder(source, weights=False)
    config, tokenizer = load_config(source, folder), load_tokenizer(source, folder)
    device = chosen_device(options)
    saved = str(config.dtype).removeprefix("torch.") if getattr(config, "dtype", None) else "float32"
    asked = options.dtype or "auto"
    advised = tokenizer.model_max_length
    return Facts(
        digest=folder_digest(folder, source.gguf) if source.folder else None,
        architecture=(config.architectures or [config.model_type])[0],
        is_encoder_decoder=bool(config.is_encoder_decoder),
        chat_template=_chat_template(source.name, tokenizer, options.chat),
        dtype=("float32" if device == "cpu" else saved) if asked == "auto" else asked,
        device=device,
        positions=positions(config),
        advised=advised if advised and advised < SANE else None,
    )


def _chat_template(name: str, tokenizer: Any, asked: bool | None) -> str | None:
    has = bool(tokenizer.chat_template)
    if asked and not has:
        raise DecabenchError(f"hf: {name} has no chat template: leave out --chat for plain text.")
    if not has or asked is False:
        return None
    return hashlib.sha256(tokenizer.get_chat_template().encode()).hexdigest()
