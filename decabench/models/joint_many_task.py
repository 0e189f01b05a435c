"""The Joint Many-Task model (Hashimoto et al. 2017), a stack of BiLSTMs with a layer for each task.

Equation and section numbers refer to "A Joint Many-Task Model: Growing a Neural Network for
Multiple NLP Tasks". In shapes, B is the number of examples, T of tokens, U of distinct words and
C of labels; H is the width of one direction. Each setting names its source: (paper), (code) for
the first author's later public code, or (guess) if no source states it.

Simpler tasks use lower layers. A task's role in the paper follows from its output: tags (POS
tagging, or chunking for IOB2 tags), a tree (parsing), a number (relatedness) or a label
(entailment). Tasks with numbers and labels compare two sentences.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Annotated, cast

import numpy as np
import torch
from msgspec import Meta
from torch import Tensor, nn
from torch.nn import functional as F

from decabench.errors import DataError, DecabenchError, require_name
from decabench.models.batches import ColumnBatch, Integers, Item, TextReader
from decabench.models.family import Amount, Count, Depth, Family, Losses, Rate
from decabench.models.heads import (
    TARGETS,
    ClassifierHead,
    Head,
    HeadedNetwork,
    ParserHead,
    SoftmaxHead,
    TaskHeads,
    part_name,
    with_target,
)
from decabench.models.layers import BiLSTM, drop, max_over_time, token_mask
from decabench.tasks import Label, Number, Output, Question, Tags, Task, Tree
from decabench.vectors import (
    PAD,
    SPECIALS,
    UNKNOWN,
    Lexicon,
    NgramVectors,
    NoVectors,
    Vectors,
    WordTable,
    ngrams,
)


@dataclass(frozen=True)
class JointManyTaskConfig:
    """Configuration of a Joint Many-Task model, with the paper's values as defaults."""

    name: str = "jmt"
    """The model's name, always `jmt`."""
    hidden: Count = 100
    """The width H of a BiLSTM's states in each direction (paper)."""
    word_dimension: Count = 100
    """The total dimension of the run's `vectors`, not counting n-gram vectors (paper: skip-gram, window 1)."""
    ngram_dimension: Annotated[int, Meta(ge=0)] = 100
    """The length of the vectors of character n-grams (n from 2 to 4); 0 to use only words (paper, Table
    11)."""
    label_dimension: Count = 100
    """The length of a label embedding (paper)."""
    levels: Mapping[str, Depth] = field(default_factory=dict)
    """The layer of each task, counted from 1. To deepen a single-task model, give its task a layer above 1
    (`Single+`). To share a layer, give several tasks the same number (`All-3`). Each unlisted task gets
    a new layer above these, ordered by output (tags, chunks, trees, numbers, labels) and then by name.
    """
    shortcuts: bool = True
    """Whether all layers read the words, instead of only the first (paper, Table 9: w/o SC)."""
    label_embeddings: bool = True
    """Whether layers read the labels predicted by lower layers, Eq. 2 (paper, Table 10: w/o LE)."""
    label_gradient: bool = True
    """Whether a task's loss also trains the classifiers whose predicted labels the task reads, and the layers
    below them (Eq. 2; guess, since the paper doesn't say)."""
    vertical: bool = True
    """Whether a layer reads the states of the layer below (paper, section 6.3: w/o VC)."""
    ratings: Annotated[int, Meta(ge=2)] = 5
    """The number of rating classes. A predicted number is the expected value over these classes (paper: 1 to 5)."""
    pieces: Depth = 2
    """The number of linear pieces in a Maxout layer. The layer is as wide as its input (guess)."""
    word_dropout: Amount = 0.25
    """The constant a that controls how often words are dropped in training. A word that occurs n times is replaced by
    the unknown word with probability a / (a + n), but keeps its n-grams (code)."""
    input_dropout: Rate = 0.4
    """The dropout rate for words and label embeddings in the layers for tags and trees (paper)."""
    pair_input_dropout: Rate = 0.2
    """The dropout rate for words and label embeddings in the layers for labels (paper)."""
    rating_input_dropout: Rate = 0.0
    """The dropout rate for words and label embeddings in the layers for numbers (the paper mentions no such
    dropout). If the sentences of a pair have separate masks, they look less similar in training than they are. With a
    rate of 0.2, predicted ratings are too high by 0.27 on SICK's scale of 1 to 5."""
    shared_masks: bool = False
    """Whether both sentences of a pair, and all their words, share one dropout mask on words and label
    embeddings (guess)."""
    vertical_dropout: Rate = 0.2
    """The dropout rate for the states of the layer below (paper)."""
    classifier_dropout: Rate = 0.2
    """The dropout rate for the input of the classifiers for tags, trees and labels (paper).

    The paper doesn't say where dropout applies, so the input is a guess."""
    rating_dropout: Rate = 0.4
    """The dropout rate for the input of the classifier for ratings (paper; applying it to the input is a guess)."""
    lstm_decay: Amount = 1e-6
    """The weight of the L2 penalty on the matrices of BiLSTMs, lambda in Eq. 6-10 (paper). The gradients of this
    penalty and of the penalties in the next three settings omit the factor 2 from the square (code), and are not
    clipped."""
    classifier_decay: Amount = 1e-5
    """The weight of the L2 penalty on the matrices of classifiers, lambda in Eq. 6-10 (paper)."""
    successive: Amount = 1e-3
    """The weight of the penalty that keeps embeddings and lower layers close to their values at the start
    of the pass over the task, delta in Eq. 6-10 (paper). To turn it off, set this and
    `successive_classifier` to 0 (Table 8: w/o SR). Use it with the order `sequence` or `shuffled`,
    where each task trains for a whole pass before the next. If tasks are mixed, the penalty refers to
    the values at the start of the most recent pass over any task. With `together`, each step applies
    the penalty of only one task.
    """
    successive_classifier: Amount = 1e-2
    """The weight of the `successive` penalty on the classifiers of lower tasks, delta in Eq. 6-10 (paper)."""
    sparse_gradients: bool = False
    """Whether embeddings have sparse gradients, which require the optimizer sgd or adagrad. Steps are faster, and
    the result is the same."""
    vocabulary: Count = 1_000_000
    """The maximum size of the vocabulary. The default covers all words of the training data, each with its
    own vector (paper)."""
    unseen_vectors: bool = True
    """Whether words outside the training data keep their vectors from files, instead of becoming unknown
    words (guess: the paper's five training sets contain nearly all words of its test sets). Words are looked
    up as written, then in lower case."""
    word_scale: Amount = 1.0
    """A factor by which word vectors are multiplied before training (guess)."""

    def __post_init__(self) -> None:
        if not self.vertical and not self.shortcuts:
            raise DecabenchError(
                "With neither shortcuts nor vertical connections, only the first layer would read the "
                "words. Set model.shortcuts or model.vertical to true."
            )

    @property
    def train_embeddings(self) -> bool:
        """Whether word vectors are trained (always true).

        Batches therefore contain fixed vectors only if `unseen_vectors` is set.
        """
        return True


