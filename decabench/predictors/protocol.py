"""The interface between runs and predictors: options, questions, answers and failures.

Predictors receive only the questions of a split, never its answers. But Python code can read prepared data on
disk, so run untrusted predictors on a machine that doesn't have the answers.
"""

from __future__ import annotations

import json
import math
import operator
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, fields, replace
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, Literal, Protocol, runtime_checkable

from decabench.errors import DecabenchError
from decabench.files import canonical_json
from decabench.options import OptionInfo, option
from decabench.submission import Limits, read_details
from decabench.tasks import Question, Task
from decabench.text import excerpt, well_formed
from decabench.untrusted import parse_json

if TYPE_CHECKING:
    from decabench.prompts import Prompting

Finish = Literal["stop", "length", "refused"]
"""How an answer ended: normally, at the token limit, or with a refusal by the model or server."""


@dataclass(frozen=True, slots=True)
class Choice:
    """A label that a model could choose as the answer, and its likelihood."""

    label: str
    """The text of the label."""
    total: float
    """The log-likelihood of the label given the prompt."""
    tokens: int
    """The number of tokens in the label."""
    alone: float | None = None
    """The label's log-likelihood without the prompt; None if unknown."""

    def score(self, by: str = "sum") -> float:
        """Return the label's score.

        With `sum`, this is the log-likelihood. The other values of `by` divide it by the number of `characters`
        or `tokens`, or subtract the log-likelihood without the prompt (`unconditional`).
        """
        match by:
            case "characters":
                return self.total / max(1, len(self.label))
            case "tokens":
                return self.total / max(1, self.tokens)
            case "unconditional":
                return self.total - (self.alone or 0.0)
            case _:
                return self.total


CHOICES_BY = ("sum", "characters", "tokens", "unconditional")
"""The allowed values of `by` in `Choice.score`."""


def best_choice(choices: Iterable[Choice], by: str = "sum") -> str:
    """Return the label with the highest score, or the first in a tie."""
    return max(choices, key=lambda choice: choice.score(by)).label


@dataclass(frozen=True, slots=True)
class Answer:
    """A predictor's answer to a question, and how it was generated."""

    text: str
    """The raw text, exactly as generated."""
    finish: Finish = "stop"
    """How the answer ended."""
    context_kept: tuple[int, int] | None = None
    """The part of the context that the prompt includes, as character offsets [start, end); None for the whole context.
    """
    prompt_tokens: int | None = None
    """The number of prompt tokens in all requests for this answer; None if unknown."""
    completion_tokens: int | None = None
    """The number of tokens generated in all requests for this answer; None if unknown."""
    reasoning: str | None = None
    """The model's reasoning, if it was returned separately from the text. Long reasoning is shortened."""
    served_by: str | None = None
    """The model name and system fingerprint reported by the server."""
    choices: tuple[Choice, ...] = ()
    """All labels with their likelihoods. Empty if the answer was generated instead of chosen from labels."""
    reasoning_tokens: int | None = None
    """The number of generated tokens that are part of the reasoning; None if unknown."""


@dataclass(frozen=True, slots=True)
class Failure:
    """The outcome of a question that could not be answered."""

    error: str
    """The reason, as a sentence."""


Outcome = Answer | Failure


@runtime_checkable
class Predictor(Protocol):
    """A model that answers questions in batches."""

    def predict(self, questions: Sequence[Question]) -> Sequence[str | Answer | Failure]:
        """Return an answer for each question, in the same order."""


@runtime_checkable
class StreamingPredictor(Protocol):
    """A model that chooses its own batch size and the order of its answers."""

    def stream(self, questions: Iterable[Question]) -> Iterator[tuple[str, Outcome]]:
        """Yield an (id, outcome) pair for each question, as answers arrive.

        Don't read more questions in advance than necessary.
        """


def _no_examples() -> Iterator[tuple[Question, str]]:  # unlike a lambda, it can be pickled
    return iter(())


