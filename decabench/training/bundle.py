"""A bundle: the data of a run as plain files, to train from where neither decabench's data nor its vectors are.

    bundle.json                    the configuration, counts, what was cut, digests, the CPU's losses
    words.json.xz                  all words; the vocabulary comes first
    vectors.npy, vectors.txt       vectors of these words in half precision (or n-grams, see models/portable.py)
    train/<task>.safetensors.xz    encoded examples, in the smallest type of integer that holds them
    validation/<task>...           encoded questions (`.safetensors.xz`) and their ids (`.json.xz`), without answers
    code.zip                       the parts of decabench that train and answer, so that there is one implementation

A bundle is data to `Bundle.open`, which reads it strictly and runs none of its code. `examples/gpu/run.py` does run
`code.zip`, if it is told its digest: it trains with nothing but torch, numpy, safetensors and the standard library.
"""

from __future__ import annotations

import json
import lzma
import re
import zipfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

import decabench
from decabench.errors import DataError, DecabenchError, require_name
from decabench.files import atomic_file, file_digest, new_folder, require_new
from decabench.models import (
    FAMILIES,
    Family,
    TextReader,
    autocast,
    find_family,
    label_names,
    output_record,
    outputs_from_records,
    split_of,
    write_vectors,
)
from decabench.tasks import TASKS, Output, Question, Store, Task
from decabench.training.config import TrainConfig, combine_settings, from_record, task_alone, to_mapping
from decabench.training.data import BatchStream, Ragged, TaskData, TrainingData, renumber_words
from decabench.training.encoding import (
    check_target_forms,
    encode_tasks,
    fingerprints,
    require_splits,
    vocabulary_size,
)
from decabench.training.packing import QUICK_SCALE, pack, unpack
from decabench.untrusted import parse_json, read_json, read_xz
from decabench.vectors import SPECIALS, Lexicon, Vectors, WordTable, is_contextual, join_vectors

__all__ = ["Bundle", "WrittenBundle", "compare_losses", "require_free", "write_bundle"]

FORMAT = "decabench.bundle/1"
_RECORD, _WORDS, _CODE = "bundle.json", "words.json.xz", "code.zip"
_WRITTEN = (_RECORD, _WORDS, _CODE, "vectors*", "ngrams*", "train", "validation")
_ROOMS = ("metrics", "tasks", "prompts", "submission", "models", "scoring", "predictors", "training")
_COMPARED = 8
"""How many examples of each task to compute losses of on the CPU, for comparison."""
Integers = npt.NDArray[np.int64]


@dataclass(frozen=True)
class WrittenBundle:
    """The result of `write_bundle`."""

    size: int
    """The total size in bytes."""
    state: int
    """The size in bytes that the weights will have in half precision."""
    code: str
    """The SHA-256 digest of `code.zip`, as `sha256:HEX`."""
    cut: tuple[str, ...]
    """A sentence for each thing that was cut to keep within the limit."""