# Examples ----------------------------------------------------------------------------------------------------------

_NAMED = re.compile(r"[A-Z]\w*(?: \w+)?: ")  # `Sentence A: ...`
_QUOTED = re.compile(rf'(?:{_NAMED.pattern}"(.*)"|"([^"]*)"$)', re.DOTALL)
_ONE_QUOTED = re.compile(rf'(?:{_NAMED.pattern})?"[^"]*"$')


def encode(question: Question, answer: str | None, task: Task, reader: TextReader) -> Item:
    """Encode the tokens of a sentence, or the words of a pair of sentences, preserving case."""
    if isinstance(task.output, Tags | Tree):
        tokens = reader.tokens(question.context, lower=False)
        texts = {"tokens": tokens}
    else:
        texts = dict(zip(("tokens", "second"), reader.all_words(_split(question, task)), strict=True))
        tokens = texts["tokens"]
    return with_target(texts, answer, task, reader, len(tokens))


def _split(question: Question, task: Task) -> tuple[str, str]:
    """Return the two sentences that a question compares: the lines of the context, or the context and the question.

    If a sentence has the form `Name: "..."` or is entirely in quotes, only the quoted text is kept. If both sentences
    begin with a name, such as `Sentence A:`, only the text after the name is kept.
    """
    context = question.context.strip()
    lines = [line for line in context.splitlines() if line.strip()]
    if len(lines) == 2 and not _ONE_QUOTED.match(context):
        first, second = lines
    elif task.question_varies:
        first, second = context, question.question.strip()
    else:
        raise DataError(
            f"jmt compares two sentences, but the context {context!r:.200} does not have two lines. Put each sentence "
            "on its own line. If the second sentence is in the question, set question_varies=True in the task."
        )
    named, quoted = ([pattern.match(text) for text in (first, second)] for pattern in (_NAMED, _QUOTED))
    if named[0] and named[1]:
        first, second = first[named[0].end() :], second[named[1].end() :]
    found = [
        text if match is None else cast(str, match[1] or match[2] or "")
        for match, text in zip(quoted, (first, second), strict=True)
    ]
    return found[0], found[1]


# Words (section 2.1) -----------------------------------------------------------------------------------------------


