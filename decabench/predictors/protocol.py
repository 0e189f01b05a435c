"""The interface between runs and predictors: options and questions go in, answers and failures come out.

A predictor gets only questions, never the answers of the split that it predicts. Python code can still read the
prepared data on disk, so run untrusted predictors on a machine without the answers.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, fields, replace
from itertools import islice
from typing import TYPE_CHECKING, Any, Literal, Protocol, runtime_checkable

from decabench.errors import DecabenchError
from decabench.files import canonical_json
from decabench.submission import Limits, read_details
from decabench.tasks import Question, Task
from decabench.text import excerpt, well_formed
from decabench.untrusted import parse_json

if TYPE_CHECKING:
    from decabench.prompts import Prompting

__all__ = [
    "CHOICES_BY",
    "OMITTED",
    "Answer",
    "Backend",
    "Choice",
    "Failure",
    "Finish",
    "Header",
    "ModelOptions",
    "OptionInfo",
    "Outcome",
    "Predictor",
    "PredictorFactory",
    "Setting",
    "StreamingPredictor",
    "add_tokens",
    "answer_from",
    "before_stops",
    "best_choice",
    "check_ranges",
    "chosen_device",
    "gpus_for",
    "in_batches",
    "is_cut_in_reasoning",
    "option",
    "refuse_unused",
    "require_sampling",
    "storable_outcome",
    "validate_outcome",
]

Finish = Literal["stop", "length", "refused"]
"""Why an answer ended: normally, at the limit of new tokens, or because the model or its server refused."""


@dataclass(frozen=True, slots=True)
class Choice:
    """A label and its likelihood as an answer."""

    label: str
    """The label."""
    total: float
    """The log-likelihood of its tokens after the prompt."""
    tokens: int
    """The number of tokens in the label."""
    alone: float | None = None
    """Its log-likelihood without the prompt; None if unknown."""

    def score(self, by: str = "sum") -> float:
        """Return the log-likelihood: in total, per character, per token, or minus that of the label alone."""
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
"""The scores by which labels can be compared."""


def best_choice(choices: Iterable[Choice], by: str = "sum") -> str:
    """Return the label with the highest score; of equal scores, the first."""
    return max(choices, key=lambda choice: choice.score(by)).label


@dataclass(frozen=True, slots=True)
class Answer:
    """A predictor's answer to one question, with details of its generation."""

    text: str
    """The raw text: nothing stripped, nothing added."""
    finish: Finish = "stop"
    """Why the answer ended."""
    context_kept: tuple[int, int] | None = None
    """The characters of the context that the model was shown, [start, end); None for all of them."""
    prompt_tokens: int | None = None
    """Tokens in the prompts of all requests for this answer; None if they were not counted."""
    completion_tokens: int | None = None
    """Tokens generated in all requests for this answer; None if they were not counted."""
    reasoning: str | None = None
    """The model's reasoning, if it arrived separately from the text; shortened for storage."""
    served_by: str | None = None
    """The model that answered, according to the server, and its system fingerprint."""
    choices: tuple[Choice, ...] = ()
    """The labels with their likelihoods, of which the text is the likeliest; empty if the text was generated."""
    reasoning_tokens: int | None = None
    """The number of generated tokens that were reasoning; None if they were not counted."""


@dataclass(frozen=True, slots=True)
class Failure:
    """A question that could not be answered."""

    error: str
    """The reason, in a sentence."""


Outcome = Answer | Failure


@runtime_checkable
class Predictor(Protocol):
    """A model that answers one batch of questions at a time."""

    def predict(self, questions: Sequence[Question]) -> Sequence[str | Answer | Failure]:
        """Return one answer for each question, in the same order."""


@runtime_checkable
class StreamingPredictor(Protocol):
    """A model that decides for itself how many questions it works on at once, and in which order."""

    def stream(self, questions: Iterable[Question]) -> Iterator[tuple[str, Outcome]]:
        """Yield (id, outcome) as answers arrive, once per question; read no further ahead than needed."""


def _no_examples() -> Iterator[tuple[Question, str]]:
    return iter(())


@dataclass(frozen=True)
class Setting:
    """A predictor's setting: one task and split, and the training answers that it may learn from."""

    task: Task
    """The task."""
    split: str
    """The split whose questions it will receive."""
    training_answers: Callable[[], Iterator[str]]
    """Streams the first answer of every training example; raises MissingDataError if none is prepared, or if the
    training split is the one that is predicted."""
    seed: int = 0
    """Random seed, for predictors that sample."""
    prompting: Prompting | None = None
    """How a question becomes a prompt, for language models."""
    training_examples: Callable[[], Iterator[tuple[Question, str]]] = _no_examples
    """Streams the question and first answer of every training example; raises the same errors as `training_answers`."""


