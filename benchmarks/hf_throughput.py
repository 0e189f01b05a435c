"""Measure the time that `hf:` adds to a model, compared with a bare loop.

    python benchmarks/hf_throughput.py [--model PATH] [--questions 32] [--batch 8] [--tokens 32] [--repeats 5]

Both sides use the same prompts, tokenizer, batches and greedy `generate`. Without --model, the model is a
Llama with random weights and four layers of 256 units. `stream` measures only the predictor, and `predict`
measures all of `decabench predict`, including loading.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from statistics import median
from typing import Any

from decabench.predictors.hf.backend import backend
from decabench.predictors.protocol import ModelOptions, Setting
from decabench.prompts.messages import Prompting, make_prompting
from decabench.prompts.templates import load_template
from decabench.runs import Run, Selection, plan_run, run_plan
from decabench.tasks.example import Question
from decabench.tasks.preparation import Request, prepare_task
from decabench.tasks.registry import TASKS
from decabench.tasks.store import Store
from decabench.vectors import quiet_transformers

TASK = TASKS["sst"]


def small_model(folder: Path) -> Path:
    """Save a model with 4 million random weights, which is small enough to make the overhead visible."""
    import torch
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    words = {token: id_ for id_, token in enumerate(["<pad>", "<s>", "</s>", *letters])}
    tokenizer = Tokenizer(models.BPE(vocab=words, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=len(words),
        hidden_size=256,
        intermediate_size=1024,
        num_hidden_layers=4,
        num_attention_heads=4,
        max_position_embeddings=8192,
        initializer_range=0.2,
        bos_token_id=1,
        eos_token_id=2,
    )
    LlamaForCausalLM(config).save_pretrained(folder)
    made = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, bos_token="<s>", eos_token="</s>", pad_token="<pad>"
    )
    made.chat_template = CHAT
    made.save_pretrained(folder)
    return folder


CHAT = (
    "{% for message in messages %}{{ message['role'] }}: {{ message['content'] }}\n{% endfor %}"
    "{% if add_generation_prompt %}assistant:{% endif %}"
)
"""The small model's chat template."""


@dataclass(frozen=True)
class Bare:
    """A bare loop that sorts questions by length, and pads, generates and decodes one batch at a time."""

    questions: Sequence[Question]
    """The questions to answer."""
    prompting: Prompting
    """decabench's prompts, used by both sides."""
    batch: int
    """The number of prompts in a batch."""
    tokens: int
    """The maximum length of an answer in tokens."""

    def answers(self, model: Any, tokenizer: Any) -> dict[str, str]:
        """Return the model's answers by id."""
        import torch

        ids = self._ids(tokenizer)
        tokenizer.pad_token = tokenizer.pad_token or tokenizer.eos_token
        order = sorted(range(len(ids)), key=lambda at: -len(ids[at]))
        answers = {}
        for begin in range(0, len(order), self.batch):
            rows = order[begin : begin + self.batch]
            given = tokenizer.pad(
                {"input_ids": [ids[at] for at in rows]}, padding_side="left", return_tensors="pt"
            ).to(model.device)
            with torch.inference_mode():
                made = model.generate(
                    **given, max_new_tokens=self.tokens, do_sample=False, pad_token_id=tokenizer.pad_token_id
                )
            said = tokenizer.batch_decode(made[:, given["input_ids"].shape[1] :], skip_special_tokens=True)
            answers |= {self.questions[at].id: text for at, text in zip(rows, said, strict=True)}
        return answers

    def loaded(self, folder: Path) -> dict[str, str]:
        """Load the model and return its answers by id."""
        from transformers import AutoModelForCausalLM, AutoTokenizer

        model = AutoModelForCausalLM.from_pretrained(folder, dtype="float32")
        return self.answers(model, AutoTokenizer.from_pretrained(folder))

    def _ids(self, tokenizer: Any) -> list[list[int]]:
        turns = [
            [{"role": turn.role, "content": turn.content} for turn in self.prompting.messages(question)]
            for question in self.questions
        ]
        texts = tokenizer.apply_chat_template(turns, tokenize=False, add_generation_prompt=True)
        ids: list[list[int]] = tokenizer(texts, add_special_tokens=False)["input_ids"]
        return ids


