"""Write leaderboard/task_examples.json: a short example of each decathlon task, from the bundled sample.

Task pages show these examples. They are stored in a file, because a site is often built without prepared data
and only the sample's texts may be published.

python tools/make_task_examples.py HOME      (HOME contains the sample: decabench prepare --sample --home HOME)
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from decabench.tasks import DECATHLON
from decabench.tasks.preparation import sample_sources
from decabench.tasks.store import Store

TARGET = Path(__file__).parents[1] / "leaderboard" / "task_examples.json"


def main(home: Path) -> None:
    found = {}
    for name in DECATHLON.tasks:
        examples = Store(home).examples(name, "validation")
        shortest = min(
            examples, key=lambda example: (len(example.context) < 60, len(example.context), example.id)
        )
        found[name] = {
            "question": shortest.question,
            "context": shortest.context,
            "answers": list(dict.fromkeys(shortest.answers)),
            "note": sample_sources().get(name, {}).get("note", ""),
        }
    TARGET.write_text(
        json.dumps(found, ensure_ascii=False, indent=1, sort_keys=True) + "\n", encoding="utf-8"
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]))
