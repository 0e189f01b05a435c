"""Transformers models (`hf:NAME_OR_PATH`) from the Hugging Face Hub, a folder or a GGUF file."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from decabench.errors import DecabenchError, LostDeviceError
from decabench.files import file_digest
from decabench.models import check_name, require_device
from decabench.predictors.hf.generation import (
    Decoding,
    Generator,
    Prompt,
    Prompter,
    free,
    is_lost_device,
    is_no_memory,
    room,
)
from decabench.predictors.hf.likelihood import ChoiceScorer
from decabench.predictors.hf.weights import (
    SANE,
    Loaded,
    ModelSource,
    find_source,
    load_config,
    load_model,
    load_tokenizer,
    local_folder,
    pads_safely,
    positions,
    require_packages,
    with_adapter,
)
from decabench.predictors.protocol import (
    LOCAL,
    Failure,
    ModelOptions,
    Outcome,
    PredictorFactory,
    Setting,
    chosen_device,
    gpus_for,
    in_batches,
)
from decabench.tasks import Question
from decabench.text import excerpt
from decabench.vectors import quiet_transformers

if TYPE_CHECKING:
    from decabench.prompts import Prompting

USED = LOCAL | {"device", "device_map", "adapter", "quantize", "batch_size"}
"""The names of the options that the predictor uses."""
ADVICE = "Leave out the option, or use another kind of predictor."
"""Advice for users who pass an option that isn't supported."""

WINDOW = 2048
"""The maximum number of questions to read and sort at once, unless the batch size is larger."""


@dataclass
class BatchSize:
    """Chooses the batch size by starting with the maximum and halving it until a batch fits in memory."""

    most: int
    """The maximum batch size."""
    _too_large: float = math.inf
    """The number of tokens in the smallest batch that didn't fit in memory."""

    @property
    def window(self) -> int:
        """The number of questions to read at once and sort by length."""
        return max(self.most, min(32 * self.most, WINDOW))

    def rows(self, positions: int, remaining: int) -> int:
        """Return the size of the next batch.

        `positions` is the maximum number of tokens in a row, and `remaining` is the number of prompts left.
        """
        rows = self.most
        while rows > 1 and 2 * rows * positions > self._too_large:
            rows //= 2
        return min(rows, remaining)

    def shrink(self, rows: int, positions: int) -> None:
        """Record that a batch of `rows` rows with `positions` tokens each didn't fit in memory."""
        self._too_large = min(rows * positions, self._too_large)


@dataclass
class HfPredictor:
    """Answers the questions of a single task."""

    prompter: Prompter
    """Builds the prompts."""
    generator: Generator | ChoiceScorer
    """Generates or chooses the answers."""
    size: BatchSize
    """The batch size, shared by all tasks of a model."""

    def stream(self, questions: Iterable[Question]) -> Iterator[tuple[str, Outcome]]:
        """Yield (id, outcome) pairs as batches finish.

        Questions are read in windows. In each window, the longest prompts come first, so that a batch that
        doesn't fit in memory is found early.
        """
        for window in in_batches(questions, lambda: self.size.window):
            prompts = []
            for question, prompt in zip(window, self.prompter.prompts(window), strict=True):
                if isinstance(prompt, Failure):
                    yield question.id, prompt
                elif max(prompt.ids, default=0) >= self.generator.loaded.tokens:
                    yield question.id, Failure("the prompt has tokens that are not in the model's vocabulary")
                else:
                    prompts.append(prompt)
            yield from self._batches(sorted(prompts, key=lambda prompt: -len(prompt.ids)))

    def _batches(self, prompts: Sequence[Prompt]) -> Iterator[tuple[str, Outcome]]:
        while prompts:
            positions = len(prompts[0].ids) + self.generator.decoding.max_new_tokens
            rows = self.size.rows(positions, len(prompts))
            outcomes = self._outcomes(prompts[:rows])
            if outcomes is None:
                self.size.shrink(rows, positions)
                continue
            for prompt, outcome in zip(prompts[:rows], outcomes, strict=True):
                yield prompt.question.id, outcome
            prompts = prompts[rows:]

    def _outcomes(self, batch: Sequence[Prompt]) -> Sequence[Outcome] | None:
        """Return the outcomes, or None if the batch doesn't fit in memory. After other errors, prompts run alone."""
        try:
            return self.generator.answers(batch)
        except Exception as error:
            if is_lost_device(error):
                raise LostDeviceError(
                    f"hf: the GPU can no longer be used ({excerpt(str(error))}). To continue, run the same command "
                    "again."
                ) from error
            lacks_memory, reason = is_no_memory(error), f"{type(error).__name__}: {excerpt(str(error))}"
        if lacks_memory:  # after the `except` block, because the error kept tensors in memory
            free()
            reason = f"a prompt of {len(batch[0].ids):,} tokens does not fit in memory, even in a batch of 1"
        if len(batch) == 1:
            return [Failure(reason)]
        if lacks_memory:
            return None
        return [outcome for prompt in batch for outcome in self._outcomes([prompt]) or ()]


