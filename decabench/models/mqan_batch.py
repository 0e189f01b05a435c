"""MQAN's configuration and batches.

Equation, table and appendix numbers refer to "The Natural Language Decathlon" (McCann et al. 2018), and "the authors'
code" is the code published for that paper.

In shapes, B is the number of examples, l of context tokens, m of question tokens, n of answer tokens, v of words that
can be generated, o of other words in the batch, U of distinct words and T of target tokens; demb is the length of a
word vector, and dctx the length of a contextual vector.
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
    """The parts of MQAN that a model includes, as in the columns of the paper's Table 2."""

    self_attention: bool
    """Whether the encoder and decoder have self-attentive layers (+SAtt)."""
    coattention: bool
    """Whether the context and question are separate inputs with coattention (+CAtt). Otherwise they are read
    as one sequence."""
    question_pointer: bool
    """Whether there is a second pointer, which copies words from the question (+QPtr)."""


MODELS: dict[str, Parts] = {
    "s2s": Parts(self_attention=False, coattention=False, question_pointer=False),
    "satt": Parts(self_attention=True, coattention=False, question_pointer=False),
    "catt": Parts(self_attention=True, coattention=True, question_pointer=False),
    "mqan": Parts(self_attention=True, coattention=True, question_pointer=True),
}
"""The parts of each model. Each model adds one part to the previous model."""


@dataclass(frozen=True)
class MQANConfig:
    """Configuration of MQAN, with the values of Appendix D as defaults."""

    name: str = "mqan"
    """`mqan`, or one of its ablations `s2s`, `satt` and `catt`."""
    dimension: EvenWidth = 200
    """The width d of all representations. It must be even, because BiLSTMs split it between two directions."""
    hidden: Count = 150
    """The inner width f of feed-forward networks."""
    heads: Count = 3
    """The number p of attention heads, each with the full width d (Eq. 23)."""
    layers: Depth = 2
    """The number of self-attentive layers, which is the same in the encoder and the decoder."""
    dropout: Rate = 0.2
    """The dropout rate."""
    lstm_dropout: float = -1.0
    """The dropout rate on the inputs of the encoder's BiLSTMs; -1 to use the rate of `dropout`. The authors'
    code has no dropout there."""
    vocabulary: Count = 50_000
    """The maximum number v of words that the model can generate without a pointer."""
    max_answer_tokens: Annotated[int, Meta(ge=1, le=100_000)] = 100
    """The maximum number of tokens in an answer."""
    split_heads: bool = False
    """Whether attention heads split the width d and have no output projection, as in the authors' code,
    instead of each having the full width (Eq. 23)."""
    layer_by_layer: bool = False
    """Whether layer l of the decoder attends to layer l of the encoder, as in the authors' code, instead of
    C_fin (Eq. 5)."""
    norm_sublayers: bool = False
    """Whether layer normalization also follows the decoder's attention over the answer, as in the authors'
    code (Eq. 4-6)."""
    tanh_coattention: bool = False
    """Whether coattention reads tanh(W Q_ind) instead of Q_ind, as in the authors' code (Eq. 17-19)."""

    def __post_init__(self) -> None:
        if self.split_heads and self.heads > self.dimension:
            raise DecabenchError(
                f"model.heads is {self.heads}, but with split_heads it must be at most model.dimension "
                f"({self.dimension})."
            )
        if self.lstm_dropout != -1 and not 0 <= self.lstm_dropout < 1:
            raise DecabenchError(
                f"model.lstm_dropout is {self.lstm_dropout}, but must be at least 0 and below 1, or -1 to use "
                "model.dropout."
            )

    @property
    def parts(self) -> Parts:
        """The parts that the model includes."""
        return MODELS[self.name]


def encode(question: Question, answer: str | None, task: Task, reader: TextReader) -> Item:
    """Encode the context, question and answer, each between <init> and <eos>."""
    item = {"context": reader.context(question.context), "question": reader.text(question.question)}
    if answer is not None:
        item["answer"] = reader.text(answer)
    return item


def batch_size(lengths: Mapping[str, Integers]) -> Integers:
    """Return the size of each example, in tokens, for filling batches (Appendix D).

    The size is context + question + 5 x answer.
    """
    return lengths["context"] + lengths["question"] + 5 * lengths["answer"]