PredictorFactory = Callable[[Setting], Predictor | StreamingPredictor]
"""Makes a predictor for one task. A plain object with `predict` is used for all tasks."""


@runtime_checkable
class Backend(Protocol):
    """A way to run a model before anything is loaded, as a small value that can be pickled.

    It may also have `label` (a name for the submission, if the one on the command line is unsuitable), `gpus` (how
    many GPUs one copy of the model needs), `learns` (whether it reads training answers), `token_counter()` (a
    function from prompting and question to the tokens of the prompt) and `check(tasks)` (which raises DecabenchError if
    the model cannot answer one of the tasks, before any is answered).
    """

    @property
    def prompted(self) -> bool:
        """Whether the predictor is a language model, which gets prompts and whose answers are extracted."""

    def describe(self) -> Mapping[str, Any]:
        """Return everything that affects its answers (model, revision, decoding), as JSON without secrets."""

    def open(self) -> AbstractContextManager[PredictorFactory]:
        """Load the weights, start the program or open the connection, once for all tasks."""


_TEXT_BYTES = Limits().line_bytes // 4
"""The longest text, in bytes of JSON. A line of a submission may hold it twice (extracted and raw), besides its id.

It is four times the average that `decabench check` allows, so that a model may sometimes reason at length. Counted in
bytes, because JSON writes a control character with six.
"""

LONGEST_REASONING = 8_000
"""The maximum length of reasoning, in characters. Only the beginning and the end of longer reasoning are kept,
because it is there only for people to read."""

_SERVED_LENGTH = 120

_ERROR_LENGTH = 500
"""The maximum length of a failure's message, in characters; submission.toml has the same limit."""


def storable_outcome(outcome: object) -> Outcome:
    """Return the outcome in a form that can be stored and read back; an invalid outcome becomes a Failure with the
    reason."""
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
    """Check every field of an outcome, and turn whole numbers of any type into ints. Raises ValueError."""
    if isinstance(outcome, Failure):
        if not isinstance(outcome.error, str):
            raise ValueError(f"the error must be a string, not {_shown(outcome.error)}")
        return outcome
    if not isinstance(outcome, Answer):
        raise ValueError(f"the outcome must be an Answer or a Failure, not {_shown(outcome)}")
    details = {each.name: getattr(outcome, each.name) for each in fields(outcome) if each.name != "text"}
    return answer_from(outcome.text, details)


def answer_from(text: Any, record: Mapping[str, Any]) -> Answer:
    """Make an answer from a text and the other fields of a record; missing fields become None.

    Reasoning and the model's name are only informative, so they are dropped if they are not texts. Raises
    ValueError for the first invalid field other than these.
    """
    if not isinstance(text, str):
        raise ValueError(f"the answer must be a string, not {_shown(text)}")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ValueError(
            "bad-encoding: the answer contains half of a surrogate pair, which is not a character"
        ) from None
    given = {key: value for key, value in record.items() if value is not None or key == "finish"}
    details, faults = read_details(given)
    if faults:
        raise ValueError(faults[0])
    details["choices"] = _read_choices(record.get("choices", ()))
    reasoning, served_by = record.get("reasoning"), record.get("served_by")
    if type(count := record.get("reasoning_tokens")) is int and count >= 0:
        details["reasoning_tokens"] = count
    if isinstance(reasoning, str) and reasoning.strip():
        details["reasoning"] = well_formed(_middle_cut(reasoning))
    if isinstance(served_by, str) and served_by.strip():
        details["served_by"] = excerpt(well_formed(served_by), _SERVED_LENGTH)
    return Answer(text, **details)


def _read_choices(value: Any) -> tuple[Choice, ...]:
    """Read an answer's choices, also in the form that a journal stores: lists of a choice's fields.

    Raises ValueError.
    """
    found = []
    for each in value:
        choice = each if isinstance(each, Choice) else Choice(*each)
        numbers = (choice.total, choice.alone if choice.alone is not None else 0.0)
        if not isinstance(choice.label, str) or not all(map(math.isfinite, numbers)):
            raise ValueError(f"a choice's likelihood must be a finite number, not {_shown(each)}")
        found.append(choice)
    return tuple(found)


def _middle_cut(text: str) -> str:
    if len(text) <= LONGEST_REASONING:
        return text
    half = LONGEST_REASONING // 2 - 2
    return f"{text[:half]} … {text[-half:]}"


