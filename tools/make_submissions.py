"""Write submissions/, the answers of the trained models in papers/weights.

    decabench prepare --mirror MIRROR --home HOME
    python tools/make_submissions.py HOME

Baselines are not included, because they copy texts from the datasets. `decabench leaderboard` runs them when it builds
a board.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from decabench.runs import predict
from decabench.tasks import DECATHLON

ROOT = Path(__file__).resolve().parent.parent

MODELS = {
    "mqan-squad-first": ("squad-first-longer", "MQAN that learned SQuAD first, then all ten tasks"),
    "mqan-joint": ("joint-asked", "MQAN that learned all ten tasks together"),
}
"""The weights and description of each submission."""

TASKS = {"test": ("srl", "sst", "woz.en", "wikisql"), "validation": DECATHLON.tasks}
"""The tasks to answer, by split."""


def main(home: Path) -> None:
    for name, (weights, text) in MODELS.items():
        output = ROOT / "submissions" / name
        shutil.rmtree(output, ignore_errors=True)
        for split, tasks in TASKS.items():
            predict(
                f"trained:{ROOT / 'papers' / 'weights' / weights}",
                output,
                tasks,
                split,
                home,
                name=name,
                authors=("decabench",),
                description=f"{text}: the weights {weights}, seed 0.",
                compress="zst",
            )
        shutil.rmtree(output / "journal")
        (output / "run.json").unlink()
        print(output.relative_to(ROOT))


if __name__ == "__main__":
    if not sys.argv[1:] or not (Path(sys.argv[1]) / "tasks").is_dir():
        sys.exit(__doc__)
    main(Path(sys.argv[1]))
