"""MQAN's configuration, and how examples become its batches: lengths, order, and the numbers of words.

Shapes: B examples, l context tokens, m question tokens, n answer tokens, demb the length of a word vector, v
words that can be generated, o words of the batch that are not among them, U distinct words, T target tokens,
dctx the length of a contextual vector.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Annotated

import numpy as np
import torch
from msgspec import Meta
from torch import Tensor

from decabench.errors import DecabenchError
from decabench.models.batches import Integers, Item, TextReader, number_distinct, pad
from decabench.models.family import Count, Depth, EvenWidth, Rate
from decabench.tasks import Question, Task
from decabench.vectors import EOS, INIT, UNKNOWN, WordTable


@dataclass(frozen=True)
class Parts:
    """The parts of MQAN that a model includes: the columns of the paper's Table 2."""

    self_attention: bool
    """Self-attentive encoder and decoder layers (+SAtt)."""
    coattention: bool
    """Whether context and question are two inputs with coattention (+CAtt); otherwise they are read as one
    sequence."""
    question_pointer: bool
    """A second pointer, over the question (+QPtr)."""


MODELS: dict[str, Parts] = {
    "s2s": Parts(self_attention=False, coattention=False, question_pointer=False),
    "satt": Parts(self_attention=True, coattention=False, question_pointer=False),
    "catt": Parts(self_attention=True, coattention=True, question_pointer=False),
    "mqan": Parts(self_attention=True, coattention=True, question_pointer=True),
}
"""The parts of each model. Each model adds one part to the one before it."""


@dataclass(frozen=True)
class MQANConfig:
    """Configuration of MQAN, with the defaults of Appendix D."""

    name: str = "mqan"
    """`mqan`, or one of its ablations: `s2s`, `satt`, `catt`."""
    dimension: EvenWidth = 200
    """d: the width of every representation; an even number, because BiLSTMs split it between two directions."""
    hidden: Count = 150
    """f: the inner width of feed-forward networks."""
    heads: Count = 3
    """p: the number of attention heads, each with the full width d (Eq. 23)."""
    layers: Depth = 2
    """The number of self-attentive layers in the encoder, and in the decoder."""
    dropout: Rate = 0.2
    """The dropout rate."""
    lstm_dropout: float = -1.0
    """The dropout rate on the inputs of the encoder's BiLSTMs; -1 for the rate of `dropout`. The authors' code
    has none."""
    vocabulary: Count = 50_000
    """v: the number of words that the model can generate without pointing; fewer if the training data has fewer."""
    max_answer_tokens: Annotated[int, Meta(ge=1, le=100_000)] = 100
    """The maximum number of tokens in an answer."""
    split_heads: bool = False
    """Whether the heads share the width d and nothing is projected after them, as in the authors' code, instead of
    having the full width each (Eq. 23)."""
    layer_by_layer: bool = False
    """Whether layer l of the decoder reads layer l of the encoder, as in the authors' code, instead of C_fin
    (Eq. 5)."""
    norm_sublayers: bool = False
    """Whether the decoder's attention over the answer also ends with layer normalization, as in the authors' code, so
    that each of a layer's three parts does (Eq. 4-6)."""
    tanh_coattention: bool = False
    """Whether coattention reads tanh(W Q_ind) instead of Q_ind, as in the authors' code (Eq. 17-19)."""

    def __post_init__(self) -> None:
        if self.split_heads and self.heads > self.dimension:
            raise DecabenchError(
                f"model.heads is {self.heads}, but with split_heads the most is model.dimension, {self.dimension}."
            )
        if self.lstm_dropout != -1 and not 0 <= self.lstm_dropout < 1:
            raise DecabenchError(
                f"model.lstm_dropout is {self.lstm_dropout}: give at least 0 and below 1, or -1 to use model.dropout."
            )

    @property
    def parts(self) -> Parts:
        """The parts that the model includes."""
        return MODELS[self.name]

    @property
    def without_effect(self) -> tuple[str, ...]:
        """Return settings that are on although the model lacks the part that they concern."""
        of_attention = ("split_heads", "layer_by_layer", "norm_sublayers")
        absent: tuple[str, ...] = () if self.parts.self_attention else of_attention
        absent += () if self.parts.coattention else ("tanh_coattention",)
        return tuple(key for key in absent if getattr(self, key))


def encode(question: Question, answer: str | None, task: Task, reader: TextReader) -> Item:
    """Convert the words of context, question and answer to numbers, each text between <init> and <eos>."""
    item = {"context": reader.context(question.context), "question": reader.text(question.question)}
    if answer is not None:
        item["answer"] = reader.text(answer)
    return item


def batch_size(lengths: Mapping[str, Integers]) -> Integers:
    """Compute how much of a batch each example takes up: context + question + 5 x answer (Appendix D)."""
    return lengths["context"] + lengths["question"] + 5 * lengths["answer"]


def padded_length(lengths: Mapping[str, Integers]) -> Integers:
    """Return each example's length as counted by the authors' code for padded batches."""
    return np.maximum(lengths["context"], 5 * lengths["answer"])


def batch_order(lengths: Mapping[str, Integers]) -> Sequence[Integers]:
    """Return the sort keys for batching: the lengths of the context (in steps of eight), the question and the answer.

    Answers of up to 16 words count as equal. Sorting by their length would fill nearly every batch with one kind of
    answer: 71 % of WOZ's batches had no `none`, although it is a third of the answers. Longer answers are sorted in
    powers of two, because the decoder's loop runs as long as the batch's longest answer.
    """
    return _sort_keys(lengths, shortest=16)