LARGEST = {"cpu": 32, "cuda": 256, "mps": 64}
"""The maximum batch size for `--batch-size auto` on each kind of device. Larger batches aren't faster."""

DECIDING = {".safetensors", ".json", ".jinja", ".model", ".spm", ".txt", ".tiktoken", ".vocab"}
"""Suffixes of the files that affect answers: weights, configuration and tokenizer files."""


def backend(target: str, options: ModelOptions) -> HfBackend:
    """Create a backend for a model in a folder, in a GGUF file or on the Hub.

    The weights aren't downloaded yet, except for a GGUF file. Raises DecabenchError for an invalid option, a
    missing package or an unsuitable model.
    """
    require_packages(*(("accelerate",) if options.device_map else ()))
    check_name(options.device or "auto")
    if options.device_map and options.device not in (None, "auto", "cuda"):
        raise DecabenchError(
            f"--device {options.device} can't be combined with --device-map, which chooses the devices itself. Leave "
            "out --device, or use --device cuda."
        )
    source = find_source(target, options.revision)
    if source.gguf:
        require_packages("gguf", "accelerate")
        if options.quantize:
            raise DecabenchError(
                "hf: --quantize does not work with a GGUF file, whose weights are already quantized. "
                "Leave out --quantize."
            )
    if options.quantize:
        require_packages("accelerate", "bitsandbytes")
    if options.adapter:
        source = with_adapter(source, options.adapter)
    with quiet_transformers():
        return HfBackend(source, options, inspect_model(source, options))


@dataclass(frozen=True)
class Facts:
    """Information about a model that is available before its weights are loaded."""

    digest: str | None
    """The digest of the model's files; None for a model on the Hub, which is identified by its commit."""
    architecture: str
    """The model class named in the model's configuration."""
    is_encoder_decoder: bool
    """Whether the model has both an encoder and a decoder. All other models are causal."""
    chat_template: str | None
    """The SHA-256 of the chat template, or None if prompts are plain text."""
    dtype: str
    """The data type used for computation."""
    device: str
    """The device to run on."""
    positions: int | None
    """The maximum sequence length in tokens, or None for no limit."""
    advised: int | None
    """The maximum combined length of prompt and answer in tokens, as saved with the tokenizer; None if unknown."""
    adapter: str | None = None
    """The adapter's digest, or None without an adapter."""


