"""Digests of what a run depends on."""

import hashlib

import pytest

from decabench.files import file_digest, fingerprint


def test_it_is_the_sha256_of_canonical_json():
    expected = hashlib.sha256('{"a":[1,"é"],"b":null}'.encode()).hexdigest()
    assert fingerprint({"b": None, "a": [1, "é"]}) == f"sha256:{expected}"


@pytest.mark.parametrize("other", [{"a": 2}, {"a": "1"}, {"a": 1.5}, {"a": 1, "b": None}, {"b": 1}, {}])
def test_every_value_matters(other):
    assert fingerprint({"a": 1}) != fingerprint(other)


def test_of_a_file(tmp_path):
    (tmp_path / "f").write_bytes(b"abc")  # the digest is FIPS 180-2's first example
    assert file_digest(tmp_path / "f") == (
        "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    )
