"""Export checkpoints as portable copies that include word vectors, optionally in half precision."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from safetensors.torch import save
from torch import Tensor

from decabench.errors import DecabenchError
from decabench.files import new_folder, write_file
from decabench.models.checkpoint import MODEL, RECORD, VOCABULARY, Checkpoint, digest_files, load_weights
from decabench.vectors import (
    PACKAGES,
    SPECIALS,
    JoinedVectors,
    NgramVectors,
    NoVectors,
    WordVectors,
    is_contextual,
    is_line,
    join_vectors,
    ngrams,
    short_name,
    write_matrix,
    write_ngram_vectors,
)


@dataclass(frozen=True)
class ExportedCheckpoint:
    """The result of `export_checkpoint`."""

    words: int
    """The number of words with a vector."""
    size: int
    """The total size of the copy's files, in bytes."""


def export_checkpoint(
    checkpoint: Checkpoint, output: Path, words: int = 20_000, half: bool = True, copy_vectors: bool = True
) -> ExportedCheckpoint:
    """Write a self-contained copy of a checkpoint to the folder `output`.

    The folder must be new or empty. Temporary files left by an interrupted export are removed.

    The copy includes the vectors of the vocabulary and of the first `words` words in each vector file, which
    are the most frequent. All other words get zeros, like unknown words. The character n-grams of the included
    words are copied too. Values used only in training are left out. If the network has its own table of
    vectors, no vector files are written.

    If `half` is true, weights and vectors are stored in half precision and converted back when loaded. If
    `copy_vectors` is false, the copy only names the packages that contain the vectors. These packages must
    be installed to use the copy, and their vectors are read in single precision, as in training. `copy_vectors` can be
    false only if all word vectors come from packages or are random (`none:DIMENSION`). Encoders of contextual vectors
    are never copied, only named.

    Raises DecabenchError if the checkpoint can't be exported or the folder is not empty, and StorageError if the copy
    can't be written.
    """
    # Otherwise the network has its own table.
    has_vectors = checkpoint.family.has_fixed_vectors(checkpoint.config)
    contextual = tuple(short_name(name) for name in checkpoint.vectors if is_contextual(name))
    of_words = tuple(name for name in checkpoint.vectors if not is_contextual(name))
    files = [name for name in of_words if name not in PACKAGES and not name.startswith("none:")]
    if has_vectors and not copy_vectors and files:
        raise DecabenchError(
            f"The vectors {', '.join(files)} are files that no package provides, so the copy must include them. "
            "Export without --named-vectors."
        )
    with new_folder(output) as folder:
        checkpoint.check_files()
        vectors, lexicon = checkpoint.open_vectors(), checkpoint.lexicon()
        if not has_vectors:
            made = PortableVectors((vectors.digest,), vectors.digest, 0)  # none:DIMENSION
        elif not copy_vectors:
            made = PortableVectors((*of_words, *contextual), checkpoint.record.vectors, 0)
        else:
            wanted = [word.strip() for word in lexicon.words[len(SPECIALS) :]]
            for part in vectors.parts:
                if isinstance(part, WordVectors):
                    wanted += list(part.index)[:words]
            made = write_vectors(folder, vectors, wanted, half)
            digests = (made.digest, *(each.digest for each in vectors.contextual))
            made = replace(made, names=(*made.names, *contextual), digest="+".join(digests))
        trained = {
            "vectors": dict(
                zip(map(short_name, checkpoint.vectors), checkpoint.record.vectors.split("+"), strict=False)
            ),
            "weights": checkpoint.digest(),
            "files": checkpoint.file_digests(),
        }
        record = replace(checkpoint.record, state=None, exported_from=trained)
        lexicon.write(folder / VOCABULARY)
        # Tensors with numbers too large for half precision (above 65,504) stay unchanged.
        weights = {
            name: (_halve(value) if half else value).contiguous()
            for name, value in load_weights(checkpoint.folder).items()
            if not name.startswith(checkpoint.family.training_only)
        }
        write_file(folder / MODEL, save(weights))
        config = {**record.config, "vectors": list(made.names)}
        config["init"] = Path(config.get("init", "")).name
        record = replace(record, config=config, vectors=made.digest, files=digest_files(folder))
        record.write(folder / RECORD)
    return ExportedCheckpoint(made.words, sum(path.stat().st_size for path in output.iterdir()))


def _halve(value: Tensor) -> Tensor:
    made = value.half() if value.is_floating_point() else value
    return value if made.isinf().any() and value.isfinite().all() else made


@dataclass(frozen=True)
class PortableVectors:
    """The word vectors of an exported checkpoint."""

    names: tuple[str, ...]
    """The names of files and packages, or `none:DIMENSION`, in the order in which the vectors are concatenated."""
    digest: str
    """The digest that `join_vectors` computes for `names`."""
    words: int
    """The number of words with a vector."""


def write_vectors(
    folder: Path, vectors: JoinedVectors, words: Sequence[str], half: bool = True
) -> PortableVectors:
    """Write the vectors of words, and of their character n-grams, to a folder.

    Contextual vectors are left out. Raises DecabenchError if no n-gram of the words has a vector.
    """
    wanted = [word for word in dict.fromkeys(words) if word and is_line(word)]
    kind = np.float16 if half else np.float32
    names: list[str] = []
    has_vector = np.zeros(len(wanted), dtype=bool)
    for number, part in enumerate(vectors.parts, 1):
        rows = part.rows(wanted)
        known = (rows != 0).any(axis=1)
        has_vector |= known
        if isinstance(part, NoVectors):
            names.append(part.digest)
        elif isinstance(part, NgramVectors):
            names.append(f"ngrams-{number}.safetensors")
            _write_ngrams(folder / names[-1], part, wanted, kind)
        else:
            names.append(f"vectors-{number}.npy")
            own = [word for word, has in zip(wanted, known, strict=True) if has]
            write_matrix(folder / names[-1], own, _as_kind(rows[known], kind))
    digest = join_vectors([name if ":" in name else str(folder / name) for name in names]).digest
    return PortableVectors(tuple(names), digest, int(has_vector.sum()))


def _write_ngrams(path: Path, vectors: NgramVectors, words: Sequence[str], kind: type[Any]) -> None:
    used = {gram for word in words for gram in ngrams(word)}
    grams = [gram for gram in vectors.index if gram in used]
    if not grams:
        raise DecabenchError("No n-gram of the model's words has a vector. Train the n-gram vectors again.")
    values = _as_kind(vectors.matrix[[vectors.index[gram] for gram in grams]], kind)
    index = {gram: row for row, gram in enumerate(grams)}
    write_ngram_vectors(path, NgramVectors(np.ascontiguousarray(values), index, ""))


def _as_kind(values: npt.NDArray[np.floating[Any]], kind: type[Any]) -> npt.NDArray[np.floating[Any]]:
    with np.errstate(over="ignore"):
        made = values.astype(kind)
    return made if np.isfinite(made).all() else values