@dataclass(frozen=True)
class Bundle:
    """A bundle that was opened."""

    folder: Path
    """Its folder."""
    record: Mapping[str, Any]
    """The content of `bundle.json`."""
    config: TrainConfig
    """The configuration; its vectors are the bundle's own."""
    data: TrainingData
    """The training examples."""
    validation: Mapping[str, TaskData]
    """The validation questions, by task."""

    @classmethod
    def open(cls, folder: str | Path, whole: bool = True) -> Bundle:
        """Open a bundle. Raises DataError, also for one that is not `whole`: its writing was broken off at the end."""
        folder = Path(folder)
        try:
            record = read_json(folder / _RECORD, format=FORMAT)
            config = _read_config(folder, record)
            if whole and "losses" not in record:
                raise ValueError("it was not written to its end")
            if "code" in record and file_digest(folder / _CODE) != record["code"]:
                raise ValueError(f"{_CODE} is not the one that was written with it")
            lexicon = _read_words(folder, record["vocabulary"])
            if not isinstance(record["outputs"], dict) or record["outputs"].keys() != set(config.tasks):
                raise ValueError("its outputs are not those of its tasks")
            outputs = outputs_from_records(record["outputs"], config.tasks)
            family = find_family(config.model.name)
            family.check_tasks(
                config.model.name, (replace(TASKS[task], output=own) for task, own in outputs.items())
            )
            tasks, asked = {}, {}
            for task in config.tasks:
                labels = len(label_names(outputs[task]))
                given = _check_columns(record["columns"][task], family)
                limits = {
                    column: len(lexicon) if family.columns[column] == "words" else labels for column in given
                }
                tasks[task] = unpack(folder / "train", task, limits)
                asked[task] = unpack(folder / "validation", task, _without_answers(limits, family))
        except (OSError, ValueError, KeyError, TypeError, AttributeError, DecabenchError) as error:
            raise DataError(
                f"{folder} is not a bundle of decabench train ({str(error)[:500]}): copy all of its files."
            ) from error
        return cls(folder, record, config, TrainingData(lexicon, outputs, tasks), asked)

    @property
    def family(self) -> Family:
        """The model's family."""
        return find_family(self.config.model.name)

    @property
    def tasks(self) -> dict[str, Task]:
        """The tasks, by name."""
        return {task: TASKS[task] for task in self.config.tasks}

    def questions(self, task: str) -> tuple[list[str], list[int | None]]:
        """Read the ids of a task's validation questions, and how many characters of each context are kept.

        Raises DataError.
        """
        path = self.folder / "validation" / f"{task}.json.xz"
        try:
            found = _parse_lists(read_xz(path))
            ids, kept = found["ids"], found["kept"] or [None] * len(found["ids"])
            if not all(isinstance(id_, str) for id_ in ids) or not len(set(ids)) == len(ids) == len(kept):
                raise ValueError("its ids are not different strings")
            if len(ids) != len(self.validation[task]):
                raise ValueError(f"it has {len(ids):,} ids for {len(self.validation[task]):,} questions")
            if not all(end is None or (type(end) is int and end >= 0) for end in kept):
                raise ValueError("what is kept of its contexts is not counted in characters")
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise DataError(f"{path} is not of a bundle ({error}): copy all of its files.") from error
        return ids, kept

    def only(self, task: str, settings: Mapping[str, Any] | None = None) -> Bundle:
        """Reduce the bundle to one task, with the vocabulary of that task. `settings` override its configuration.

        Raises DecabenchError, UnknownNameError.
        """
        config, _ = combine_settings(task_alone(self.config, task), None, settings or {})
        tasks, asked = {task: self.data.tasks[task]}, {task: self.validation[task]}
        lexicon, numbers = _renumber(self.data.lexicon, self.family, tasks, asked, config)
        data = TrainingData(
            lexicon, {task: self.data.outputs[task]}, renumber_words(tasks, self.family, numbers)
        )
        return replace(self, config=config, data=data, validation=renumber_words(asked, self.family, numbers))


def _read_config(folder: Path, record: Mapping[str, Any]) -> TrainConfig:
    """Read a bundle's configuration, which may name nothing outside the bundle. Raises ValueError, DecabenchError."""
    table = record["config"]
    require_name(
        str(table["model"]["name"])[:100], FAMILIES, "model"
    )  # any other name would import its module
    if table.get("init"):
        raise ValueError("it begins with the weights of a checkpoint")
    names = []
    for name in table["vectors"]:
        if not re.fullmatch(r"none:[1-9]\d{0,3}", name):
            if not re.fullmatch(r"[\w-]+\.(npy|safetensors)", name) or not (
                folder / name
            ).resolve().is_relative_to(folder.resolve()):
                raise ValueError(f"its vectors {name[:60]!r} are not inside it")
            name = str(folder / name)
        names.append(name)
    config = from_record({**table, "vectors": names})
    for task in config.tasks:
        require_name(task[:100], TASKS, "task")
    if not config.tasks:
        raise ValueError("it has no tasks")
    if config.needs_scores:
        raise ValueError("it chooses tasks by scores, which it does not have")
    data = record["data"]
    for task in config.tasks:
        for split in ("train", "validation"):
            if not isinstance(data[f"{task}.{split}"], str):
                raise ValueError(f"the fingerprint of {task}.{split} is not a string")
    return config