class WordParts:
    """Maps the words of a lexicon to rows of the word table and the n-gram table.

    Words are lower-cased; n-grams are not. Both tables cover only the vocabulary. Words that are added
    to the lexicon later are looked up in the same tables.
    """

    def __init__(self, lexicon: Lexicon, with_ngrams: bool) -> None:
        self._lexicon = lexicon
        vocabulary = [word.strip() for word in lexicon.words[len(SPECIALS) : lexicon.size]]
        self.forms = dict[str, str]()
        """The most frequent form of each lower-cased word."""
        for word in vocabulary:
            self.forms.setdefault(word.lower(), word)
        self.words = {word: row for row, word in enumerate(self.forms, 2)}
        """The row of each word. Row 0 is padding and row 1 the unknown word."""
        distinct = dict.fromkeys(gram for word in vocabulary for gram in ngrams(word)) if with_ngrams else ()
        self.ngrams = {gram: row for row, gram in enumerate(distinct)}
        """The row of each n-gram."""
        self._rows = [PAD, *[UNKNOWN] * (len(SPECIALS) - 1)]
        self._grams = [np.zeros(0, dtype=np.int64)] * len(SPECIALS)

    def rows(self, numbers: Integers) -> Tensor:
        """Return the row of each lexicon id in the table of words, of shape (U,)."""
        self._fill()
        return torch.tensor([self._rows[number] for number in numbers.tolist()], dtype=torch.int64)

    def ngram_rows(self, numbers: Integers) -> tuple[Tensor, Tensor]:
        """Return the rows of all words' distinct n-grams, and the position where each word's n-grams start.

        The rows of all words are in a single tensor, one word after the other. The positions have the
        shape (U,).
        """
        self._fill()
        found = [self._grams[number] for number in numbers.tolist()]
        counts = np.array([len(rows) for rows in found])
        return torch.from_numpy(np.concatenate(found)), torch.from_numpy(np.cumsum(counts) - counts)

    def _fill(self) -> None:
        for word in map(str.strip, self._lexicon.words[len(self._rows) :]):
            self._rows.append(self.words.get(word.lower(), UNKNOWN))
            grams = [self.ngrams[gram] for gram in dict.fromkeys(ngrams(word)) if gram in self.ngrams]
            self._grams.append(np.array(grams, dtype=np.int64))


class WordRepresentation(nn.Module):
    """The representation x_t of a word (section 2.1).

    This is the word's vector, concatenated with the mean vector of its distinct n-grams. The table of words and the
    table of n-grams are both trained.
    """

    def __init__(self, config: JointManyTaskConfig, words: WordTable) -> None:
        super().__init__()
        self.parts = WordParts(words.lexicon, bool(config.ngram_dimension))
        self.sparse = config.sparse_gradients
        self.dimension = config.word_dimension + config.ngram_dimension
        vectors = words.vectors.parts
        self.words = nn.Parameter(_first_words(self.parts, vectors, config))
        self.scale, self.fixed = config.word_scale, _word_columns(vectors)
        self.ngrams: nn.Parameter | None = None
        if config.ngram_dimension:
            self.ngrams = nn.Parameter(_first_ngrams(self.parts, vectors, config.ngram_dimension))
        counts = torch.zeros(len(self.words))
        if len(own := words.lexicon.counts):
            numbers = np.arange(len(SPECIALS), words.lexicon.size)
            counts.index_add_(0, self.parts.rows(numbers), torch.from_numpy(own[numbers]).to(counts))
        rates = config.word_dropout / (config.word_dropout + counts)
        self.register_buffer("unknown_rate", rates.where(counts > 0, 0.0), persistent=False)

    def forward(self, batch: ColumnBatch, columns: Tensor) -> Tensor:
        """Return the representations of words, of shape (B, T, d).

        `columns`, of shape (B, T), contains the words as indexes into the batch's distinct words.
        """
        numbers, device = batch.words.cpu().numpy(), columns.device
        distinct = self.parts.rows(numbers).to(device)
        rows = distinct[columns]
        if self.training:  # word dropout
            rates = cast(Tensor, self.unknown_rate)[rows]
            rows = rows.masked_fill(torch.rand_like(rates) < rates, UNKNOWN)
        x = F.embedding(rows, self.words, padding_idx=PAD, sparse=self.sparse)
        if batch.vectors is not None and self.fixed:
            fixed = batch.vectors[:, self.fixed]
            has_own = (distinct == UNKNOWN) & (fixed != 0).any(1)
            x = torch.where(has_own[columns][..., None], self.scale * fixed[columns], x)
        if self.ngrams is None:
            return x
        members, starts = (part.to(device) for part in self.parts.ngram_rows(numbers))
        means = F.embedding_bag(members, self.ngrams, starts, mode="mean", sparse=self.sparse)
        return torch.cat([x, F.embedding(columns, means)], 2)


