"""Training data as word numbers, and batches of it that are filled by tokens and bucketed by length."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import numpy as np
import numpy.typing as npt
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from decabench.errors import MissingDataError
from decabench.files import atomic_file
from decabench.models import SPECIALS, Encoded, Ids, Lexicon
from decabench.tasks import Store
from decabench.training.config import TrainConfig

__all__ = ["BatchStream", "TaskData", "Texts", "batches_of", "encode_tasks", "fingerprints"]

Integers = npt.NDArray[np.int64]
_POOL = 64  # batches' worth of examples that are sorted by length together


@dataclass(frozen=True)
class Texts:
    """Many encoded texts in one array."""

    words: Ids
    """All of them, one after the other."""
    ends: Integers
    """Where each ends."""

    @classmethod
    def of(cls, texts: Sequence[Ids]) -> Texts:
        return cls(np.concatenate(texts), np.cumsum([len(text) for text in texts]))

    def __len__(self) -> int:
        return len(self.ends)

    def __getitem__(self, row: int) -> Ids:
        return self.words[(self.ends[row - 1] if row else 0) : self.ends[row]]

    @property
    def lengths(self) -> Integers:
        return np.diff(self.ends, prepend=0)


@dataclass(frozen=True)
class TaskData:
    """A task's training examples."""

    name: str
    """The task."""
    context: Texts
    """Contexts, cut where the configuration says so."""
    question: Texts
    """Questions."""
    answer: Texts
    """First answers."""

    def __len__(self) -> int:
        return len(self.answer)

    def example(self, row: int) -> Encoded:
        """One example."""
        return Encoded(self.context[row], self.question[row], self.answer[row])

    @property
    def sizes(self) -> Integers:
        """context + question + 5 x answer of every example (Appendix D)."""
        return self.context.lengths + self.question.lengths + 5 * self.answer.lengths


class _Memo:
    """Encodes a text once where it comes again at once, as SQuAD's paragraphs do."""

    def __init__(self, lexicon: Lexicon, limit: int | None) -> None:
        self.lexicon, self.limit, self.text, self.ids = lexicon, limit, "", lexicon.encode("")

    def __call__(self, text: str) -> Ids:
        if text != self.text:
            self.text, self.ids = text, self.lexicon.encode(text, self.limit)
        return self.ids


def _read(store: Store, task: str, config: TrainConfig, lexicon: Lexicon) -> TaskData:
    context_of, question_of = _Memo(lexicon, config.cut_context.get(task)), _Memo(lexicon, None)
    longest = config.skip_context.get(task, 1 << 40)
    rows: list[tuple[Ids, Ids, Ids]] = []
    columns = ("question", "context", "answers")
    for row in islice(store.read(task, "train", columns), config.train_examples or None):
        context = context_of(row["context"])
        if len(context) - 2 <= longest:
            rows.append((context, question_of(row["question"]), lexicon.encode(row["answers"][0])))
    if not rows:
        raise MissingDataError(f"{task} has no training example with a context of {longest} tokens or fewer.")
    contexts, questions, answers = zip(*rows, strict=True)
    return TaskData(task, Texts.of(contexts), Texts.of(questions), Texts.of(answers))


def encode_tasks(
    store: Store, config: TrainConfig, cache: Path | None = None
) -> tuple[Lexicon, dict[str, TaskData]]:
    """The tasks as numbers, and the words: the most frequent of the combined training sets come first (Appendix D).

    Tokenizing takes minutes for all ten tasks, so what was made is kept in the folder `cache` and read from there as
    long as data and settings are the same.
    """
    key = _cache_key(store, config)
    if cache is not None and (known := _read_cache(cache, key, config)):
        return known
    lexicon = Lexicon()
    found = {task: _read(store, task, config, lexicon) for task in config.tasks}
    ordered, numbers = _by_frequency(lexicon, found.values(), config.model.vocabulary)
    made = {task: _renumbered(data, numbers) for task, data in found.items()}
    if cache is not None:
        _write_cache(cache, key, ordered, made)
    return ordered, made


def _cache_key(store: Store, config: TrainConfig) -> str:
    """Changes with everything that the numbers hang on; the first part is the version of tokenizer and form."""
    settings = [
        config.train_examples,
        config.model.vocabulary,
        dict(config.skip_context),
        dict(config.cut_context),
    ]
    return json.dumps(["1", dict(fingerprints(store, config.tasks, "train")), *settings])


