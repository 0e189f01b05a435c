"""`decabench verify`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from decabench.commands._console import echo, is_set, print_json
from decabench.commands._options import (
    home_option,
    include_option,
    jobs_option,
    processes,
    submission_argument,
)

if TYPE_CHECKING:
    from decabench.commands._documents import VerifiedFile
    from decabench.scoring import VerifiedResults

__all__ = ["verify"]


@click.command()
@submission_argument
@click.option(
    "--results",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    metavar="FILE",
    help="Results file to verify.  [default: all of the submission's]",
)
@click.option(
    "--remade",
    type=click.Path(path_type=Path, exists=True),
    metavar="PATH",
    help="Submission with the withheld answers made again: they are compared to their digests and scored.",
)
@click.option(
    "--signed-by",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    metavar="KEYS",
    help="Also verify the signature of manifest.json: a public SSH key, or a file of allowed signers.",
)
@home_option
@jobs_option
@include_option
@click.pass_context
def verify(
    context: click.Context,
    submission: Path,
    results: Path | None,
    remade: Path | None,
    signed_by: Path | None,
    home: Path | None,
    jobs: int | None,
    include: tuple[Path, ...],
) -> None:
    """Score a submission again and report every difference from its results file.

    Each task is the same, differs, or is not at hand because its answers may not be passed on; then its statistics
    must give its score. Changed answers, data and metrics, edited scores and files that contradict manifest.json are
    distinguished. Exits with 1 if anything differs, or if the file lacks a task that is answered, and with 3 if the
    data that was scored is not the data that is prepared.
    """
    from decabench.errors import DataError, MissingDataError
    from decabench.scoring import (
        InvalidResultsError,
        ScoringOptions,
        manifest_root,
        require_remade,
        results_files,
        verify_file,
    )

    options = ScoringOptions(home=home, jobs=processes(jobs), include=include, remade=remade)
    code = 0
    files = [results] if results else results_files(submission)
    if remade:
        require_remade(submission, remade, files)
    documents = []
    for path in files:
        try:
            found = verify_file(submission, path, options)
        except MissingDataError:
            raise
        except DataError as error:  # the other files may still be verified
            documents.append(_unverified(path, str(error)))
            echo(str(error))
            echo(f"{path}: not verified")
            # A damaged results file is a fault of what is verified; other data is not.
            code = max(code, 1 if isinstance(error, InvalidResultsError) else error.exit_code)
            continue
        for name, check in found.tasks.items():
            echo(f"{name}: {check.status}{f' ({check.note})' if check.note else ''}")
            for one in check.differences:
                echo(f"  {one}")
        for one in found.other:
            echo(str(one))
        for name in found.lacking:
            echo(f"{name}: answered, but {path.name} has no result for it")
        root = manifest_root(submission, path.parent)
        signer = _find_signer(root, signed_by, path)
        signed = signed_by is None or signer is not None
        verdict = found.verdict if signed or not found.ok else "not verified: not signed as asked"
        echo(f"{path}: {verdict}")
        documents.append(_document(found, found.ok and signed, verdict, signer))
        code = max(code, 0 if found.ok and signed else 1)
    if is_set("json"):
        from decabench.commands._documents import VerificationDocument

        print_json(VerificationDocument(files=documents))
    context.exit(code)


def _document(found: VerifiedResults, ok: bool, verdict: str, signer: str | None) -> VerifiedFile:
    from decabench.commands._documents import VerifiedFile

    return VerifiedFile(
        path=str(found.path),
        ok=ok,
        verdict=verdict,
        tasks=found.tasks,
        other=found.other,
        lacking=found.lacking,
        signed_by=signer,
    )


def _unverified(path: Path, reason: str) -> VerifiedFile:
    from decabench.commands._documents import VerifiedFile

    verdict = f"not verified: {reason}"
    return VerifiedFile(
        path=str(path), ok=False, verdict=verdict, tasks={}, other=[], lacking=[], signed_by=None
    )


def _find_signer(root: Path, signed_by: Path | None, results: Path) -> str | None:
    """Print and return who signed the manifest; print why that is not known, and return None."""
    from decabench.scoring import SignatureError, check_signature, read_manifest

    if signed_by is None:
        return None
    try:
        who = check_signature(root, signed_by)
    except SignatureError as error:
        echo(str(error))
        return None
    manifest = read_manifest(root)
    name = results.parent.resolve().relative_to(root.resolve()).as_posix()
    if manifest is None or name not in manifest.results:
        echo(f"{results} is not mentioned in the signed manifest.")
        return None
    echo(f"manifest.json is signed by {who}")
    return who