@dataclass(frozen=True)
class Setting:
    """The task, split, training data and prompts for a predictor."""

    task: Task
    """The task that questions come from."""
    split: str
    """The split that questions come from."""
    training_answers: Callable[[], Iterator[str]]
    """Yields the first answer of every training example.

    Raises MissingDataError if the training split isn't prepared, or if it is the split being predicted.
    """
    seed: int = 0
    """The random seed for predictors that sample."""
    prompting: Prompting | None = None
    """Builds the prompts for a language model; None for other predictors."""
    training_examples: Callable[[], Iterator[tuple[Question, str]]] = _no_examples
    """Yields every training question with its first answer. Raises the same errors as `training_answers`."""

    def require_prompting(self, predictor: str) -> Prompting:
        """Return `prompting`, or raise DecabenchError if it is None. The error names `predictor`."""
        if self.prompting is None:
            raise DecabenchError(
                f"The predictor {predictor} requires a prompt, but {self.task.name} has none."
            )
        return self.prompting


PredictorFactory = Callable[[Setting], Predictor | StreamingPredictor]
"""A function that creates a predictor for the task in a setting."""


@runtime_checkable
class Backend(Protocol):
    """A model and its options, before the model is loaded. Backends are small and can be pickled.

    A backend may also have these members:

    - `label`: a name for the submission, if the name on the command line is unsuitable.
    - `gpus`: the number of GPUs for each copy of the model.
    - `is_chat`: whether the model gets chat messages instead of plain text to continue.
    - `learns`: whether the predictor uses training answers.
    - `protocols`: the answer protocols that the model supports in addition to `tag` and `prose`.
    - `token_counter()`: returns a function that takes a Prompting and a question, and returns the number of tokens in
      the prompt.
    - `check(tasks)`: raises DecabenchError if the model can't answer one of the tasks.
    """

    @property
    def prompted(self) -> bool:
        """Whether the predictor is a language model, which needs prompts and answer extraction."""

    def describe(self) -> Mapping[str, Any]:
        """Return all settings that affect answers, such as the model, its revision and the decoding.

        The result must be JSON-compatible and must not contain secrets.
        """

    def open(self) -> AbstractContextManager[PredictorFactory]:
        """Load the weights, start the program or open the connection, once for all tasks."""


_TEXT_BYTES = Limits().line_bytes // 4
"""The maximum size of an answer's text, in bytes of JSON.

This is a quarter of the limit for a line, because a line may contain the text twice (extracted and raw) and
also has an id. It is four times the average that `decabench check` allows, so that models can occasionally
reason at length. The limit is in bytes, not characters, because a control character takes six bytes in JSON.
"""

LONGEST_REASONING = 8_000
"""The maximum length of reasoning, in characters.

For longer reasoning, only the beginning and the end are kept.
"""

_SERVED_LENGTH = 120

_ERROR_LENGTH = 500
"""The maximum length of a failure's message in characters. The limit in submission.toml is the same."""


def storable_outcome(outcome: object) -> Outcome:
    """Return an outcome that can be stored. An invalid or overlong outcome is replaced by a Failure with the reason."""
    try:
        valid = validate_outcome(outcome)
    except ValueError as error:
        return Failure(excerpt(str(error), _ERROR_LENGTH))
    if isinstance(valid, Failure):
        return Failure(excerpt(valid.error, _ERROR_LENGTH) or "the predictor gave no reason")
    size = len(json.dumps(valid.text, ensure_ascii=False).encode())
    if size > _TEXT_BYTES:
        return Failure(f"too-large: the answer has {size:,} bytes as JSON; the limit is {_TEXT_BYTES:,}")
    return valid