def _read_words(folder: Path, vocabulary: Any) -> Lexicon:
    """Read the words, of which the first `vocabulary` are the vocabulary. Raises ValueError, OSError."""
    words = _parse_lists(read_xz(folder / _WORDS))
    if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
        raise ValueError(f"{_WORDS} is not a list of words")
    if type(vocabulary) is not int or not 0 <= vocabulary <= len(words):
        raise ValueError(f"its vocabulary has {str(vocabulary)[:60]} of {len(words):,} words")
    lexicon = Lexicon(words[:vocabulary])
    lexicon.number(words[vocabulary:])
    if len(lexicon) != len(SPECIALS) + len(words):
        raise ValueError(f"{_WORDS} has a word twice")
    return lexicon


_BRACKETS = 10_000  # in words too; as empty lists, a file could take gigabytes


def _parse_lists(raw: bytes) -> Any:
    """Parse JSON that is a few long lists. Raises ValueError."""
    if raw.count(b"[") + raw.count(b"{") > _BRACKETS:
        raise ValueError("it holds more than lists of words and numbers")
    return parse_json(raw.decode("utf-8"), surrogates=True)


def _check_columns(given: Any, family: Family) -> list[str]:
    """Check the names of a task's columns: all with words, and one of its targets if it has any. Raises ValueError."""
    if not isinstance(given, list) or not all(isinstance(name, str) for name in given):
        raise ValueError("its columns are not a list of names")
    words = {name for name, kind in family.columns.items() if kind == "words"}
    targets = family.columns.keys() - words
    if not words <= set(given) <= family.columns.keys() or (targets and not targets & set(given)):
        raise ValueError(
            f"it has the columns {', '.join(given)[:200]}, which are not those of {', '.join(family.columns)}"
        )
    return given


def _without_answers(columns: Mapping[str, int], family: Family) -> dict[str, int]:
    """Return the columns of a question: words, but not MQAN's answer."""
    return {
        name: limit for name, limit in columns.items() if family.columns[name] == "words" and name != "answer"
    }


def write_bundle(
    config: TrainConfig,
    tasks: Mapping[str, Task],
    store: Store,
    folder: Path,
    limit: int = 60_000_000,
    report: Callable[[str], None] = print,
) -> WrittenBundle:
    """Encode the data of a run into a folder that fits into `limit` bytes together with the weights in half precision.

    What does not fit is cut: rare words lose their vectors if these take more than half, then the largest tasks lose
    examples, drawn at random. Raises DecabenchError for what a bundle cannot hold.
    """
    _check(config, tasks, folder)
    require_splits(store, tasks.values())
    family, vectors = find_family(config.model.name), join_vectors(config.vectors)
    report("encoding the training examples ...")
    data = encode_tasks(store, config, tasks)
    report("encoding the validation questions ...")
    asked, questions = _encode_validation(store, config, tasks, family, data.lexicon)
    with new_folder(folder, _WRITTEN):
        _write_code(folder / _CODE)
        fitted = _write_to_fit(folder, config, data, asked, questions, vectors, limit)
        code = file_digest(folder / _CODE)
        record = {
            "format": FORMAT,
            "decabench": decabench.__version__,
            "config": {**to_mapping(config), "vectors": list(fitted.files), "best_by": "last"},
            "code": code,
            "vocabulary": fitted.lexicon.size - len(SPECIALS),
            "outputs": {task: output_record(output) for task, output in data.outputs.items()},
            "columns": {task: sorted(own.columns) for task, own in data.tasks.items()},
            "data": {
                **fingerprints(store, config.tasks, "train"),
                **fingerprints(store, config.tasks, "validation"),
            },
            "vectors": {
                "digest": fitted.digest,
                "made_from": vectors.digest,
                "words": fitted.words,
                "of": len(fitted.lexicon),
            },
            "examples": {task: [fitted.examples[task], len(own)] for task, own in data.tasks.items()},
        }
        _write_record(folder, record)
        report("computing losses on the CPU, to compare with ...")
        losses = compare_losses(Bundle.open(folder, whole=False), torch.device("cpu"), "float32")
        _write_record(folder, {**record, "losses": losses})
    cut = [
        f"{task}: {fitted.examples[task]:,} of {len(own):,} training examples"
        for task, own in data.tasks.items()
        if fitted.examples[task] < len(own)
    ]
    if fitted.words < (known := len(fitted.lexicon) - len(SPECIALS)):
        cut.append(f"vectors of {fitted.words:,} of {known:,} words")
    return WrittenBundle(_size(folder, "**/*"), fitted.state, code, tuple(cut))


