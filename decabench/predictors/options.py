"""What can be asked of a model, whatever runs it: one value behind the options of `decabench predict`."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, fields

__all__ = ["ModelOptions", "unused"]


@dataclass(frozen=True)
class ModelOptions:
    """The options of models. None is "not given": the backend's own default, which it names in `describe`.

    A backend refuses what it cannot honour: an option that was given and not used would be a lie in the record.
    """

    model: str | None = None
    """The name that a server knows the model by."""
    revision: str | None = None
    """A commit or tag of the hub; for what has none, any text that names the version of the weights."""
    api: str | None = None
    """`chat` or `completions`, of the OpenAI API."""
    dtype: str | None = None
    """`float32`, `bfloat16`, `float16` or `auto`, the one that the weights were saved in."""
    device: str | None = None
    """`auto`, `cpu`, `cuda`, `cuda:1`, `mps`."""
    device_map: str | None = None
    """How transformers spreads the weights over devices: `auto`, `balanced`, ..."""
    batch_size: int | None = None
    """Questions at once; None is the backend's own choice, `auto` where it can."""
    max_new_tokens: int | None = None
    """The limit for every task, instead of the template's for each."""
    max_prompt_tokens: int | None = None
    """The longest prompt; the context is cut to fit, and the answer says so."""
    temperature: float = 0.0
    """0 is greedy."""
    top_p: float | None = None
    """Nucleus sampling, with a temperature above 0."""
    beam: int | None = None
    """How many answers a beam search goes on with; 1 is greedy."""
    seed: int = 0
    """For sampling."""
    concurrency: int | None = None
    """Requests in flight."""
    requests_per_minute: float | None = None
    """The rate limit."""
    timeout: float | None = None
    """Seconds that a request, or a program's answer, may take."""
    retries: int | None = None
    """How often a request is sent again."""
    chat: bool | None = None
    """Whether to use the model's chat template; None where it has one."""


def unused(options: ModelOptions, used: Collection[str]) -> str | None:
    """The first option that was given and is not among those that are used, as it is typed: `--top-p`."""
    for option in fields(options):
        given = getattr(options, option.name)
        if option.name not in used and given != option.default:
            return f"--{'no-' if given is False else ''}{option.name.replace('_', '-')}"
    return None