def padded_length(lengths: Mapping[str, Integers]) -> Integers:
    """Return each example's length in padded batches, max(context, 5 x answer), in tokens.

    This is how the authors' code measures length when it fills batches.
    """
    return np.maximum(lengths["context"], 5 * lengths["answer"])


def batch_order(lengths: Mapping[str, Integers], by_answer: bool) -> Sequence[Integers]:
    """Return the sort keys for batches: the lengths of the question, the context (in steps of eight) and the answer.

    The answer is the primary key, in powers of two, because the decoder's loop runs for the length of a batch's
    longest answer. The other keys alternate between ascending and descending order, which keeps neighboring examples
    similar where a key changes. On SQuAD, with `by_answer`, 11% of a batch of 10,000 tokens is padding, compared with
    19% when sorting by the answer's length in steps of four and then by the context's length.

    Unless `by_answer` is true, answers of up to 16 tokens, including <init> and <eos>, count as equally long. Sorting
    by their length would fill nearly every batch with one kind of answer: 71% of WOZ's batches would not contain the
    answer `none`, although a third of all answers are `none`.
    """
    answer = np.ceil(np.log2(np.maximum(lengths["answer"], 1 if by_answer else 16))).astype(np.int64)
    context = lengths["context"] // 8
    return _swing(lengths["question"], context), _swing(context, answer), answer


def _swing(key: Integers, above: Integers) -> Integers:
    return np.where(above % 2, -key, key)


@dataclass(frozen=True)
class MQANBatch:
    """A batch of padded examples of one task.

    The model can output the words of its vocabulary and o other words, which occur in the batch and can only
    be copied by a pointer (Eq. 10-13). Distinct words are numbered within each batch, so that each vector is
    looked up, projected and moved to the device only once.
    """

    vectors: Tensor
    """The vectors of the distinct words, of shape (U, demb); row 0 is padding."""
    context: Tensor
    """The words of the contexts, of shape (B, l), as row indices of `vectors`."""
    question: Tensor
    """The words of the questions, of shape (B, m), as row indices of `vectors`."""
    answer: Tensor
    """The decoder's input, of shape (B, n), as row indices of `vectors`. It begins with <init>."""
    context_output: Tensor
    """The words of the contexts, of shape (B, l), as output ids below v + o."""
    question_output: Tensor
    """The words of the questions, of shape (B, m), as output ids below v + o."""
    target: Tensor
    """The decoder's target, of shape (B, n), as output ids below v + o. It ends with <eos>, and 0 is padding.
    """
    target_at: Tensor
    """The example index and step of each target token, of shape (2, T). Computed on the CPU, because a GPU would
    stall until the number of tokens is known.
    """
    others: Tensor
    """The words outside the vocabulary, of shape (o,), as row indices of `vectors`."""
    other_words: Tensor
    """The lexicon ids of the words outside the vocabulary, of shape (o,), on the CPU."""
    context_lengths: Tensor
    """The lengths of the contexts, of shape (B,). Kept on the CPU, where packing needs them."""
    question_lengths: Tensor
    """The lengths of the questions, of shape (B,). Kept on the CPU, where packing needs them."""
    context_vectors: Tensor | None = None
    """The contextual vectors of the contexts, of shape (B, l, dctx); None if the model reads no contextual vectors.
    """
    question_vectors: Tensor | None = None
    """The contextual vectors of the questions, of shape (B, m, dctx); None if the model reads no contextual
    vectors.
    """

    def __len__(self) -> int:
        return len(self.context)

    def to(self, device: torch.device) -> MQANBatch:
        """Return the batch on a device, copied asynchronously if possible."""
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
    """Create a batch without a Python loop over tokens. The task is ignored."""
    contexts, questions = ([item[name] for item in items] for name in ("context", "question"))
    if not config.parts.coattention:  # the model reads both as one sequence
        contexts = [np.concatenate(pair) for pair in zip(contexts, questions, strict=True)]
    context, context_lengths = pad(contexts)
    question, question_lengths = pad(questions)
    answer, _ = pad([item.get("answer", _NO_ANSWER) for item in items])
    vocabulary = words.lexicon.size
    distinct, (context_rows, question_rows, answer_rows) = number_distinct([context, question, answer])
    is_other = distinct >= vocabulary
    outputs = np.where(is_other, vocabulary + np.cumsum(is_other) - 1, distinct)
    target = outputs[answer_rows][:, 1:].copy()
    # Words that the model can neither generate nor copy from their own example become <unk>.
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