def _shown(value: object) -> str:
    return excerpt(repr(value), 60)


def add_tokens(answer: Answer, earlier: Iterable[Answer]) -> Answer:
    """Return an answer with the tokens of earlier requests for it, whose texts were discarded, added to its own."""
    found = [answer, *earlier]
    sums: dict[str, Any] = {}
    for name in ("prompt_tokens", "completion_tokens", "reasoning_tokens"):
        counts = [count for each in found if (count := getattr(each, name)) is not None]
        sums[name] = sum(counts) if counts else None
    return replace(answer, **sums)


def in_batches(questions: Iterable[Question], size: Callable[[], int]) -> Iterator[list[Question]]:
    """Yield the questions in lists of at most `size()` questions, which may change from one list to the next."""
    remaining = iter(questions)
    while batch := list(islice(remaining, size())):
        yield batch


def is_cut_in_reasoning(answer: Answer, begun: str = "") -> bool:
    """Return whether an answer reached its limit while the model reasoned, which the end of the prompt may have
    begun."""
    from decabench.prompts import read_turn

    if answer.finish != "length":
        return False
    if answer.reasoning and not answer.text.strip():
        return True
    turn = read_turn(f"{begun}{answer.text}", is_finished=False)
    return not turn.text and "reasoning" in turn.rules


def before_stops(text: str, stops: Iterable[str]) -> str:
    """Return an answer up to the first stop text.

    Empty lines before the first word do not end an answer, because some models begin with an empty line.
    """
    begin = len(text) - len(text.lstrip())
    places = [text.find(stop, 0 if stop.strip() else begin) for stop in stops]
    return text[: min((place for place in places if place >= 0), default=len(text))]


@dataclass(frozen=True)
class OptionInfo:
    """A field's command-line option, in addition to the field's name, type and default."""

    help: str
    """One sentence, used for both the help page and the class's reference."""
    section: str = ""
    """The heading under which the help page lists it."""
    flag: str = ""
    """The option as typed, if it differs from the field's name: `--author`, `--chat/--no-chat`."""
    metavar: str | None = None
    """The placeholder for the value in the help page."""
    at_least: float | None = None
    """The smallest number allowed."""
    above: float | None = None
    """A number that the value must exceed."""
    at_most: float | None = None
    """The largest number allowed."""
    choices: tuple[str, ...] = ()
    """The texts allowed."""
    unset: str = ""
    """The meaning of None: `the template's`."""
    parse: Callable[[str], Any] | None = None
    """Turns the typed text into the value; raises ValueError."""

    @property
    def bounds(self) -> str:
        """The range in words: `more than 0 and at most 1`; empty if any value is allowed."""
        parts = []
        if self.at_least is not None:
            parts.append(f"{self.at_least:g} or more")
        if self.above is not None:
            parts.append(f"more than {self.above:g}")
        if self.at_most is not None:
            parts.append(f"at most {self.at_most:g}")
        return " and ".join(parts)


def option(default: Any, help: str, **info: Any) -> Any:
    """Declare a dataclass field that a command offers as an option.

    The arguments are fields of `OptionInfo`.
    """
    return field(default=default, metadata={"option": OptionInfo(help, **info)})


def check_ranges(options: Any) -> None:
    """Raise DecabenchError for a value outside the range or the choices that its field declares."""
    for declared in fields(options):
        info: OptionInfo | None = declared.metadata.get("option")
        value = getattr(options, declared.name)
        if info is None or value is None:
            continue
        flag = info.flag.partition("/")[0] or f"--{declared.name.replace('_', '-')}"
        for each in value if isinstance(value, tuple) else (value,):
            if info.choices and each not in info.choices:
                raise DecabenchError(f"{flag} must be one of {', '.join(info.choices)}, not {each}.")
        if bounds := info.bounds:
            is_inside = (
                (info.at_least is None or info.at_least <= value)
                and (info.above is None or info.above < value)
                and (info.at_most is None or value <= info.at_most)
                and math.isfinite(value)
            )
            if not is_inside:
                raise DecabenchError(f"{flag} must be {bounds}, not {value:g}.")


MODEL = "Model"
SERVER = "Servers and programs"

REASONING_TOKENS = 4_096
"""The number of tokens for reasoning, in addition to those of the answer, if an effort is given."""

OMITTED = ("temperature", "seed", "stop", "top_p", "max_tokens")
"""The parameters that `--omit` can leave out: all except the prompt and the model."""