def _write_cache(cache: Path, key: str, lexicon: Lexicon, found: Mapping[str, TaskData]) -> None:
    arrays = {
        f"{task}/{part}/{name}": np.ascontiguousarray(getattr(getattr(data, part), name))
        for task, data in found.items()
        for part in ("context", "question", "answer")
        for name in ("words", "ends")
    }
    words = {"size": lexicon.size, "words": lexicon.words[len(SPECIALS) :]}
    with atomic_file(cache / "numbers.safetensors") as file:
        file.write(save(arrays, {"key": key}))
    with atomic_file(cache / "words.json") as file:  # last: without it there is no cache
        file.write(json.dumps({"key": key, **words}).encode() + b"\n")


def _read_cache(cache: Path, key: str, config: TrainConfig) -> tuple[Lexicon, dict[str, TaskData]] | None:
    try:
        content = json.loads((cache / "words.json").read_text(encoding="utf-8"))
        with safe_open(cache / "numbers.safetensors", "numpy") as file:
            if (file.metadata() or {}).get("key") != key or content["key"] != key:
                return None
            arrays = {name: file.get_tensor(name) for name in file.keys()}
        size = content["size"] - len(SPECIALS)
        lexicon = Lexicon(content["words"][:size])
        lexicon.learn(content["words"][size:])
        parts = ("context", "question", "answer")
        return lexicon, {
            task: TaskData(
                task,
                *(Texts(arrays[f"{task}/{part}/words"], arrays[f"{task}/{part}/ends"]) for part in parts),
            )
            for task in config.tasks
        }
    except (OSError, ValueError, KeyError, TypeError, SafetensorError):
        return None  # it can be made again


def _by_frequency(lexicon: Lexicon, found: Iterable[TaskData], limit: int) -> tuple[Lexicon, Ids]:
    """The lexicon with its most frequent words as the vocabulary and the others after it; old to new numbers."""
    counts = np.zeros(len(lexicon), dtype=np.int64)
    for data in found:
        for texts in (data.context, data.question, data.answer):
            counts += np.bincount(texts.words, minlength=len(counts))
    words, first = lexicon.words, len(SPECIALS)
    order = sorted(range(first, len(words)), key=lambda number: (-counts[number], words[number]))
    ordered = Lexicon([words[number] for number in order[:limit]])
    ordered.learn(words[number] for number in order[limit:])
    numbers = np.arange(len(words), dtype=np.int32)
    numbers[order] = np.arange(first, len(words), dtype=np.int32)
    return ordered, numbers


def _renumbered(data: TaskData, numbers: Ids) -> TaskData:
    context, question, answer = (
        Texts(numbers[texts.words], texts.ends) for texts in (data.context, data.question, data.answer)
    )
    return TaskData(data.name, context, question, answer)


def batches_of(data: TaskData, budget: int, seed: int, epoch: int) -> list[Integers]:
    """The batches of one pass over a task, as rows: a function of its arguments alone.

    Each holds as many examples as fit into `budget`, at least one; examples of like length go together.
    """
    random = np.random.default_rng([seed, zlib.crc32(data.name.encode()), epoch])
    order = random.permutation(len(data))
    sizes, lengths, answers = data.sizes, data.context.lengths, data.answer.lengths
    pool = max(1, int(_POOL * budget / sizes.mean()))
    made: list[Integers] = []
    for start in range(0, len(order), pool):
        rows = order[start : start + pool]
        rows = rows[np.lexsort((lengths[rows], answers[rows] // 4))]
        total = np.cumsum(sizes[rows])
        at = 0
        while at < len(rows):
            end = int(np.searchsorted(total, budget + (total[at - 1] if at else 0), "right"))
            made.append(rows[at : max(end, at + 1)])
            at = max(end, at + 1)
    return [made[number] for number in random.permutation(len(made))]


class BatchStream:
    """A task's batches without end; where it stands is two numbers."""

    def __init__(self, data: TaskData, budget: int, seed: int, position: Sequence[int] = (0, 0)) -> None:
        """`position` is (epoch, batch), of what comes next."""
        self.data, self._budget, self._seed = data, budget, seed
        self.epoch, self.batch = position
        self._batches = batches_of(data, budget, seed, self.epoch)

    @property
    def position(self) -> tuple[int, int]:
        """Of what comes next."""
        return self.epoch, self.batch

    def __next__(self) -> Integers:
        if self.batch == len(self._batches):
            self.epoch, self.batch = self.epoch + 1, 0
            self._batches = batches_of(self.data, self._budget, self._seed, self.epoch)
        self.batch += 1
        return self._batches[self.batch - 1]


def fingerprints(store: Store, tasks: Iterable[str], split: str) -> Mapping[str, str]:
    """What data a run saw."""
    return {f"{task}.{split}": store.record(task, split).fingerprint for task in tasks}