@dataclass(frozen=True)
class _Fitted:
    """What fitted into a bundle."""

    examples: Mapping[str, int]
    """The number of training examples, by task."""
    lexicon: Lexicon
    """Its words, numbered anew."""
    words: int
    """The number of words that have vectors."""
    digest: str
    """The digest of these vectors."""
    files: Sequence[str]
    """The files that hold them."""
    state: int
    """The bytes of the weights in half precision, which come beside it."""


def _write_to_fit(
    folder: Path,
    config: TrainConfig,
    data: TrainingData,
    asked: Mapping[str, TaskData],
    questions: Mapping[str, tuple[list[str], list[int | None]]],
    vectors: Vectors,
    limit: int,
) -> _Fitted:
    """Write examples, questions, words and vectors, and cut them until they fit into `limit` bytes with the weights.

    `asked` are the encoded validation questions, and `questions` their ids with how much of each context is kept.
    """
    family = find_family(config.model.name)
    keep = {task: len(own) for task, own in data.tasks.items()}
    quick = True  # until the sizes fit; what is cut from a task takes several attempts to find
    while True:
        kept = _draw(data.tasks, keep, config.seed)
        lexicon, numbers = _renumber(data.lexicon, family, kept, asked, config)
        for name, own in (("train", kept), ("validation", asked)):
            for encoded in renumber_words(own, family, numbers).values():
                pack(folder / name, encoded, quick)
        for task, (ids, characters) in questions.items():
            _write_xz(folder / "validation" / f"{task}.json.xz", {"ids": ids, "kept": characters})
        _write_xz(folder / _WORDS, lexicon.words[len(SPECIALS) :])
        state = 2 * _count_weights(config, data.outputs, lexicon, vectors.dimension)
        room = limit - state - limit // 40  # for what a state has besides weights
        if room < limit // 20:
            raise DecabenchError(
                f"The weights alone take {state / 1e6:.3g} of {limit / 1e6:.3g} MB: give a smaller model.vocabulary "
                "or model.dimension, or a larger --bundle-size."
            )
        scale = QUICK_SCALE if quick else 1.0
        others = _size(folder, "code.zip", "words.json.xz") + int(scale * _size(folder, "validation/*"))
        encoded_size = int(scale * _size(folder, "train/*"))
        most = max((room - others) // 2, room - others - encoded_size)
        words, digest, files = _write_word_vectors(folder, vectors, lexicon, most)
        left = room - others - _size(folder, "vectors*", "ngrams*")
        if encoded_size <= left:
            if not quick:
                return _Fitted(keep, lexicon, words, digest, files, state)
            quick = False
            continue
        sizes = {task: int(scale * _size(folder, f"train/{task}.safetensors.xz")) for task in kept}
        keep = _fill(keep, sizes, int(left * 0.97))


def _check(config: TrainConfig, tasks: Mapping[str, Task], folder: Path) -> None:
    if config.model.name not in FAMILIES:
        raise DecabenchError(
            f"A bundle holds the code of decabench's own models, and {config.model.name} is not one: train it with "
            "decabench train --output."
        )
    check_target_forms(config, tasks)
    if own := [name for name, task in tasks.items() if TASKS.get(name) != task]:
        raise DecabenchError(f"A bundle holds built-in tasks only, not {', '.join(own)}: leave them out.")
    if "numbers" in find_family(config.model.name).columns.values():
        raise DecabenchError(
            f"A bundle holds words and labels, and {config.model.name} also learns trees and ratings: train it "
            "with decabench train --output."
        )
    if config.validation_words:
        raise DecabenchError(
            "A bundle's vocabulary is of its training examples, as it has no validation answers: leave "
            "validation_words out."
        )
    if config.needs_scores:
        raise DecabenchError(
            "A bundle's run is not validated, so that there are no scores to choose tasks by: give another order than "
            "'score'."
        )
    if any(map(is_contextual, config.vectors)):
        raise DecabenchError(
            "A bundle holds no encoder, and torch alone could not run it: leave contextual:FOLDER out of vectors."
        )
    if config.init:
        raise DecabenchError("A bundle's run begins with random weights: leave --init out.")
    if not find_family(config.model.name).has_fixed_vectors(config.model):
        raise DecabenchError("A bundle's vectors are fixed: leave model.train_embeddings out.")
    require_free(folder)


def require_free(folder: Path) -> None:
    """Raise DecabenchError if a folder for a bundle has other files in it than a killed process was writing there."""
    require_new(folder, _WRITTEN)


def _encode_validation(
    store: Store, config: TrainConfig, tasks: Mapping[str, Task], family: Family, lexicon: Lexicon
) -> tuple[dict[str, TaskData], dict[str, tuple[list[str], list[int | None]]]]:
    """Encode the validation questions; return them, their ids, and how much of each context is kept, if any is cut."""
    encoded: dict[str, TaskData] = {}
    questions: dict[str, tuple[list[str], list[int | None]]] = {}
    for name in config.tasks:
        cut, split = config.cut_context.get(name), split_of(config.model)
        reader = TextReader(tasks[name], lexicon, cut, split=split)
        items, ids, kept = [], [], []
        for row in store.read(name, "validation", ("id", "question", "context")):
            question = Question(row["id"], row["question"], row["context"])
            items.append(family.encode(question, None, tasks[name], reader))
            ids.append(question.id)
            kept.append(reader.count_kept(question.context))
        encoded[name] = TaskData(name, {key: Ragged.of([item[key] for item in items]) for key in items[0]})
        questions[name] = ids, kept if any(kept) else []
    return encoded, questions


def _draw(tasks: Mapping[str, TaskData], keep: Mapping[str, int], seed: int) -> dict[str, TaskData]:
    """Draw as many examples of each task as are to be kept, in their order."""
    made = {}
    for task, own in tasks.items():
        if keep[task] == len(own):
            made[task] = own
            continue
        rows = np.sort(np.random.default_rng(seed).permutation(len(own))[: keep[task]])
        columns = {
            name: Ragged.of([column[row] for row in rows.tolist()]) for name, column in own.columns.items()
        }
        made[task] = TaskData(task, columns)
    return made


def _fill(keep: Mapping[str, int], sizes: Mapping[str, int], room: int) -> dict[str, int]:
    """Cut the largest tasks to one size, so that all fit into `room` bytes. Raises DecabenchError if none would."""
    level, left, tasks = 0, room, sorted(sizes, key=lambda task: sizes[task])
    for done, task in enumerate(tasks):
        level = left // (len(tasks) - done)
        if sizes[task] > level:
            break
        left -= sizes[task]
    if level < 1_000:
        raise DecabenchError(
            "The vectors and the validation questions leave no room for training examples: give a larger "
            "--bundle-size, or fewer tasks."
        )
    return {
        task: count if sizes[task] <= level else max(1, count * level // sizes[task])
        for task, count in keep.items()
    }


def _renumber(
    lexicon: Lexicon,
    family: Family,
    tasks: Mapping[str, TaskData],
    asked: Mapping[str, TaskData],
    config: TrainConfig,
) -> tuple[Lexicon, npt.NDArray[np.int32]]:
    """Number the words of the training examples by descending frequency, then those of the questions; drop others.

    As many of the training examples' words are the vocabulary as the configuration says. Returns the lexicon, and the
    new number of each old one.
    """
    words, first = lexicon.words, len(SPECIALS)
    trained, tested = (
        sum(
            (
                np.bincount(column.values, minlength=len(words))
                for own in group.values()
                for name, column in own.columns.items()
                if family.columns[name] == "words"
            ),
            np.zeros(len(words), dtype=np.int64),
        )
        for group in (tasks, asked)
    )
    used = [number for number in range(first, len(words)) if trained[number] or tested[number]]
    order = sorted(
        used, key=lambda number: (-trained[number], not trained[number] and -tested[number], words[number])
    )
    count = vocabulary_size(trained, config)
    made = Lexicon([words[number] for number in order[:count]])
    made.number(words[number] for number in order[count:])
    numbers = np.zeros(len(words), dtype=np.int32)
    numbers[:first] = np.arange(first)
    numbers[order] = np.arange(first, len(made), dtype=np.int32)
    return made, numbers


def _count_weights(
    config: TrainConfig, outputs: Mapping[str, Output], lexicon: Lexicon, dimension: int
) -> int:
    """Count the weights of the network, without computing any."""
    words = Lexicon(lexicon.words[len(SPECIALS) : lexicon.size])
    with torch.device("meta"):
        network = find_family(config.model.name).build(
            config.model, outputs, WordTable(words, join_vectors([f"none:{dimension}"]))
        )
    return sum(parameter.numel() for parameter in network.parameters())


def _write_word_vectors(
    folder: Path, vectors: Vectors, lexicon: Lexicon, most: int
) -> tuple[int, str, list[str]]:
    """Write the vectors of as many words as fit, frequent ones first; return their number, digest and files."""
    words = list(dict.fromkeys(word.strip() for word in lexicon.words[len(SPECIALS) :]))
    while True:
        for path in (*folder.glob("vectors*"), *folder.glob("ngrams*")):
            path.unlink()
        made = write_vectors(folder, vectors, words)
        size = _size(folder, "vectors*", "ngrams*")
        if size <= most:
            covered = set(words)
            has = sum(word.strip() in covered for word in lexicon.words[len(SPECIALS) :])
            return has, made.digest, list(made.names)
        if len(words) < 2 or most < 1:
            raise DecabenchError("There is no room for word vectors: give a larger --bundle-size.")
        words = words[: min(len(words) - 1, int(len(words) * most / size * 0.99))]


def _write_xz(path: Path, content: Any) -> None:
    with atomic_file(path) as file:
        file.write(lzma.compress(json.dumps(content).encode()))


def _write_record(folder: Path, record: Mapping[str, Any]) -> None:
    with atomic_file(folder / _RECORD) as file:
        file.write(json.dumps(record, indent=1).encode() + b"\n")


def _size(folder: Path, *patterns: str) -> int:
    """Return the total size of the files that match."""
    return sum(path.stat().st_size for pattern in patterns for path in folder.glob(pattern) if path.is_file())


def _write_code(path: Path) -> None:
    """Write the sources that training and answering need, wherever the rooms are installed."""
    places = {"decabench": Path(decabench.__file__).parent}
    for room in _ROOMS:
        found = find_spec(f"decabench.{room}")
        places[f"decabench/{room}"] = Path(str(found.origin)).parent if found else Path()
    with (
        atomic_file(path) as file,
        zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive,
    ):
        for name, place in places.items():
            pattern = "*.py*" if name == "decabench" else "**/*.py*"
            for source in sorted(place.glob(pattern)):
                if source.suffix in (".py", ".pyi"):
                    inside = f"{name}/{source.relative_to(place).as_posix()}"
                    archive.writestr(zipfile.ZipInfo(inside), source.read_bytes(), zipfile.ZIP_DEFLATED)


def compare_losses(
    bundle: Bundle, device: torch.device, precision: str, compiled: bool = False, graphs: bool = False
) -> dict[str, dict[str, float]]:
    """Compute loss and gradient norm of a few examples of each task, with the first weights and without dropout.

    Two devices should agree on them, but for rounding.
    """
    config, family = bundle.config, bundle.family
    words = WordTable(bundle.data.lexicon, join_vectors(config.vectors))
    torch.manual_seed(config.seed)
    network = family.build(config.model, bundle.data.outputs, words).to(device)
    for module in network.modules():
        # In training mode all the same: cuDNN's LSTM has no other gradient.
        if isinstance(module, nn.Dropout):
            module.p = 0.0
        if hasattr(module, "rate"):
            module.rate = 0.0  # type: ignore[assignment]
    if compiled:
        network.compile_step()
    if graphs:
        network.record_loops()
    network.train()
    found: dict[str, dict[str, float]] = {}
    for task, data in bundle.data.tasks.items():
        rows = next(BatchStream(data, config))[:_COMPARED]
        for order in (
            (rows[::-1], rows) if graphs else (rows,)
        ):  # first recorded of others, in the same shapes
            items = [data.item(row) for row in order]
            batch = family.make_batch(task, items, words, config.model).to(device)
            network.zero_grad()
            with autocast(device, precision):
                losses = network.losses(batch)
            total = torch.stack(
                [value / torch.as_tensor(count).clamp_min(1) for value, count in losses.values()]
            ).sum()
            total.backward()  # type: ignore[no-untyped-call]
        norm = nn.utils.get_total_norm([p.grad for p in network.parameters() if p.grad is not None])
        found[task] = {"loss": float(total.detach()), "gradient_norm": float(norm)}
    return found
