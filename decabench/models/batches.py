"""Examples as padded tensors, without a Python loop over tokens.

A batch numbers its own distinct words: their vectors are looked up, projected and moved to the device once each.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from decabench.models.vectors import Matrix, Vectors
from decabench.models.words import EOS, INIT, PAD, UNKNOWN, Ids, Lexicon

__all__ = ["NO_ANSWER", "Batch", "Collator", "Encoded", "VectorTable"]

Integers = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Encoded:
    """An example as word numbers, each text between <init> and <eos>."""

    context: Ids
    """The context, l tokens."""
    question: Ids
    """The question, m tokens."""
    answer: Ids
    """The answer that trains, n + 1 tokens; <init> and <eos> alone where it is not known."""

    @property
    def size(self) -> int:
        """How much of a batch it takes: context + question + 5 x answer (Appendix D)."""
        return len(self.context) + len(self.question) + 5 * len(self.answer)


@dataclass(frozen=True)
class Batch:
    """Examples of one task, padded. B examples, U distinct words, v + o words that the model can put out.

    The words that it can put out are the generative vocabulary and then the batch's own o other words (Eq. 10-13).
    """

    vectors: Tensor
    """(U, demb) of the distinct words; row 0 is padding."""
    context: Tensor
    """(B, l) rows of `vectors`."""
    question: Tensor
    """(B, m) rows of `vectors`."""
    answer: Tensor
    """(B, n) rows of `vectors`: what the decoder is fed, from <init> on."""
    context_output: Tensor
    """(B, l) numbers below v + o."""
    question_output: Tensor
    """(B, m) numbers below v + o."""
    target: Tensor
    """(B, n) numbers below v + o: what the decoder must say, up to <eos>; 0 is padding."""
    others: Tensor
    """(o,) rows of `vectors`: the words beyond the vocabulary."""
    other_words: Tensor
    """(o,) their numbers in the lexicon; stays on the CPU."""
    context_lengths: Tensor
    """(B,) stays on the CPU, where packing wants it."""
    question_lengths: Tensor
    """(B,) stays on the CPU."""

    def __len__(self) -> int:
        return len(self.context)

    @property
    def target_tokens(self) -> int:
        """How many tokens the loss is over."""
        return int((self.target != PAD).sum())

    def to(self, device: torch.device) -> Batch:
        """The same batch on a device, copied while other work goes on where that is possible."""
        if device.type == "cpu":
            return self
        stay = {"other_words", "context_lengths", "question_lengths"}
        names = [field.name for field in fields(self) if field.name not in stay]
        tensors = {name: getattr(self, name) for name in names}
        if device.type == "cuda":
            tensors = {name: tensor.pin_memory() for name, tensor in tensors.items()}
        return replace(self, **{name: t.to(device, non_blocking=True) for name, t in tensors.items()})


class VectorTable:
    """The vector of every word of a lexicon, filled as the lexicon grows."""

    def __init__(self, lexicon: Lexicon, vectors: Vectors) -> None:
        self.lexicon = lexicon
        self.vectors = vectors
        self._rows = np.zeros((0, vectors.dimension), dtype=np.float32)
        self._known = 0

    def __getitem__(self, numbers: Integers) -> Matrix:
        """(numbers, demb)"""
        self._fill()
        return self._rows[numbers]

    def vocabulary(self) -> Tensor:
        """(v, demb) of the generative vocabulary, for the decoder's own words."""
        self._fill()
        return torch.from_numpy(self._rows[: self.lexicon.size].copy())

    def _fill(self) -> None:
        if self._known < len(self.lexicon):
            new = self.vectors.rows(self.lexicon.words[self._known :])
            if len(self.lexicon) > len(self._rows):
                # Half as much again, so that words that come one batch after another are not copied each time.
                grown = np.zeros((len(self.lexicon) * 3 // 2, self.vectors.dimension), dtype=np.float32)
                grown[: self._known] = self._rows[: self._known]
                self._rows = grown
            self._rows[self._known : self._known + len(new)] = new
            self._known += len(new)


def _padded(texts: Sequence[Ids]) -> tuple[Integers, Integers]:
    """(rows, longest) with PAD at the end of each, and the lengths."""
    lengths = np.array([len(text) for text in texts], dtype=np.int64)
    made = np.full((len(texts), int(lengths.max())), PAD, dtype=np.int64)
    made[np.arange(made.shape[1]) < lengths[:, None]] = np.concatenate(texts)
    return made, lengths


@dataclass(frozen=True)
class Collator:
    """Makes batches."""

    table: VectorTable
    """Word numbers to vectors."""
    split_input: bool = True
    """Whether context and question stay two inputs; models without coattention read them as one."""
    question_pointer: bool = True
    """Whether words of the question can be pointed at where it is an input of its own."""

    def __call__(self, examples: Sequence[Encoded]) -> Batch:
        """The examples as one batch, in their order."""
        if not self.split_input:
            examples = [
                replace(example, context=np.concatenate([example.context, example.question]))
                for example in examples
            ]
        context, context_lengths = _padded([example.context for example in examples])
        question, question_lengths = _padded([example.question for example in examples])
        answer, _ = _padded([example.answer for example in examples])
        vocabulary = self.table.lexicon.size
        flat = np.concatenate([[PAD], context.ravel(), question.ravel(), answer.ravel()])
        words, rows = np.unique(flat, return_inverse=True)
        is_other = words >= vocabulary
        outputs = np.where(is_other, vocabulary + np.cumsum(is_other) - 1, words)
        ends = np.cumsum([1, context.size, question.size])
        context_rows, question_rows, answer_rows = np.split(rows, ends)[1:]
        target = outputs[answer_rows].reshape(answer.shape)[:, 1:]
        sources = [context, question] if self.question_pointer else [context]
        tensor = torch.from_numpy
        return Batch(
            vectors=tensor(self.table[words]),
            context=tensor(context_rows.reshape(context.shape)),
            question=tensor(question_rows.reshape(question.shape)),
            answer=tensor(np.ascontiguousarray(answer_rows.reshape(answer.shape)[:, :-1])),
            context_output=tensor(outputs[context_rows].reshape(context.shape)),
            question_output=tensor(outputs[question_rows].reshape(question.shape)),
            target=tensor(_targets(target, answer[:, 1:], sources, vocabulary)),
            others=tensor(np.flatnonzero(is_other)),
            other_words=tensor(words[is_other]),
            context_lengths=tensor(context_lengths),
            question_lengths=tensor(question_lengths),
        )


def _targets(outputs: Integers, answer: Integers, sources: Sequence[Integers], vocabulary: int) -> Integers:
    """What to say; <unk> for words that the model can neither generate nor point at in its own example."""
    made = outputs.copy()
    rows, columns = np.nonzero(answer >= vocabulary)
    words = answer[rows, columns][:, None]
    can_point = np.any([(source[rows] == words).any(1) for source in sources], axis=0)
    made[rows[~can_point], columns[~can_point]] = UNKNOWN
    return made


NO_ANSWER: Ids = np.array([INIT, EOS], dtype=np.int32)
"""What stands for an answer that is not known."""