def validate_outcome(outcome: object) -> Outcome:
    """Check every field of an outcome, and return the outcome with counts converted to int.

    Raises ValueError for an invalid field.
    """
    if isinstance(outcome, Failure):
        if not isinstance(outcome.error, str):
            raise ValueError(f"the error must be a string, not {_shown(outcome.error)}")
        return outcome
    if not isinstance(outcome, Answer):
        raise ValueError(f"the outcome must be an Answer or a Failure, not {_shown(outcome)}")
    details = {each.name: getattr(outcome, each.name) for each in fields(outcome) if each.name != "text"}
    return answer_from(outcome.text, details)


def answer_from(text: Any, record: Mapping[str, Any]) -> Answer:
    """Create an Answer from its text and the other fields of a record.

    Invalid reasoning, reasoning token counts and model names are dropped, because they are only informational. Raises
    ValueError if the text or any other field is invalid.
    """
    if not isinstance(text, str):
        raise ValueError(f"the answer must be a string, not {_shown(text)}")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ValueError(
            "bad-encoding: the answer contains half of a surrogate pair, which is not a character"
        ) from None
    details: dict[str, Any] = {}
    if given := {key: value for key, value in record.items() if value != _USUAL.get(key)}:
        details, faults = read_details(given)
        if faults:
            raise ValueError(faults[0])
        details["choices"] = _read_choices(given.get("choices", ()))
    reasoning, served_by = record.get("reasoning"), record.get("served_by")
    if type(count := record.get("reasoning_tokens")) is int and count >= 0:
        details["reasoning_tokens"] = count
    if isinstance(reasoning, str) and reasoning.strip():
        details["reasoning"] = well_formed(_middle_cut(reasoning))
    if isinstance(served_by, str) and served_by.strip():
        details["served_by"] = excerpt(well_formed(served_by), _SERVED_LENGTH)
    return Answer(text, **details)


_USUAL = {each.name: each.default for each in fields(Answer)}


def _read_choices(value: Any) -> tuple[Choice, ...]:
    """Read an answer's choices, each of which is a Choice or a list of its fields, as stored in a journal.

    Raises ValueError for an invalid label or likelihood.
    """
    try:
        found = tuple(each if isinstance(each, Choice) else Choice(*each) for each in value)
        numbers = [number for each in found for number in (each.total, each.alone or 0.0)]
        is_valid = all(isinstance(each.label, str) for each in found) and all(map(math.isfinite, numbers))
    except TypeError:
        is_valid = False
    if not is_valid:
        raise ValueError(
            f"choices must be a list of text labels with finite likelihoods, not {_shown(value)}"
        )
    return found


def _middle_cut(text: str) -> str:
    if len(text) <= LONGEST_REASONING:
        return text
    half = LONGEST_REASONING // 2 - 2
    return f"{text[:half]} … {text[-half:]}"


def _shown(value: object) -> str:
    return excerpt(repr(value), 60)


def add_tokens(answer: Answer, earlier: Iterable[Answer]) -> Answer:
    """Return the answer with the tokens of earlier, discarded answers added to its token counts."""
    found = [answer, *earlier]
    sums: dict[str, Any] = {}
    for name in ("prompt_tokens", "completion_tokens", "reasoning_tokens"):
        counts = [count for each in found if (count := getattr(each, name)) is not None]
        sums[name] = sum(counts) if counts else None
    return replace(answer, **sums)


def in_batches(questions: Iterable[Question], size: Callable[[], int]) -> Iterator[list[Question]]:
    """Yield lists of questions. `size` is called before each list and returns its maximum length."""
    remaining = iter(questions)
    while batch := list(islice(remaining, size())):
        yield batch


def is_cut_in_reasoning(answer: Answer, begun: str = "") -> bool:
    """Return whether an answer reached its token limit while the model was still reasoning.

    `begun` is the end of the prompt if the prompt itself opens the reasoning, for example with `<think>`.
    """
    from decabench.prompts import read_turn

    if answer.finish != "length":
        return False
    if answer.reasoning and not answer.text.strip():
        return True
    turn = read_turn(f"{begun}{answer.text}", is_finished=False)
    return not turn.text and "reasoning" in turn.rules