def _word_columns(vectors: tuple[Vectors, ...]) -> list[int]:
    found, start = list[int](), 0
    for part in vectors:
        if isinstance(part, NoVectors):
            return []  # unseen words don't get random vectors
        if not isinstance(part, NgramVectors):
            found += range(start, start + part.dimension)
        start += part.dimension
    return found


def _first_words(parts: WordParts, vectors: tuple[Vectors, ...], config: JointManyTaskConfig) -> Tensor:
    """Return the initial table of words.

    Each row is the vector of the lower-cased word or, if that has no vector, of the word's most frequent form. Words
    without any vector get random values between -0.01 and 0.01.
    """
    own = [part for part in vectors if not isinstance(part, NgramVectors)]
    if all(isinstance(part, NoVectors) for part in own):  # random vectors can have any dimension
        own = [NoVectors(config.word_dimension)]
    if (given := sum(part.dimension for part in own)) != config.word_dimension:
        raise DecabenchError(
            f"model.word_dimension is {config.word_dimension}, but the word vectors have {given} dimensions. Set "
            f"model.word_dimension to {given}, or choose other vectors."
        )
    made = torch.empty(len(parts.words) + 2, config.word_dimension).uniform_(-0.01, 0.01)
    made[PAD] = 0
    if made.is_meta or not parts.words:
        return made
    for forms in (parts.forms.values(), parts.forms):
        found = torch.from_numpy(np.concatenate([part.rows(list(forms)) for part in own], 1))
        made[2:] = torch.where((found != 0).any(1, keepdim=True), config.word_scale * found, made[2:])
    return made


def _first_ngrams(parts: WordParts, vectors: tuple[Vectors, ...], dimension: int) -> Tensor:
    made = torch.empty(max(1, len(parts.ngrams)), dimension).uniform_(-0.01, 0.01)
    own = [part for part in vectors if isinstance(part, NgramVectors)]
    if own and (given := sum(part.dimension for part in own)) != dimension:
        raise DecabenchError(
            f"model.ngram_dimension is {dimension}, but the n-gram vectors have {given} dimensions. Set "
            f"model.ngram_dimension to {given}, or choose other vectors."
        )
    start = 0
    for part in own:
        columns = slice(start, start + part.dimension)
        start += part.dimension
        for gram, row in parts.ngrams.items() if not made.is_meta else ():
            known = part.index.get(gram, part.index.get(_lower_gram(gram), -1))
            if known >= 0:
                made[row, columns] = torch.from_numpy(part.matrix[known].copy())
    return made


def _lower_gram(gram: str) -> str:
    kind, _, text = gram.partition("-")
    return f"{kind}-{text.lower().replace('#begin#', '#BEGIN#').replace('#end#', '#END#')}"


# Layers and heads ----------------------------------------------------------------------------------------------------


def _init_uniform(weight: Tensor, columns: int | None = None) -> None:
    """Initialize a matrix uniformly from [-r, r], with r = sqrt(6 / (rows + columns)) (section 5.2).

    If `weight` is part of a wider matrix, `columns` is the width of that matrix.
    """
    bound = math.sqrt(6 / (weight.shape[0] + (columns or weight.shape[1])))
    nn.init.uniform_(weight, -bound, bound)


def _init_linear(linear: nn.Linear, blocks: int = 1) -> nn.Linear:
    for block in linear.weight.data.chunk(blocks):
        _init_uniform(block)
    nn.init.zeros_(linear.bias)
    return linear


def _init_softmax(linear: nn.Linear) -> None:
    # The paper uses zeros (section 5.2).
    nn.init.zeros_(linear.weight)
    nn.init.zeros_(linear.bias)


def _make_layer(d_in: int, hidden: int) -> BiLSTM:
    """Build a BiLSTM (Eq. 1). PyTorch's second bias stays 0, because Eq. 1 has only one; see `adjust_gradients`."""
    made = BiLSTM(d_in, 2 * hidden, 0.0)
    for name, parameter in made.lstm.named_parameters():
        if name.startswith("bias"):
            nn.init.zeros_(parameter)
            if name.startswith("bias_ih"):
                nn.init.ones_(parameter.data[hidden : 2 * hidden])  # the forget gate
        else:
            for gate in parameter.data.chunk(4):
                _init_uniform(gate, d_in + hidden)  # W of a gate reads [h_{t-1}; x_t]
    return made


class Maxout(nn.Module):
    """The elementwise maximum of several linear maps (Goodfellow et al. 2013), as wide as the input."""

    def __init__(self, width: int, pieces: int) -> None:
        super().__init__()
        self.pieces = _init_linear(nn.Linear(width, pieces * width), pieces)
        self.count = pieces

    def forward(self, x: Tensor) -> Tensor:
        """Apply the layer, (B, d) -> (B, d)."""
        pieces: Tensor = self.pieces(x)
        return pieces.view(len(x), self.count, -1).amax(1)