def parse_batch_size(text: str) -> int | None:
    """Parse a number above 0; None for `auto`. Raises ValueError."""
    if text == "auto":
        return None
    if text.isdecimal() and int(text) > 0:
        return int(text)
    raise ValueError(f"{text!r} is not a whole number above 0 or auto.")


@dataclass(frozen=True)
class Header:
    """A header of every request. Its value may be a secret, so no error, log or record shows it."""

    name: str
    """Its name: `api-key`."""
    value: str = field(repr=False)
    """Its value, or `env:VARIABLE` for the value of an environment variable."""


_HEADER = re.compile(r"\s*([!#$%&'*+.^_`|~0-9A-Za-z-]+)\s*:\s*([\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?)\s*")


def parse_header(text: str) -> Header:
    """Parse `NAME: VALUE`. Raises ValueError whose message never shows a secret."""
    found = _HEADER.fullmatch(text)
    if found is None:
        raise ValueError("a header must have the form 'NAME: VALUE', in ASCII and on one line.")
    return Header(*found.groups())


def parse_body(text: str) -> str:
    """Parse a JSON object, and return it in canonical form. Raises ValueError."""
    example = """such as '{"top_k": 1}'"""
    try:
        value = parse_json(text)
    except ValueError as error:
        raise ValueError(
            f"{excerpt(text, 60)} is not valid JSON ({error}): give an object, {example}."
        ) from None
    if not isinstance(value, dict):
        raise ValueError(f"{excerpt(text, 60)} is not a JSON object, {example}.")
    return canonical_json(value)