def before_stops(text: str, stops: Iterable[str]) -> str:
    """Return the text before the first stop string.

    A stop string that is only whitespace doesn't match at the beginning, because some models start
    with an empty line.
    """
    begin = len(text) - len(text.lstrip())
    places = [text.find(stop, 0 if stop.strip() else begin) for stop in stops]
    return text[: min((place for place in places if place >= 0), default=len(text))]


def check_ranges(options: Any) -> None:
    """Raise DecabenchError if any option's value is outside the range or choices declared for its field."""
    for declared in fields(options):
        info: OptionInfo | None = declared.metadata.get("option")
        value = getattr(options, declared.name)
        if info is None or value is None:
            continue
        flag = info.flag.partition("/")[0] or f"--{declared.name.replace('_', '-')}"
        for each in value if isinstance(value, tuple) else (value,):
            if info.choices and each not in info.choices:
                raise DecabenchError(f"{flag} must be one of {', '.join(info.choices)}, not {each}.")
        limits = (
            (info.at_least, operator.ge, "{:g} or more"),
            (info.above, operator.gt, "more than {:g}"),
            (info.at_most, operator.le, "at most {:g}"),
        )
        bounds = [(limit, holds, words) for limit, holds, words in limits if limit is not None]
        if bounds and not (all(holds(value, limit) for limit, holds, _ in bounds) and math.isfinite(value)):
            named = " and ".join(words.format(limit) for limit, _, words in bounds)
            raise DecabenchError(f"{flag} must be {named}, not {value:g}.")


MODEL = "Model"
SERVER = "Servers and programs"

_model, _server = partial(option, section=MODEL), partial(option, section=SERVER)

REASONING_TOKENS = 4_096
"""The number of tokens to add to an answer's limit for the model's reasoning."""

OMITTED = ("temperature", "seed", "stop", "top_p", "max_tokens")
"""The request parameters that `--omit` can leave out."""


def parse_batch_size(text: str) -> int | None:
    """Parse a batch size: a positive number, or `auto`, which becomes None.

    Raises ValueError for any other string.
    """
    if text == "auto":
        return None
    if text.isdecimal() and int(text) > 0:
        return int(text)
    raise ValueError(f"{text!r} is neither 'auto' nor a whole number above 0.")


@dataclass(frozen=True)
class Header:
    """A request header. Its value may be secret, so it never appears in errors, logs or records."""

    name: str
    """The header name, such as `api-key`."""
    value: str = field(repr=False)
    """The value, or `env:VARIABLE` to read it from an environment variable."""


_HEADER = re.compile(r"\s*([!#$%&'*+.^_`|~0-9A-Za-z-]+)\s*:\s*([\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?)\s*")


def parse_header(text: str) -> Header:
    """Parse `NAME: VALUE`. Raises ValueError with a message that never contains the value."""
    found = _HEADER.fullmatch(text)
    if found is None:
        raise ValueError("a header must have the form 'NAME: VALUE', in ASCII and on one line.")
    return Header(*found.groups())


def parse_body(text: str) -> str:
    """Parse a JSON object and return it as canonical JSON.

    Raises ValueError if the string isn't a JSON object.
    """
    example = """such as '{"top_k": 1}'"""
    try:
        value = parse_json(text)
    except ValueError as error:
        raise ValueError(
            f"{excerpt(text, 60)} is not valid JSON ({error}). Use an object, {example}."
        ) from None
    if not isinstance(value, dict):
        raise ValueError(f"{excerpt(text, 60)} is not a JSON object. Use an object, {example}.")
    return canonical_json(value)


