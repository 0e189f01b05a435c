"""`decabench verify`."""

from __future__ import annotations

from pathlib import Path

import click

from decabench.commands import _options
from decabench.commands._console import changed_since, echo, is_set, print_json, submission_argument
from decabench.options import option


@click.command()
@submission_argument
@_options.with_options
@click.pass_context
def verify(
    context: click.Context,
    submission: Path,
    results: Path | None = option(
        None,
        "Verify this results file.",
        type=_options.EXISTING_FILE,
        unset="all results files in the submission",
    ),
    home: Path | None = _options.HOME,
    jobs: int = _options.JOBS,
    include: tuple[Path, ...] = _options.INCLUDE,
) -> None:
    """Score a submission again, and report every difference from its results file.

    The report distinguishes changed answers, data and metrics from edited scores. Exits with 1 if anything differs or
    nothing can be scored, and with 3 if the prepared data differs from the data that was scored.
    """
    from decabench.commands._documents import VerificationDocument, VerifiedFile
    from decabench.errors import DataError, MissingDataError
    from decabench.scoring import InvalidResultsError, ScoringOptions, results_files, verify_file

    options = ScoringOptions(home=home, jobs=jobs, include=include)
    code, documents = 0, []
    for path in [results] if results else results_files(submission):
        try:
            found = verify_file(submission, path, options)
        except MissingDataError:
            raise
        except DataError as error:  # the other files may still be verified
            document = VerifiedFile(path=str(path), ok=False, verdict=f"not verified: {error}")
            # A damaged results file is a fault of the submission; different data is not.
            code = max(code, 1 if isinstance(error, InvalidResultsError) else error.exit_code)
        else:
            document = VerifiedFile.from_value(found, path=str(path))
            for sentence in (*changed_since(found.scored, found.split, home, include), *found.differences):
                echo(str(sentence))
            code = max(code, 0 if found.ok else 1)
        echo(f"{path}: {document.verdict}")
        documents.append(document)
    if is_set("json"):
        print_json(VerificationDocument(files=documents))
    context.exit(code)