def answer_order(lengths: Mapping[str, Integers]) -> Sequence[Integers]:
    """Return the sort keys for `grouping = "answers"`: first the answer's length in powers of two, then the
    others.

    Each key except the first alternates between ascending and descending order, which keeps neighbours similar where
    a key changes. On SQuAD, 11 % of a batch of 10,000 tokens is padding; sorting by answer // 4 and context
    gave 19 %.
    """
    return _sort_keys(lengths, shortest=1)


def _sort_keys(lengths: Mapping[str, Integers], shortest: int) -> Sequence[Integers]:
    answer = np.ceil(np.log2(np.maximum(lengths["answer"], shortest))).astype(np.int64)
    context = lengths["context"] // 8
    return _swing(lengths["question"], context), _swing(context, answer), answer


def _swing(key: Integers, above: Integers) -> Integers:
    return np.where(above % 2, -key, key)


@dataclass(frozen=True)
class MQANBatch:
    """Padded examples of one task.

    The model can output the words of its vocabulary and o others.

    Each batch numbers its distinct words, so that each vector is looked up, projected and moved to the device
    only once. The others are words of the batch outside the vocabulary, which can only be pointed at (Eq.
    10-13).
    """

    vectors: Tensor
    """(U, demb) of the distinct words; row 0 is padding."""
    context: Tensor
    """(B, l) rows of `vectors`."""
    question: Tensor
    """(B, m) rows of `vectors`."""
    answer: Tensor
    """(B, n) rows of `vectors`: the decoder's input, beginning with <init>."""
    context_output: Tensor
    """(B, l) numbers below v + o."""
    question_output: Tensor
    """(B, m) numbers below v + o."""
    target: Tensor
    """(B, n) numbers below v + o: the decoder's target output, up to <eos>; 0 is padding."""
    target_at: Tensor
    """(2, T) example and step of each target token; computed here, because a GPU would have to wait for their
    number."""
    others: Tensor
    """(o,) rows of `vectors`: the words outside the vocabulary."""
    other_words: Tensor
    """(o,) lexicon numbers of those words. Stays on the CPU."""
    context_lengths: Tensor
    """(B,) Stays on the CPU, where packing needs it."""
    question_lengths: Tensor
    """(B,) Stays on the CPU."""
    context_vectors: Tensor | None = None
    """(B, l, dctx) contextual vectors, if the model reads any."""
    question_vectors: Tensor | None = None
    """(B, m, dctx)"""

    def __len__(self) -> int:
        return len(self.context)

    def to(self, device: torch.device) -> MQANBatch:
        """Copy the batch to a device, asynchronously where possible."""
        if device.type == "cpu":
            return self
        stay = {"other_words", "context_lengths", "question_lengths"}
        found = {f.name: getattr(self, f.name) for f in fields(self) if f.name not in stay}
        tensors = {name: tensor for name, tensor in found.items() if tensor is not None}
        if device.type == "cuda":
            tensors = {name: tensor.pin_memory() for name, tensor in tensors.items()}
        return replace(self, **{name: t.to(device, non_blocking=True) for name, t in tensors.items()})


_NO_ANSWER = np.array([INIT, EOS], dtype=np.int32)


def collate(task: str, items: Sequence[Item], words: WordTable, config: MQANConfig) -> MQANBatch:
    """Make a batch, without a Python loop over tokens. The task makes no difference."""
    contexts, questions = ([item[name] for item in items] for name in ("context", "question"))
    if not config.parts.coattention:  # both as one sequence
        contexts = [np.concatenate(pair) for pair in zip(contexts, questions, strict=True)]
    context, context_lengths = pad(contexts)
    question, question_lengths = pad(questions)
    answer, _ = pad([item.get("answer", _NO_ANSWER) for item in items])
    vocabulary = words.lexicon.size
    distinct, (context_rows, question_rows, answer_rows) = number_distinct([context, question, answer])
    is_other = distinct >= vocabulary
    outputs = np.where(is_other, vocabulary + np.cumsum(is_other) - 1, distinct)
    target = outputs[answer_rows][:, 1:].copy()
    # Words that the model can neither generate nor point at in their own example become <unk>.
    sources = [context, question] if config.parts.question_pointer else [context]
    at = np.nonzero(answer[:, 1:] >= vocabulary)
    beyond = answer[:, 1:][at][:, None]
    can_point = np.any([(source[at[0]] == beyond).any(1) for source in sources], axis=0)
    target[at[0][~can_point], at[1][~can_point]] = UNKNOWN
    tensor = torch.from_numpy
    contextual: dict[str, Tensor] = {}
    if words.contextual_dimension:
        texts = {"context": (contexts, context), "question": (questions, question)}
        contextual = {
            f"{name}_vectors": tensor(words.contextual(own, padded.shape[1]))
            for name, (own, padded) in texts.items()
        }
    return MQANBatch(
        vectors=tensor(words[distinct]),
        context=tensor(context_rows),
        question=tensor(question_rows),
        answer=tensor(np.ascontiguousarray(answer_rows[:, :-1])),
        context_output=tensor(outputs[context_rows]),
        question_output=tensor(outputs[question_rows]),
        target=tensor(target),
        target_at=tensor(np.stack(np.nonzero(target))),
        others=tensor(np.flatnonzero(is_other)),
        other_words=tensor(distinct[is_other]),
        context_lengths=tensor(context_lengths),
        question_lengths=tensor(question_lengths),
        **contextual,
    )