def interleaved(sides: dict[str, Callable[[], object]], repeats: int) -> list[tuple[float, float]]:
    """Return the median wall and CPU seconds of each side. The first round is not counted."""
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in sides}
    for turn in range(repeats + 1):
        for name in list(sides) if turn % 2 else reversed(list(sides)):
            begun = time.perf_counter(), time.process_time()
            sides[name]()
            if turn:
                times[name].append((time.perf_counter() - begun[0], time.process_time() - begun[1]))
    return [(median(clock for clock, _ in seen), median(cpu for _, cpu in seen)) for seen in times.values()]


def show(what: str, medians: list[tuple[float, float]], questions: int) -> None:
    """Print a row of the table."""
    (clock, cpu), (bare_clock, bare_cpu) = medians
    cells = [f"{clock:.2f}", f"{bare_clock:.2f}", f"{clock / bare_clock:.3f}", f"{cpu / bare_cpu:.3f}"]
    print(f"| {what} | {' | '.join(cells)} | {questions / clock:.1f} |", flush=True)


def measure(folder: Path, given: argparse.Namespace, base: Path) -> None:
    """Run all measurements and print the table."""
    import torch

    prepare_task(TASK, Request(base / "home", sample=True, progress=False))
    store = Store(base / "home")
    rows = store.read(TASK.name, "validation", ("id", "question", "context"))
    questions = [Question(**row) for row in islice(rows, given.questions)]
    prompting = make_prompting(TASK, load_template("default"))
    alone = Bare(questions, prompting, given.batch, given.tokens)
    options = ModelOptions(batch_size=given.batch, max_new_tokens=given.tokens, chat=True, device="cpu")
    made = backend(str(folder), options)
    print(f"{made.describe()}\n{torch.get_num_threads()} threads, {len(questions)} questions\n")
    print(
        "| | harness, s | bare model, s | ratio | CPU time ratio | questions/s |\n|---|---|---|---|---|---|"
    )
    setting = Setting(TASK, "validation", lambda: iter(()), prompting=prompting)
    with made.open() as factory:
        predictor = factory(setting)
        model, tokenizer = predictor.generator.loaded.model, predictor.generator.loaded.tokenizer
        sides: dict[str, Callable[[], object]] = {
            "harness": lambda: list(predictor.stream(questions)),
            "bare": lambda: alone.answers(model, tokenizer),
        }
        show("stream", interleaved(sides, given.repeats), len(questions))
        said = {id_: outcome.text for id_, outcome in predictor.stream(questions)}
        same = sum(said[id_] == text for id_, text in alone.answers(model, tokenizer).items())
    run = Run(
        f"hf:{folder}",
        [TASK],
        "validation",
        base / "submission",
        store,
        options=options,
        selection=Selection(limit=given.questions),
        fresh=True,
    )
    sides = {"harness": lambda: run_plan(plan_run(run)), "bare": lambda: alone.loaded(folder)}
    show("predict", interleaved(sides, given.repeats), len(questions))
    print(f"\n{same} of {len(questions)} answers are identical on both sides.")


def main() -> None:
    parser = argparse.ArgumentParser(description="Compare the speed of the harness and the bare model.")
    parser.add_argument("--model", type=Path, help="a folder with a causal model that has a chat template")
    parser.add_argument("--questions", type=int, default=32)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--tokens", type=int, default=32)
    parser.add_argument("--repeats", type=int, default=5)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as base, quiet_transformers():
        measure(given.model or small_model(Path(base) / "model"), given, Path(base))


if __name__ == "__main__":
    main()