@dataclass(frozen=True)
class ModelOptions:
    """The options of models. None means not given: the backend's own default, which `describe` names.

    A backend rejects options that it does not use, because the record would be wrong.
    Raises DecabenchError for a value out of range.
    """

    model: str | None = option(
        None, "Name of the model, as the server lists it (openai:).", section=MODEL, metavar="NAME"
    )
    revision: str | None = option(
        None,
        "Commit or tag on the hub (hf:); for other predictors, any text that identifies the weights.",
        section=MODEL,
    )
    chat: bool | None = option(
        None,
        "Use the model's chat template (hf:).",
        section=MODEL,
        flag="--chat/--no-chat",
        unset="if it has one",
    )
    reasoning_effort: str | None = option(
        None,
        "How much the model reasons before it answers (openai:, and hf: chat templates). Any value but "
        f"none allows {REASONING_TOKENS:,} more tokens.",
        section=MODEL,
        choices=("none", "minimal", "low", "medium", "high", "xhigh"),
        unset="the model's",
    )
    dtype: str | None = option(
        None,
        "Number format of the weights in memory (hf:, trained:).",
        section=MODEL,
        choices=("auto", "float32", "bfloat16", "float16"),
        unset="auto",
    )
    device: str | None = option(
        None,
        "Device: auto, cpu, cuda, cuda:1 or mps (hf:, trained:).",
        section=MODEL,
        metavar="NAME",
        unset="auto",
    )
    device_map: str | None = option(
        None,
        "How to spread the weights over several devices: auto, balanced, … (hf:).",
        section=MODEL,
        metavar="NAME",
    )
    adapter: str | None = option(
        None,
        "PEFT adapter of the model: a folder, or its name on the hub (hf:).",
        section=MODEL,
        metavar="NAME",
    )
    quantize: str | None = option(
        None,
        "Quantize the weights with bitsandbytes while they load (hf:).",
        section=MODEL,
        choices=("4bit", "8bit"),
    )
    batch_size: int | None = option(
        None,
        "Questions per batch. auto grows the batch while it fits in memory (hf:); Python objects get 64.",
        section=MODEL,
        metavar="N|auto",
        at_least=1,
        unset="auto",
        parse=parse_batch_size,
    )
    max_new_tokens: int | None = option(
        None,
        "Maximum length of an answer in tokens, for every task.",
        section=MODEL,
        metavar="N",
        at_least=1,
        unset="the template's",
    )
    max_prompt_tokens: int | None = option(
        None,
        "Maximum length of a prompt in tokens; longer contexts are cut, and their answers are marked.",
        section=MODEL,
        metavar="N",
        at_least=1,
        unset="the model's limit",
    )
    temperature: float = option(
        0.0, "Sampling temperature; 0 is greedy decoding.", section=MODEL, metavar="T", at_least=0
    )
    top_p: float | None = option(
        None,
        "Nucleus sampling; needs a temperature above 0.",
        section=MODEL,
        metavar="P",
        above=0,
        at_most=1,
    )
    beam: int | None = option(
        None, "Beam width (trained:).", section=MODEL, metavar="N", at_least=1, unset="1, greedy"
    )
    seed: int = option(
        0, "Seed for sampling, for choosing shots, and for the baseline random.", section=MODEL
    )
    api: str | None = option(
        None, "API to use (openai:).", section=SERVER, choices=("chat", "completions"), unset="chat"
    )
    omit: tuple[str, ...] = option(
        (),
        "Parameter to leave out of requests because the model rejects it (openai:); may be repeated.",
        section=SERVER,
        choices=OMITTED,
    )
    body: str | None = option(
        None,
        "Additional parameters for every request, as a JSON object (openai:); they are recorded.",
        section=SERVER,
        metavar="JSON",
        parse=parse_body,
    )
    header: tuple[Header, ...] = option(
        (),
        "Header for every request (openai:); may be repeated. The value is never recorded; env:NAME reads it from the "
        "environment.",
        section=SERVER,
        metavar="'NAME: VALUE'",
        parse=parse_header,
    )
    env: tuple[str, ...] = option(
        (),
        "Environment variable with a key that the program needs (command:); may be repeated. Other "
        "variables that look like secrets are not passed on.",
        section=SERVER,
        metavar="NAME",
    )
    batch_api: bool = option(
        False,
        "Ask through the provider's batch API, which is cheaper and may take hours (inspect:).",
        section=SERVER,
    )
    concurrency: int | None = option(
        None, "Requests in flight at once.", section=SERVER, metavar="N", at_least=1, unset="8"
    )
    requests_per_minute: float | None = option(
        None, "Rate limit, retries included.", section=SERVER, metavar="N", above=0, unset="none"
    )
    timeout: float | None = option(
        None,
        "Time limit for a whole request, or for the next answer of a program.",
        section=SERVER,
        metavar="SECONDS",
        above=0,
        unset="120 for a request, none for a program",
    )
    retries: int | None = option(
        None, "Number of times to retry a failed request.", section=SERVER, metavar="N", at_least=0, unset="5"
    )

    def new_tokens(self, usual: int) -> int:
        """Return the maximum length of an answer in tokens; `template` is the template's own limit."""
        reasons = self.reasoning_effort not in (None, "none")
        return self.max_new_tokens or usual + (REASONING_TOKENS if reasons else 0)

    @property
    def reasoning_room(self) -> int:
        """The tokens to add for an answer that was cut while the model reasoned; none if a limit or effort is given."""
        return REASONING_TOKENS if self.max_new_tokens is None and self.reasoning_effort is None else 0

    def describe_requests(self) -> dict[str, Any]:
        """Return the parameters of requests that decide an answer, as JSON without secrets."""
        given = {
            "revision": self.revision,
            "top_p": self.top_p,
            "reasoning_effort": self.reasoning_effort,
            "max_new_tokens": self.max_new_tokens,
            "max_prompt_tokens": self.max_prompt_tokens,
            "omitted": sorted(set(self.omit)) or None,
            "body": parse_json(self.body) if self.body else None,
            "headers": sorted({header.name.lower() for header in self.header}) or None,
        }
        sent = {"temperature": self.temperature, "seed": self.seed}
        return {
            **{name: value for name, value in sent.items() if name not in self.omit},
            **{name: value for name, value in given.items() if value is not None},
        }

    def __post_init__(self) -> None:
        check_ranges(self)


def require_sampling(options: ModelOptions) -> None:
    """Raise DecabenchError for a sampling option if decoding is greedy."""
    if options.top_p is not None and not options.temperature:
        raise DecabenchError("--top-p needs a --temperature above 0: greedy decoding does not sample.")


def chosen_device(options: ModelOptions) -> str:
    """Return the device given in the options, or else the first one that this machine has."""
    if options.device not in (None, "auto"):
        return options.device
    from decabench.models import first_device

    return first_device()


def gpus_for(device: str) -> float:
    """Return how many GPUs a copy of a model needs on this device; see `Backend.gpus`."""
    return 1.0 if device.startswith("cuda") else 0.0


def refuse_unused(options: ModelOptions, used: Collection[str], predictor: str, hint: str) -> None:
    """Raise DecabenchError for the first option that was given but that the predictor does not use."""
    for declared in fields(options):
        given = getattr(options, declared.name)
        if declared.name not in used and given != declared.default:
            flag = f"--{'no-' if given is False else ''}{declared.name.replace('_', '-')}"
            raise DecabenchError(f"{predictor} does not use {flag}: {hint}")
