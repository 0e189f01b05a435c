"""Which options `hf:` honours, and what they must be."""

from __future__ import annotations

from importlib.util import find_spec

from decabench.errors import DecabenchError
from decabench.models.devices import check_name, first_device
from decabench.predictors.options import ModelOptions, unused

__all__ = ["check_options", "chosen_device", "require_packages"]

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