class HiddenHead(Head):
    """Base class of heads with hidden layers."""

    softmax: SoftmaxHead | ClassifierHead

    def hide(self, x: Tensor) -> Tensor:
        """Apply the hidden layers, (..., d) -> (..., d)."""
        raise NotImplementedError

    def losses(self, x: Tensor, targets: Mapping[str, Tensor], lengths: Tensor) -> Losses:
        """Return the negative log-likelihood of the tags (Eq. 6) or labels (Eq. 10), summed over tokens or pairs."""
        return self.softmax.losses(self.hide(x), targets, lengths)

    def answers(self, x: Tensor, lengths: Tensor) -> list[str]:
        """Return the most likely tags or labels."""
        return self.softmax.answers(self.hide(x), lengths)


class TagHead(HiddenHead):
    """A softmax over each token's tags, on top of a ReLU layer (section 2.2).

    The input states have the shape (B, T, d).
    """

    by_token = True

    def __init__(self, width: int, output: Tags) -> None:
        super().__init__()
        self.hidden = _init_linear(nn.Linear(width, width))
        self.softmax = SoftmaxHead(width, output)
        self.classes = len(output.names)
        _init_softmax(self.softmax.score)

    def hide(self, x: Tensor) -> Tensor:
        return cast(Tensor, self.hidden(x)).relu()

    def probabilities(self, x: Tensor) -> Tensor:
        """Return the probabilities of the tags at each token, of shape (B, T, C)."""
        return cast(Tensor, self.softmax.score(self.hide(x))).softmax(2)


class ChunkHead(TagHead):
    """A TagHead for IOB2 tags, which are converted to IOBES for training (section 5.1) and back for answers."""

    def __init__(self, width: int, output: Tags) -> None:
        inside = [name for name in output.names if name in ("B", "I") or name[:2] in ("B-", "I-")]
        kinds = list(dict.fromkeys(name[1:] for name in inside))  # "-NP", or "" for bare tags
        spelled = [f"{prefix}{kind}" for kind in kinds for prefix in "BIES"]
        super().__init__(width, Tags(names=("O", *spelled)))
        self._parts = [
            (name[0], kinds.index(name[1:])) if name in inside else ("O", -1) for name in output.names
        ]

    def losses(self, x: Tensor, targets: Mapping[str, Tensor], lengths: Tensor) -> Losses:
        """Return the negative log-likelihood of the IOBES tags, summed over tokens (Eq. 7)."""
        spelled = self.spell(targets["tags"], token_mask(lengths, x))
        return super().losses(x, {"tags": spelled}, lengths)

    def answers(self, x: Tensor, lengths: Tensor) -> list[str]:
        """Return the most likely tag of each token."""
        swap = {"S": "B", "E": "I"}
        return [
            " ".join(swap.get(tag[0], tag[0]) + tag[1:] for tag in text.split())
            for text in super().answers(x, lengths)
        ]

    def spell(self, tags: Tensor, mask: Tensor) -> Tensor:
        """Convert the ids of IOB2 tags to ids of IOBES tags, of shape (B, T).

        In the result, 0 is O, followed by B, I, E and S of each kind.
        """
        kind = torch.tensor([kind for _, kind in self._parts], device=tags.device)[tags].where(mask, -1)
        inside = torch.tensor([prefix == "I" for prefix, _ in self._parts], device=tags.device)[tags]
        goes_on = inside[:, 1:] & (kind[:, 1:] == kind[:, :-1])  # whether a chunk continues from t to t + 1
        starts, ends = ~F.pad(goes_on, (1, 0)), ~F.pad(goes_on, (0, 1))
        place = torch.where(starts, torch.where(ends, 3, 0), torch.where(ends, 2, 1))
        return torch.where(kind < 0, 0, 1 + 4 * kind + place)


