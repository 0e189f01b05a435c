"""Sign a manifest, and verify its signature, with OpenSSH: `ssh-keygen -Y sign`.

It is on nearly every machine, signs with keys that people already have and publish (https://github.com/<user>.keys),
and needs no package, network or account.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from decabench.errors import DataError, DecabenchError, MissingDataError
from decabench.files import remove_file, require_within, temporary_folder, wait_for_lock
from decabench.submission import MANIFEST, SIGNATURE
from decabench.text import printable

__all__ = ["SignatureError", "check_signature", "sign_manifest"]

NAMESPACE = "decabench"
"""What a signature is for; OpenSSH refuses it for anything else."""

_LIMIT_BYTES = 1 << 16
_KEY_KINDS = ("ssh-", "ecdsa-", "sk-")


class SignatureError(DataError):
    """A manifest is not signed by a key that is trusted for it."""


def sign_manifest(folder: Path, key: Path) -> Path:
    """Sign the manifest in a folder with a private key, and return the signature's path.

    The key may also be a public one whose private half an agent holds. ssh-keygen asks for the passphrase of a key.
    Raises DecabenchError if the manifest cannot be signed.
    """
    signature = folder / SIGNATURE
    require_within(folder, folder / MANIFEST, signature)
    if not key.is_file():
        raise DecabenchError(
            f"There is no key {key}: give the path of a private SSH key, such as ~/.ssh/id_ed25519."
        )
    with wait_for_lock(folder / MANIFEST, f"Waiting for another process that writes results in {folder}."):
        remove_file(signature)  # ssh-keygen would ask whether to overwrite it
        done = _ssh_keygen("sign", "-f", str(key), "-n", NAMESPACE, str(folder / MANIFEST))
    if done.returncode or not signature.is_file():
        raise DecabenchError(f"{folder / MANIFEST} was not signed with {key}: {_reason(done)}.")
    return signature


def check_signature(folder: Path, trusted: Path) -> str:
    """Verify the signature of the manifest in a folder, and return who signed it.

    `trusted` is a public key, or a file of allowed signers as `man ssh-keygen` describes it. Raises MissingDataError if
    there is no manifest or signature, SignatureError if it is not one of a trusted key.
    """
    manifest, signature = folder / MANIFEST, folder / SIGNATURE
    for path in (manifest, signature):
        if not path.is_file():
            raise SignatureError(f"There is no {path}: decabench evaluate --sign-with KEY writes it.")
        require_within(folder, path)
    if signature.stat().st_size > _LIMIT_BYTES:
        raise SignatureError(f"{signature} is too large for a signature.")
    with temporary_folder() as temporary:
        allowed = _allowed_signers(trusted, temporary)
        found = _ssh_keygen("find-principals", "-s", str(signature), "-f", str(allowed))
        names = found.stdout.decode(errors="replace").split("\n")
        if found.returncode or not names[0]:
            raise SignatureError(f"{signature} is not by a key in {trusted}: {_reason(found)}.")
        arguments = ("-f", str(allowed), "-I", names[0], "-n", NAMESPACE, "-s", str(signature))
        done = _ssh_keygen("verify", *arguments, given=manifest.read_bytes())
    if done.returncode:
        raise SignatureError(f"{signature} does not fit {manifest}: {_reason(done)}.")
    return printable(names[0])


def _allowed_signers(trusted: Path, temporary: Path) -> Path:
    """Return a file of allowed signers; a public key alone becomes one, named after its comment or its file."""
    try:
        text = trusted.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise MissingDataError(
            f"{trusted} cannot be read as a public key or as allowed signers ({error})."
        ) from error
    if "PRIVATE KEY-----" in text:
        raise DecabenchError(
            f"{trusted} is a private key, which only signs: give the public one, most often {trusted}.pub."
        )
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
    if not lines or not lines[0].startswith(_KEY_KINDS):
        return trusted
    path = temporary / "allowed_signers"
    path.write_text("".join(f"{_name(line, trusted)} {' '.join(line.split()[:2])}\n" for line in lines))
    return path


def _name(line: str, trusted: Path) -> str:
    comment = line.split(maxsplit=2)[2:]
    name = comment[0] if comment else trusted.name
    return "".join(char if char.isalnum() or char in "@._-" else "-" for char in name.strip())


def _ssh_keygen(action: str, *arguments: str, given: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    program = shutil.which("ssh-keygen")
    if program is None:
        raise DecabenchError("Signatures need ssh-keygen of OpenSSH 8.1 or later: install OpenSSH.")
    command: Sequence[str] = (program, "-Y", action, *arguments)
    return subprocess.run(command, input=given, capture_output=True, check=False)


def _reason(done: subprocess.CompletedProcess[bytes]) -> str:
    text = (done.stderr or done.stdout).decode(errors="replace").strip()
    return (
        printable(text.splitlines()[-1].rstrip(".")) if text else f"ssh-keygen ended with {done.returncode}"
    )
