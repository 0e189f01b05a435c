"""`decabench verify`."""

from __future__ import annotations

from pathlib import Path

import click

from decabench.commands._console import echo
from decabench.commands._options import home_option, include_option, jobs_option, processes, submission_option

__all__ = ["verify"]


@click.command()
@submission_option
@click.option(
    "--results",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    metavar="FILE",
    help="Results file to verify.  [default: all of the submission's]",
)
@home_option
@jobs_option
@include_option
@click.pass_context
def verify(
    context: click.Context,
    submission: Path,
    results: Path | None,
    home: Path | None,
    jobs: int | None,
    include: tuple[Path, ...],
) -> None:
    """Score a submission again and report every difference from its results file.

    Changed answers, changed data, changed metrics and edited scores are distinguished. Exits with 1 if
    anything differs.
    """
    from decabench.errors import DataError, MissingDataError
    from decabench.scoring import results_files
    from decabench.scoring import verify as run

    failed = False
    for path in [results] if results else results_files(submission):
        try:
            found = [str(one) for one in run(submission, path, home, processes(jobs), include)]
        except MissingDataError:
            raise
        except DataError as error:  # changed data or a damaged file is a finding, not a failure
            found = [str(error)]
        for line in found:
            echo(line)
        verdict = f"not verified, {len(found)} differences" if found else "verified, the same bytes"
        echo(f"{path}: {verdict}")
        failed = failed or bool(found)
    context.exit(1 if failed else 0)