class RatingHead(Head):
    """A head that predicts the expected value of evenly spaced ratings (sections 2.5 and 3.5).

    The input features have the shape (B, d). In training, a number y becomes a distribution with mean
    y, in which only the two ratings nearest to y can have a probability above 0 (Tai et al. 2015).
    """

    def __init__(self, width: int, output: Number, config: JointManyTaskConfig) -> None:
        super().__init__()
        self.classes = config.ratings
        self.low, self.step = output.low, (output.high - output.low) / (self.classes - 1)
        self.hidden = Maxout(width, config.pieces)
        self.score = nn.Linear(width, self.classes)
        _init_softmax(self.score)

    def log_probabilities(self, x: Tensor) -> Tensor:
        """Return the log-probabilities of the ratings, of shape (B, C)."""
        return cast(Tensor, self.score(self.hidden(x))).log_softmax(1)

    def losses(self, x: Tensor, targets: Mapping[str, Tensor], lengths: Tensor) -> Losses:
        """Return the KL divergence KL(target || prediction), summed over pairs (Eq. 9)."""
        target = self.distribute(targets["number"][:, 0])
        return {"number": (F.kl_div(self.log_probabilities(x), target, reduction="sum"), len(x))}

    def distribute(self, numbers: Tensor) -> Tensor:
        """Return the target distributions over ratings, of shape (B, C).

        `numbers`, of shape (B,), contains the correct numbers.
        """
        place = ((numbers - self.low) / self.step).clamp(0, self.classes - 1)
        grid = torch.arange(self.classes, device=place.device, dtype=place.dtype)
        return (1 - (place[:, None] - grid).abs()).clamp_min(0)

    def answers(self, x: Tensor, lengths: Tensor) -> list[str]:
        """Return the expected values, rounded to four decimal places."""
        p = self.log_probabilities(x).exp()
        grid = self.low + self.step * torch.arange(self.classes, device=p.device, dtype=p.dtype)
        return [f"{value:.4f}" for value in (p @ grid).tolist()]


class MaxoutHead(HiddenHead):
    """A softmax over the labels, on top of three Maxout layers (section 2.6).

    The input features have the shape (B, d).
    """

    def __init__(self, width: int, output: Label, pieces: int) -> None:
        super().__init__()
        self.hidden = nn.Sequential(*(Maxout(width, pieces) for _ in range(3)))
        self.softmax = ClassifierHead(width, output)
        _init_softmax(self.softmax.score)

    def hide(self, x: Tensor) -> Tensor:
        return cast(Tensor, self.hidden(x))


def _make_parser(width: int, output: Tree) -> ParserHead:
    """Build a parser (Eq. 3), with W_d and the root's vector r initialized to 0."""
    made = ParserHead(width, output)
    nn.init.zeros_(made.root)
    nn.init.zeros_(made.match.weight)
    _init_linear(made.hidden)
    _init_softmax(made.relation)
    return made


# The model -----------------------------------------------------------------------------------------------------------


def assign_levels(config: JointManyTaskConfig, outputs: Mapping[str, Output]) -> dict[str, int]:
    """Return the layer of each task, in ascending order.

    Tasks without a configured layer are placed above all other tasks.
    """
    for task in config.levels:
        require_name(task, outputs, "task in model.levels")

    def rank(task: str) -> tuple[int, str]:
        match outputs[task]:
            case Tags(scheme="plain"):
                return 0, task
            case Tags():
                return 1, task
            case Tree():
                return 2, task
            case Number():
                return 3, task
            case _:
                return 4, task

    made = {task: level for task, level in config.levels.items() if task in outputs}
    for task in sorted(outputs.keys() - made.keys(), key=rank):
        made[task] = max(made.values(), default=0) + 1
    return dict(sorted(made.items(), key=lambda pair: (pair[1], rank(pair[0]))))