@dataclass(frozen=True)
class HfBackend:
    """A model that hasn't been loaded yet.

    The device and dtype are chosen when the backend is created, so that they are the same for all
    workers.

    On a CPU with float32, answers don't depend on the batch size (see generation.py), except with
    quantization or nucleus sampling. In all other cases, the batch size can occasionally change an
    answer, so it is part of the description.
    """

    source: ModelSource
    """The model's location."""
    options: ModelOptions
    """The requested options."""
    facts: Facts
    """Information about the model."""

    prompted = True

    @property
    def is_chat(self) -> bool:
        """Whether prompts are chat messages, which the tokenizer's chat template turns into text."""
        return self.facts.chat_template is not None

    @property
    def protocols(self) -> tuple[str, ...]:
        """Supported protocols in addition to `tag` and `prose`.

        Encoder-decoder models don't support `choices` because their answers don't continue the prompt.
        """
        enforced = ("json",) if find_spec("llguidance") else ()
        return enforced if self.facts.is_encoder_decoder else ("choices", *enforced)

    def describe(self) -> dict[str, Any]:
        """Return the settings to record: the model, its weights, the prompts and the decoding.

        The settings contain no paths.
        """
        options, facts = self.options, self.facts
        given = {
            "revision": self.source.commit or options.revision,
            "weights": facts.digest,
            "gguf": self.source.gguf,
            "adapter": facts.adapter,
            "quantized": options.quantize,
            "bitsandbytes": version("bitsandbytes") if options.quantize else None,
            "chat_template": facts.chat_template,
            "reasoning_effort": options.reasoning_effort,
            "max_new_tokens": options.max_new_tokens,
            "max_prompt_tokens": options.max_prompt_tokens,
            "batch_size": None if self._watchful else options.batch_size or "auto",
        }
        sampling = {"temperature": options.temperature, "top_p": options.top_p or 1.0, "seed": options.seed}
        return {
            "model": self.source.name,
            "architecture": facts.architecture,
            "dtype": facts.dtype,
            "chat": self.is_chat,
            "decoding": sampling if options.temperature else "greedy",
            "transformers": version("transformers"),
            "torch": version("torch").partition("+")[0],
            **{name: value for name, value in given.items() if value is not None},
        }

    @contextmanager
    def open(self) -> Iterator[PredictorFactory]:
        """Load the weights, and free them on exit.

        Raises DecabenchError if the model's files have changed since the backend was created.
        """
        require_device(self.facts.device)
        with quiet_transformers():
            folder = local_folder(self.source)
            self._require_same(folder)
            options, facts = self.options, self.facts
            held = [
                load_model(
                    self.source, folder, facts.dtype, facts.device, options.device_map, options.quantize
                )
            ]
            most = options.batch_size or LARGEST[facts.device.partition(":")[0]]
            size = BatchSize(most if pads_safely(held[0]) else 1)
            try:
                yield lambda setting: self._predictor(setting, held[0], size)
            finally:
                held.clear()
                free()

    def token_counter(self) -> Callable[[Prompting, Question], int]:
        """Return a function that counts the tokens of a prompt. Only the tokenizer is loaded."""
        with quiet_transformers():
            tokenizer = load_tokenizer(self.source, local_folder(self.source, weights=False))
        chat, effort = self.is_chat, self.options.reasoning_effort
        return lambda prompting, question: Prompter(tokenizer, prompting, chat, None, effort).count(question)

    @property
    def label(self) -> str:
        """The model's name in a submission. Parent folders are left out because they are private."""
        return f"hf:{self.source.name}"

    @property
    def gpus(self) -> float:
        """The number of GPUs per worker.

        This is 0 if the model doesn't run on a GPU. Otherwise it is 1, or the number of GPUs in this machine if
        a device map distributes the weights.
        """
        needed = gpus_for(self.facts.device)
        if not needed or self.options.device_map is None:
            return needed
        import torch

        return float(max(1, torch.cuda.device_count()))

    @property
    def _watchful(self) -> bool:
        """Whether to ensure that answers don't depend on the batch. This isn't possible with nucleus sampling."""
        is_exact = self.facts.device == "cpu" and self.facts.dtype == "float32" and not self.options.quantize
        return is_exact and self.options.top_p in (None, 1.0)

    def _require_same(self, folder: Path) -> None:
        adapter = self.source.adapter
        found = (
            self.facts.digest and folder_digest(folder, self.source.gguf),
            folder_digest(Path(adapter), None) if adapter else None,
        )
        if found != (self.facts.digest, self.facts.adapter):
            raise DecabenchError(
                f"hf: the files for {self.source.name} have changed since the run began. Run the command again. On a "
                "cluster, make sure that every machine has the same files."
            )

    def _predictor(self, setting: Setting, loaded: Loaded, size: BatchSize) -> HfPredictor:
        prompting = setting.require_prompting("hf")
        prompter, decoding = self.plan(setting, prompting, loaded.tokenizer)
        if prompting.protocol == "choices":
            return HfPredictor(prompter, ChoiceScorer(loaded, decoding, prompter, self._watchful), size)
        generator = Generator(loaded, decoding, self._watchful, prompter, prompting.protocol == "json")
        return HfPredictor(prompter, generator, size)

    def plan(self, setting: Setting, prompting: Prompting, tokenizer: Any) -> tuple[Prompter, Decoding]:
        """Return the prompt builder and the decoding settings for a task."""
        options, facts = self.options, self.facts
        chat = self.is_chat
        decoding = Decoding(
            task=setting.task.name,
            max_new_tokens=options.new_tokens(prompting.max_new_tokens),
            stop=() if chat else prompting.stop,
            temperature=options.temperature,
            top_p=options.top_p,
            seed=setting.seed,
            reasoning_room=0 if facts.is_encoder_decoder else options.reasoning_room,
            positions=facts.positions,
        )
        taken = 0 if facts.is_encoder_decoder else decoding.max_new_tokens
        budget = room(facts.positions, facts.advised, options.max_prompt_tokens, taken)
        return Prompter(tokenizer, prompting, chat, budget, options.reasoning_effort), decoding


