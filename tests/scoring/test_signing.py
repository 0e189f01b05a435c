"""Signatures over manifests, made and verified by OpenSSH itself."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from decabench.errors import DecabenchError
from decabench.scoring.signing import SignatureError, check_signature, sign_manifest
from decabench.submission import MANIFEST, SIGNATURE

pytestmark = pytest.mark.skipif(
    shutil.which("ssh-keygen") is None, reason="ssh-keygen of OpenSSH is not installed"
)


def make_key(path: Path, comment: str) -> Path:
    command = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", comment, "-f", str(path)]
    subprocess.run(command, check=True)
    return path


@pytest.fixture
def key(tmp_path: Path) -> Path:
    return make_key(tmp_path / "key", "ann@example.org")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "s").mkdir()
    (tmp_path / "s" / MANIFEST).write_text("{}\n")
    return tmp_path / "s"


def test_signed_and_verified(folder: Path, key: Path, tmp_path: Path) -> None:
    assert sign_manifest(folder, key) == folder / SIGNATURE
    public = tmp_path / "key.pub"
    assert check_signature(folder, public) == "ann@example.org"
    allowed = tmp_path / "allowed"
    kind, data, _ = public.read_text().split()
    allowed.write_text(f'# ours\nann@lab,ann@home namespaces="decabench" {kind} {data}\n')
    assert check_signature(folder, allowed) == "ann@lab"
    sign_manifest(folder, key)  # again, over the old one


def test_a_private_key_verifies_nothing(folder: Path, key: Path) -> None:
    sign_manifest(folder, key)
    with pytest.raises(DecabenchError, match=r"is a private key, which only signs: .*key\.pub") as caught:
        check_signature(folder, key)
    assert caught.value.exit_code == 2


def test_what_is_not_signed_by_a_trusted_key(folder: Path, key: Path, tmp_path: Path) -> None:
    other = make_key(tmp_path / "other", "eve")
    with pytest.raises(
        SignatureError, match=r"There is no .*manifest\.json\.sig: decabench evaluate --sign-with"
    ):
        check_signature(folder, tmp_path / "key.pub")
    sign_manifest(folder, other)
    with pytest.raises(SignatureError, match="is not by a key in"):
        check_signature(folder, tmp_path / "key.pub")
    sign_manifest(folder, key)
    (folder / MANIFEST).write_text('{"edited": true}\n')
    with pytest.raises(SignatureError, match="does not fit"):
        check_signature(folder, tmp_path / "key.pub")
    (folder / SIGNATURE).write_text("no signature\n")
    with pytest.raises(SignatureError):
        check_signature(folder, tmp_path / "key.pub")


def test_a_signature_for_something_else(folder: Path, key: Path, tmp_path: Path) -> None:
    """Such as a commit: OpenSSH holds the purpose of a signature against the one asked for."""
    command = ["ssh-keygen", "-Y", "sign", "-f", str(key), "-n", "git", str(folder / MANIFEST)]
    subprocess.run(command, check=True, capture_output=True)
    with pytest.raises(SignatureError, match="does not fit"):
        check_signature(folder, tmp_path / "key.pub")


def test_what_cannot_sign(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "none").write_text("no key\n")
    with pytest.raises(DecabenchError, match="was not signed with"):
        sign_manifest(folder, tmp_path / "none")
    with pytest.raises(DecabenchError, match="There is no key"):
        sign_manifest(folder, tmp_path / "missing")


def test_without_openssh(folder: Path, key: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: None)
    with pytest.raises(DecabenchError, match="install OpenSSH"):
        sign_manifest(folder, key)


def test_evaluate_signs_and_verify_asks_who(
    command: Callable[..., Result], home: Path, submit: Callable[..., Path], key: Path, tmp_path: Path
) -> None:
    folder = submit("majority", ["sst", "schema"], "signed")
    given: tuple[Any, ...] = ("--submission", folder, "--home", home)
    assert command("evaluate", *given, "--sign-with", key).exit_code == 0
    public = tmp_path / "key.pub"
    done = command("verify", *given, "--signed-by", public)
    assert done.exit_code == 0 and "manifest.json is signed by ann@example.org" in done.stdout
    command("evaluate", *given, "--tasks", "sst")
    assert command("verify", *given, "--signed-by", public).exit_code == 0  # the same bytes again
    make_key(tmp_path / "other", "eve")
    done = command("verify", *given, "--signed-by", tmp_path / "other.pub")
    assert done.exit_code == 1 and done.stdout.endswith("not verified: not signed as asked\n")
    path = folder / "predictions" / "sst.validation.jsonl"
    path.write_text(path.read_text().replace("positive", "negative", 1))
    command("evaluate", *given)
    assert not (folder / SIGNATURE).exists()
