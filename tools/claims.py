"""Write the page of all papers' claims from the findings that pages of reproductions leave beside them.

    python tools/claims.py docs/reproductions

writes claims.md and its pictures into that folder, of every NAME.json in it (tools/reproduce.py leaves it beside
NAME.md). Nothing is trained or scored.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from reproduction.claims import make_claims, picture_name, plot_claims, read_findings

from decabench.errors import DataError


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path, help="folder of pages and their findings")
    folder = parser.parse_args(arguments).folder
    try:
        files = read_findings(folder)
    except DataError as error:
        sys.exit(str(error))
    if not any(own.claims for own in files.values()):
        sys.exit(
            f"{folder} has no NAME.json with a paper's claim: tools/reproduce.py --page {folder}/NAME.md leaves one."
        )
    for old in folder.glob(picture_name("*")):
        old.unlink()
    for name, own in files.items():
        if own.done:
            plot_claims(own.done, folder / picture_name(name))
    (folder / "claims.md").write_text(make_claims(files), encoding="utf-8")


if __name__ == "__main__":
    main()