def inspect_model(source: ModelSource, options: ModelOptions) -> Facts:
    """Return facts about a model, read from its configuration and tokenizer.

    Raises DecabenchError if the files can't be loaded, or if `options` requires a chat template and there is none.
    """
    folder = local_folder(source, weights=False)
    config, tokenizer = load_config(source, folder), load_tokenizer(source, folder)
    device = chosen_device(options)
    saved = str(config.dtype).removeprefix("torch.") if getattr(config, "dtype", None) else "float32"
    dtype = options.dtype or "auto"
    if dtype == "auto":
        dtype = "float32" if device == "cpu" else saved
    advised = tokenizer.model_max_length
    return Facts(
        digest=folder_digest(folder, source.gguf) if source.folder else None,
        architecture=(config.architectures or [config.model_type])[0],
        is_encoder_decoder=bool(config.is_encoder_decoder),
        chat_template=_digest_chat_template(source.name, tokenizer, options.chat),
        dtype=dtype,
        device=device,
        positions=positions(config),
        advised=advised if advised and advised < SANE else None,
        adapter=folder_digest(Path(source.adapter), None) if source.adapter else None,
    )


def _digest_chat_template(name: str, tokenizer: Any, wanted: bool | None) -> str | None:
    if wanted and not tokenizer.chat_template:
        raise DecabenchError(f"hf: {name} has no chat template. To use plain text, leave out --chat.")
    if not tokenizer.chat_template or wanted is False:
        return None
    return hashlib.sha256(tokenizer.get_chat_template().encode()).hexdigest()


_known: dict[tuple[str, int, int, int, int], str] = {}
"""Cache of file digests by path, inode, size and times, so that each file is read only once per process."""


def folder_digest(folder: Path, gguf: str | None) -> str:
    """Return a digest of the names and contents of all files that affect answers, or of the GGUF file.

    Raises DecabenchError if a file can't be read.
    """
    try:
        if gguf is not None:
            return _digest(folder / gguf)
        files = sorted(path for path in folder.iterdir() if path.suffix in DECIDING and path.is_file())
        lines = [f"{path.name} {_digest(path)}\n" for path in files]
    except OSError as error:
        raise DecabenchError(f"hf: the model in {folder} can't be read: {error.strerror}.") from None
    return f"sha256:{hashlib.sha256(''.join(lines).encode()).hexdigest()}"


def _digest(path: Path) -> str:
    status = path.stat()
    key = (str(path), status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
    if key not in _known:
        _known[key] = file_digest(path)
    return _known[key]
