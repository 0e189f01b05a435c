"""Transformers models run by vLLM in this process, without a server (`vllm:NAME_OR_PATH`)."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from importlib.metadata import version
from typing import Any

from decabench.errors import DecabenchError, ModelError, require_package
from decabench.predictors.hf.backend import HfBackend, inspect_model
from decabench.predictors.hf.generation import Decoding, Prompt, Prompter
from decabench.predictors.hf.weights import find_source, local_folder, require_packages
from decabench.predictors.protocol import (
    LOCAL,
    Answer,
    Failure,
    ModelOptions,
    Outcome,
    PredictorFactory,
    Setting,
    in_batches,
)
from decabench.tasks import Question
from decabench.text import describe_error
from decabench.vectors import quiet_transformers

USED = LOCAL | {"body"}
"""The names of the options that the predictor uses."""
ADVICE = "Pass arguments for vLLM's engine with --body."
"""Advice for users who pass an option that isn't supported."""

WINDOW = 4_096
"""The number of questions to pass to vLLM at once. vLLM divides them into batches."""


def backend(target: str, options: ModelOptions) -> VllmBackend:
    """Create a backend for a model in a folder or on the Hub. The weights aren't downloaded yet.

    Raises DecabenchError for an invalid option, a missing package or an unsuitable model.
    """
    require_package("The predictor vllm", "vllm", "vllm")
    require_packages()
    source = find_source(target, options.revision)
    if source.gguf:
        raise DecabenchError(
            "The predictor vllm reads only safetensors files. For a GGUF file, use hf:, or serve the file and use "
            "openai:URL."
        )
    with quiet_transformers():
        return VllmBackend(source, options, inspect_model(source, options))


@dataclass(frozen=True)
class VllmBackend(HfBackend):
    """A model to run with vLLM, before its weights are loaded.

    Prompts and recorded settings are the same as for `hf:`, except for the settings of the engine.
    """

    protocols = ("json",)

    def describe(self) -> dict[str, Any]:
        """Return the settings to record, without paths: model, weights, prompts, decoding and vLLM's engine."""
        own = {key: value for key, value in super().describe().items() if key not in ("torch", "batch_size")}
        return {
            **own,
            "vllm": version("vllm"),
            **({"engine": self.options.parameters} if self.options.parameters else {}),
        }

    @property
    def label(self) -> str:
        """The model's name in a submission."""
        return f"vllm:{self.source.name}"

    @property
    def gpus(self) -> float:
        """The number of GPUs per worker."""
        return float(self.options.parameters.get("tensor_parallel_size", 1))

    @contextmanager
    def open(self) -> Iterator[PredictorFactory]:
        """Load the weights into vLLM.

        Raises DecabenchError if the model's files have changed since the backend was created, and ModelError if
        vLLM can't load them.
        """
        from vllm import LLM

        with quiet_transformers():
            folder = local_folder(self.source)
            self._require_same(folder)
            given = {
                "dtype": self.options.dtype or "auto",
                "seed": self.options.seed,
                **self.options.parameters,
            }
            try:
                engine = LLM(model=str(folder), trust_remote_code=False, **given)
            except Exception as error:
                raise ModelError(
                    f"vLLM can't load {self.source.name}: {describe_error(error)}. See vLLM's log for details."
                ) from error

            def make(setting: Setting) -> VllmPredictor:
                plan = self.plan(setting, setting.require_prompting("vllm"), engine.get_tokenizer())
                return VllmPredictor(engine, *plan)

            yield make


@dataclass(frozen=True)
class VllmPredictor:
    """Answers the questions of a single task."""

    engine: Any
    """The vLLM engine (`vllm.LLM`)."""
    prompter: Prompter
    """Builds the prompts."""
    decoding: Decoding
    """The decoding settings."""

    def stream(self, questions: Iterable[Question]) -> Iterator[tuple[str, Outcome]]:
        """Yield (id, outcome) pairs. Up to `WINDOW` questions are answered together."""
        for window in in_batches(questions, lambda: WINDOW):
            made = self.prompter.prompts(window)
            prompts = [prompt for prompt in made if isinstance(prompt, Prompt)]
            answers = iter(self._answers(prompts))
            for question, prompt in zip(window, made, strict=True):
                yield question.id, prompt if isinstance(prompt, Failure) else next(answers)

    def _answers(self, prompts: Sequence[Prompt]) -> list[Answer]:
        from vllm import TokensPrompt

        inputs = [TokensPrompt(prompt_token_ids=list(prompt.ids)) for prompt in prompts]
        settings = [self._settings(prompt) for prompt in prompts]
        outputs = self.engine.generate(inputs, settings, use_tqdm=False) if prompts else []
        answers = [
            Answer(
                output.outputs[0].text,
                "length" if output.outputs[0].finish_reason == "length" else "stop",
                prompt.kept,
                len(prompt.ids),
                len(output.outputs[0].token_ids),
            )
            for prompt, output in zip(prompts, outputs, strict=True)
        ]
        return self.decoding.with_room(
            prompts, answers, self.prompter, lambda longer, cut: replace(self, decoding=longer)._answers(cut)
        )

    def _settings(self, prompt: Prompt) -> Any:
        from vllm import SamplingParams

        decoding = self.decoding
        key = f"{decoding.seed}\n{decoding.task}\n{prompt.question.id}"
        given: dict[str, Any] = {}
        if self.prompter.prompting.protocol == "json":
            from vllm.sampling_params import StructuredOutputsParams

            given["structured_outputs"] = StructuredOutputsParams(json=self.prompter.schema(prompt))
        return SamplingParams(
            temperature=decoding.temperature,
            top_p=decoding.top_p or 1.0,
            seed=int.from_bytes(hashlib.sha256(key.encode()).digest()[:4], "big") >> 1,
            max_tokens=decoding.max_new_tokens,
            stop=list(decoding.stop) or None,
            **given,
        )