@dataclass(frozen=True)
class ModelOptions:
    """Options for running a model. None selects the backend's default, which `describe` records.

    Backends reject options that they don't use, because recording them would be misleading. Raises
    DecabenchError for a value out of range.
    """

    model: str | None = _model(
        None, "Name of the model, as listed by the server (only for openai:).", metavar="NAME"
    )
    revision: str | None = _model(
        None,
        "Commit or tag on the Hugging Face Hub (for hf: and vllm:). For other predictors, any text that identifies the "
        "weights.",
    )
    chat: bool | None = _model(
        None,
        "Use the model's chat template (only for hf: and vllm:).",
        flag="--chat/--no-chat",
        unset="if it has one",
    )
    reasoning_effort: str | None = _model(
        None,
        "How much the model reasons before it answers. With hf: and vllm:, this requires a chat template. Any value "
        f"except none adds {REASONING_TOKENS:,} tokens to the limit of an answer.",
        choices=("none", "minimal", "low", "medium", "high", "xhigh"),
        unset="the model's",
    )
    dtype: str | None = _model(
        None,
        "Number format of the weights in memory (only for hf: and vllm:).",
        choices=("auto", "float32", "bfloat16", "float16"),
        unset="auto",
    )
    device: str | None = _model(
        None,
        "Device to use: auto, cpu, cuda, cuda:1 or mps (only for hf: and trained:).",
        metavar="NAME",
        unset="auto",
    )
    device_map: str | None = _model(
        None,
        "How to spread the weights over several devices: auto, balanced, … (only for hf:).",
        metavar="NAME",
    )
    adapter: str | None = _model(
        None, "PEFT adapter to load: a folder, or a name on the Hub (only for hf:).", metavar="NAME"
    )
    quantize: str | None = _model(
        None,
        "Quantize the weights with bitsandbytes when they are loaded (only for hf:).",
        choices=("4bit", "8bit"),
    )
    batch_size: int | None = _model(
        None,
        "Number of questions per batch. With auto, hf: uses the largest batch that fits in memory, and Python "
        "objects get batches of 64.",
        metavar="N|auto",
        at_least=1,
        unset="auto",
        parse=parse_batch_size,
    )
    max_new_tokens: int | None = _model(
        None,
        "Maximum length of an answer in tokens, for every task.",
        metavar="N",
        at_least=1,
        unset="the template's",
    )
    max_prompt_tokens: int | None = _model(
        None,
        "Maximum length of a prompt in tokens. If a prompt is longer, its context is cut and the answer is marked.",
        metavar="N",
        at_least=1,
        unset="the model's limit",
    )
    temperature: float = _model(
        0.0, "Sampling temperature. Use 0 for greedy decoding.", metavar="T", at_least=0
    )
    top_p: float | None = _model(
        None,
        "Cumulative probability for nucleus sampling. Requires a temperature above 0.",
        metavar="P",
        above=0,
        at_most=1,
    )
    beam: int | None = _model(
        None, "Beam width (only for trained:).", metavar="N", at_least=1, unset="1, greedy"
    )
    seed: int = _model(0, "Seed for sampling, for the choice of shots, and for the random baseline.")
    api: str | None = _server(
        None, "API to use (only for openai:).", choices=("chat", "completions"), unset="chat"
    )
    omit: tuple[str, ...] = _server(
        (),
        "Leave this parameter out of requests, for a model that rejects it (only for openai: and inspect:). Can be "
        "repeated.",
        choices=OMITTED,
    )
    body: str | None = _server(
        None,
        "Add these parameters to every request, or to vLLM's engine, as a JSON object (only for openai:, inspect: and "
        "vllm:). The parameters are recorded.",
        metavar="JSON",
        parse=parse_body,
    )
    header: tuple[Header, ...] = _server(
        (),
        "Add this header to every request (only for openai:). Its value is never recorded. To read the value from an "
        "environment variable, use env:NAME. Can be repeated.",
        metavar="'NAME: VALUE'",
        parse=parse_header,
    )
    env: tuple[str, ...] = _server(
        (),
        "Pass this environment variable to the program even if it looks like a secret, such as an API key (only for "
        "command:). Other variables that look like secrets are not passed. Can be repeated.",
        metavar="NAME",
    )
    batch_api: bool = _server(
        False, "Use the provider's batch API, which is cheaper but may take hours (only for inspect:)."
    )
    concurrency: int | None = _server(
        None, "Maximum number of concurrent requests.", metavar="N", at_least=1, unset="8"
    )
    requests_per_minute: float | None = _server(
        None, "Maximum number of requests per minute, including retries.", metavar="N", above=0, unset="none"
    )
    timeout: float | None = _server(
        None,
        "Time limit for a whole request, or for the next answer from a program.",
        metavar="SECONDS",
        above=0,
        unset="120 for a request, none for a program",
    )
    retries: int | None = _server(
        None, "Number of times to retry a failed request.", metavar="N", at_least=0, unset="5"
    )

    def new_tokens(self, usual: int) -> int:
        """Return the maximum number of tokens in an answer. `usual` is the template's limit."""
        reasons = self.reasoning_effort not in (None, "none")
        return self.max_new_tokens or usual + (REASONING_TOKENS if reasons else 0)

    @property
    def parameters(self) -> dict[str, Any]:
        """The additional parameters given as `body`."""
        return dict(parse_json(self.body or "{}"))

    @property
    def reasoning_room(self) -> int:
        """The number of tokens to add to the limit if an answer was cut off during reasoning.

        This is 0 if the user set a token limit or a reasoning effort.
        """
        return REASONING_TOKENS if self.max_new_tokens is None and self.reasoning_effort is None else 0

    def describe_requests(self) -> dict[str, Any]:
        """Return the request parameters that affect answers, as JSON-compatible data without secrets."""
        given = {
            "revision": self.revision,
            "top_p": self.top_p,
            "reasoning_effort": self.reasoning_effort,
            "max_new_tokens": self.max_new_tokens,
            "max_prompt_tokens": self.max_prompt_tokens,
            "omitted": sorted(set(self.omit)) or None,
            "body": self.parameters if self.body else None,
            "headers": sorted({header.name.lower() for header in self.header}) or None,
        }
        sent = {"temperature": self.temperature, "seed": self.seed}
        return {
            **{name: value for name, value in sent.items() if name not in self.omit},
            **{name: value for name, value in given.items() if value is not None},
        }

    def __post_init__(self) -> None:
        check_ranges(self)
        is_default = {"temperature", "top_p"}.intersection(self.omit)  # the server's default may be above 0
        if self.top_p is not None and not self.temperature and not is_default:
            raise DecabenchError(
                "--top-p requires a --temperature above 0, because greedy decoding does not sample."
            )