class JointManyTask(HeadedNetwork):
    """Stacked BiLSTMs with a head for each task, and embeddings of the labels that the heads predict."""

    vocabulary_rows = ()  # see table_rows

    def __init__(self, config: JointManyTaskConfig, outputs: Mapping[str, Output], words: WordTable) -> None:
        super().__init__()
        self.config, self.outputs = config, outputs
        self.levels = assign_levels(config, outputs)
        self.embed = WordRepresentation(config, words)
        self.layers = nn.ModuleList(
            _make_layer(self._input_width(level), config.hidden)
            for level in range(1, max(self.levels.values()) + 1)
        )
        self.heads, self.labels = TaskHeads({}, lambda output: Head()), nn.ParameterDict()
        for task in self.levels:
            self.heads.add(task, self._make_head(task))
            if any(task in self._read_by(other) for other in self.levels):
                classes, width = cast(TagHead | RatingHead, self.heads[task]).classes, config.label_dimension
                bound = math.sqrt(6 / (width + classes))
                self.labels[part_name(task)] = nn.Parameter(
                    torch.empty(classes, width).uniform_(-bound, bound)
                )
        self.penalties = {task: dict(self._list_penalties(task)) for task in self.levels}
        self.trained = next(iter(self.levels))  # the task of the current step
        pulled = {name for own in self.penalties.values() for name, (_, delta) in own.items() if delta}
        for name, parameter in list(self.named_parameters()):
            if name in pulled:
                self.register_buffer(_reference_name(name), parameter.detach().clone())

    # How tasks build on each other

    def _below(self, level: int, kind: type[Tags] | type[Number]) -> list[str]:
        """Return the tasks below `level` with this kind of output, or none if layers don't read predicted labels."""
        below = [task for task, own in self.levels.items() if own < level and self.config.label_embeddings]
        return [task for task in below if isinstance(self.outputs[task], kind)]

    def _read_by(self, task: str) -> list[str]:
        """Return the tasks whose predicted labels `task` reads (Eq. 2)."""
        level = self.levels[task]
        rated = self._below(level, Number) if isinstance(self.outputs[task], Label) else []
        return self._below(level, Tags) + rated

    def _input_width(self, level: int) -> int:
        config = self.config
        above = config.vertical and level > 1
        words = level == 1 or config.shortcuts
        labels = bool(self._below(level, Tags))
        return 2 * config.hidden * above + self.embed.dimension * words + config.label_dimension * labels

    def _make_head(self, task: str) -> Head:
        config, width = self.config, 2 * self.config.hidden
        match self.outputs[task]:
            case Tags(scheme="IOB2") as output:
                return ChunkHead(width, output)
            case Tags() as output:
                return TagHead(width, output)
            case Tree() as output:
                return _make_parser(width, output)
            case Number() as output:
                return RatingHead(2 * width, output, config)
            case Label() as output:
                rated = bool(self._below(self.levels[task], Number))
                return MaxoutHead(2 * width + config.label_dimension * rated, output, config.pieces)
            case output:
                raise TypeError(f"No head supports outputs of type {type(output).__name__}.")

    # From words to states

    def _is_pair(self, task: str) -> bool:
        """Return whether a task reads two sentences. Batches, (2B, T, d), then have all first sentences first."""
        return isinstance(self.outputs[task], Label | Number)

    def _drop(self, x: Tensor, rate: float) -> Tensor:
        return drop(x, rate) if self.training else x

    def _drop_input(self, x: Tensor, rate: float, is_pair: bool) -> Tensor:
        if not (is_pair and self.config.shared_masks and self.training and rate):
            return self._drop(x, rate)
        mask = drop(x.new_ones(len(x) // 2, 1, x.shape[2]), rate)
        return x * torch.cat([mask, mask])

    def _read(self, p: Tensor) -> Tensor:
        return p if self.config.label_gradient else p.detach()

    def _used_levels(self, task: str) -> list[int]:
        top = self.levels[task]
        if self.config.vertical:
            return list(range(1, top + 1))
        return sorted({top, *(self.levels[other] for other in self._read_by(task))})

    def states(self, x: Tensor, lengths: Tensor, task: str) -> dict[int, Tensor]:
        """Return the states of each layer that a task needs, by layer number.

        The states of a layer have the shape (B, T, 2H). `x` contains the representations of the words, of
        shape (B, T, d).
        """
        config, found, is_pair = self.config, dict[int, Tensor](), self._is_pair(task)
        reads = self._read_by(task)
        labels: Tensor | None = None  # the running sum of label embeddings
        for level in self._used_levels(task):
            kind = next(self.outputs[other] for other, own in self.levels.items() if own >= level)
            rate = config.pair_input_dropout if isinstance(kind, Label) else config.input_dropout
            if isinstance(kind, Number):
                rate = config.rating_input_dropout
            parts = []
            if config.vertical and found:
                parts.append(self._drop(found[level - 1], config.vertical_dropout))
            if config.shortcuts or level == 1:
                parts.append(self._drop_input(x, rate, is_pair))
            if labels is not None:
                parts.append(self._drop_input(labels, rate, is_pair))
            h, _, _ = self.layers[level - 1](torch.cat(parts, 2), lengths)
            found[level] = h
            for other in reads:
                if self.levels[other] == level and isinstance(self.outputs[other], Tags):
                    head = cast(TagHead, self.heads[other])
                    p = self._read(head.probabilities(self._drop(h, config.classifier_dropout)))
                    own = p @ self.labels[part_name(other)]  # Eq. 2
                    labels = own if labels is None else labels + own
        return found

    def head_input(self, batch: ColumnBatch) -> tuple[Tensor, Tensor]:
        task, level = batch.task, self.levels[batch.task]
        columns, lengths = batch.columns["tokens"], batch.lengths["tokens"]
        if not self._is_pair(task):
            h = self.states(self.embed(batch, columns), lengths, task)[level]
            return self._drop(h, self.config.classifier_dropout), lengths
        second, counts = batch.columns["second"], batch.lengths["second"]
        longest = max(columns.shape[1], second.shape[1])
        both = torch.cat([F.pad(each, (0, longest - each.shape[1])) for each in (columns, second)])
        lengths = torch.cat([lengths, counts])
        states = self.states(self.embed(batch, both), lengths, task)
        if isinstance(self.outputs[task], Number):
            return self._rating_features(states[level], lengths), lengths
        s, other = max_over_time(states[level], lengths).chunk(2)  # Eq. 4
        features = torch.cat([s - other, s * other], 1)  # d_2, section 2.6
        rated = [each for each in self._read_by(task) if isinstance(self.outputs[each], Number)]
        if rated:
            labels = []
            for each in rated:
                head = cast(RatingHead, self.heads[each])
                p = head.log_probabilities(self._rating_features(states[self.levels[each]], lengths)).exp()
                labels.append(self._read(p) @ self.labels[part_name(each)])
            features = torch.cat([features, cast(Tensor, sum(labels))], 1)
        return self._drop(features, self.config.classifier_dropout), lengths

    def _rating_features(self, states: Tensor, lengths: Tensor) -> Tensor:
        """Return the features d_1 of pairs (Eq. 5), (B, 4H), from the states of their sentences, (2B, T, 2H)."""
        s, other = max_over_time(states, lengths).chunk(2)
        return self._drop(torch.cat([(s - other).abs(), s * other], 1), self.config.rating_dropout)

    def losses(self, batch: ColumnBatch) -> Losses:
        """Return the losses of Eq. 6-10 without their penalties, summed over tokens or pairs.

        The trainer divides the sums by the number of examples, not tokens (code).
        """
        self.trained = batch.task
        return {name: (value, len(batch)) for name, (value, _) in super().losses(batch).items()}

    # The other terms of Eq. 6-10

    def _list_penalties(self, task: str) -> Iterator[tuple[str, tuple[float, float]]]:
        """Yield the name, lambda and delta of each parameter that is penalized when a task is trained."""
        config, level, reads = self.config, self.levels[task], self._read_by(task)
        used, owners = self._used_levels(task), {part_name(own): own for own in self.levels}
        lower = max((own for own in self.levels.values() if own < level), default=0)
        for name, parameter in self.named_parameters():
            part, _, rest = name.partition(".")
            is_matrix = parameter.ndim == 2
            decay = successive = 0.0
            if part == "embed":
                successive = config.successive
            elif part == "layers" and (own := int(rest.partition(".")[0]) + 1) in used:
                decay = config.lstm_decay * is_matrix
                successive = config.successive * (own <= lower)
            elif part == "heads":
                owner = owners[rest.partition(".")[0]]
                if owner in (task, *reads):
                    decay = config.classifier_decay * is_matrix
                    successive = config.successive_classifier * (owner != task)
            elif part == "labels":
                owner = owners[rest]
                below = [other for other, own in self.levels.items() if own < level]
                successive = config.successive * any(owner in self._read_by(other) for other in below)
            if decay or successive:
                yield name, (decay, successive)

    def table_rows(self, lexicon: Lexicon) -> dict[str, dict[str, int]]:
        parts = WordParts(lexicon, self.embed.ngrams is not None)
        return {"embed.words": {"": UNKNOWN, **parts.words}, "embed.ngrams": parts.ngrams}

    def begin_pass(self, task: str, number: int) -> None:
        """Store the parameters at the start of a pass as theta' of Eq. 6-10."""
        for name, parameter in self.named_parameters():
            if (reference := self._buffers.get(_reference_name(name))) is not None:
                reference.copy_(parameter.detach())

    def adjust_gradients(self) -> None:
        """Zero the gradients of PyTorch's second LSTM biases.

        If both biases were trained, their sum would learn twice as fast.
        """
        for name, parameter in self.layers.named_parameters():
            if "bias_hh" in name and parameter.grad is not None:
                parameter.grad.zero_()

    @torch.no_grad()
    def before_step(self, rate: float) -> None:
        """Apply the gradient of the penalties: theta - rate (lambda theta + delta (theta - theta'))."""
        own = dict(self.named_parameters())
        for name, (decay, successive) in self.penalties[self.trained].items():
            parameter = own[name]
            if not parameter.requires_grad:
                continue
            if not successive:
                parameter.mul_(1 - rate * decay)
                continue
            reference = cast(Tensor, self._buffers[_reference_name(name)])
            if decay:
                parameter.mul_(1 - rate * decay - rate * successive).add_(reference, alpha=rate * successive)
            else:
                parameter.lerp_(reference, rate * successive)


_REFERENCES = "reference/"


def _reference_name(parameter: str) -> str:
    return f"{_REFERENCES}{parameter.replace('.', '/')}"


FAMILY = Family(
    config=JointManyTaskConfig,
    columns={"tokens": "words", "second": "words", **TARGETS},
    outputs=(Tags, Tree, Number, Label),
    encode=encode,
    build=JointManyTask,
    losses=("tags", "head", "relation", "number", "label"),
    training_only=(_REFERENCES,),
)