SAMPLING = frozenset({"revision", "reasoning_effort", "max_new_tokens", "temperature", "top_p", "seed"})
"""The names of the options that all language models use."""
LOCAL = SAMPLING | {"chat", "dtype", "max_prompt_tokens"}
"""The names of the options that all language models on this machine use."""
REMOTE = SAMPLING | {"omit", "body", "concurrency", "timeout", "retries"}
"""The names of the options that all language models on servers use."""


def chosen_device(options: ModelOptions) -> str:
    """Return the requested device, or the first available device if none is requested."""
    if options.device not in (None, "auto"):
        return options.device
    from decabench.models import first_device

    return first_device()


def gpus_for(device: str) -> float:
    """Return the number of GPUs needed for a copy of a model on this device."""
    return 1.0 if device.startswith("cuda") else 0.0


def refuse_unused(options: ModelOptions, used: Collection[str], predictor: str, hint: str) -> None:
    """Raise DecabenchError if an option is given that the predictor doesn't use."""
    for declared in fields(options):
        given = getattr(options, declared.name)
        if declared.name not in used and given != declared.default:
            flag = f"--{'no-' if given is False else ''}{declared.name.replace('_', '-')}"
            raise DecabenchError(f"The predictor {predictor} does not use {flag}. {hint}")
