"""Synthetic submissions to the bundled sample, for tests and demos.

python -m tests.leaderboard.synthetic HOME FOLDER COUNT      (HOME has the prepared sample)
"""

from __future__ import annotations

import hashlib
import random
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from decabench.submission import SubmissionInfo, write_submission
from decabench.tasks import DECATHLON
from decabench.tasks.example import Example
from decabench.tasks.store import Store

HOSTILE = "<img src=x onerror=alert(1)>"
HOSTILE_ANSWER = "</script><script>alert(1)</script> ]]> \u2028 -->"


def submissions(home: Path, folder: Path, count: int) -> Path:
    """Write `count` systems, the oracle and a baseline. The second system has hostile texts; the last is partial."""
    store = Store(home)
    data = {task: list(store.examples(task, "validation")) for task in DECATHLON.tasks}

    def write(name: str, info: SubmissionInfo, answers: Mapping[str, Sequence[str]]) -> None:
        pairs = {
            (task, "validation"): [
                (example.id, text) for example, text in zip(data[task], texts, strict=True)
            ]
            for task, texts in answers.items()
        }
        write_submission(folder / name, info, pairs)

    for number in range(count):
        generator = random.Random(number)
        skill = 0.25 + 0.6 * (count - number) / count
        tasks = [task for task in DECATHLON.tasks if number != count - 1 or task != "sst"]
        answers = {task: _answers(data[task], skill, generator, number) for task in tasks}
        write(f"system-{number:02}", _info(number), answers)
    gold = {task: [example.answers[0] for example in data[task]] for task in DECATHLON.tasks}
    write("oracle", SubmissionInfo("oracle", predictor={"name": "oracle"}), gold)
    floor = {task: [data[task][0].answers[0]] * len(data[task]) for task in DECATHLON.tasks}
    write("majority", SubmissionInfo("majority", predictor={"name": "majority"}), floor)
    return folder


def _info(number: int) -> SubmissionInfo:
    name = HOSTILE if number == 1 else f"system {number:02}"
    return SubmissionInfo(
        name,
        authors=("A. Author", HOSTILE) if number == 1 else ("A. Author",),
        description=f"{HOSTILE} {{{{ 7*7 }}}}" if number == 1 else f"Made up, number {number}.",
        url="https://example.org/system" if number % 2 else "",
        model_size=(29_000_000, 350_000_000, 7_000_000_000, None)[number % 4],
        date=f"{2018 + number % 8}-05-01",
        predictor={"name": "made_up:Predictor", "open_weights": number % 3 == 0},
    )


def _answers(examples: Sequence[Example], skill: float, generator: random.Random, number: int) -> list[str]:
    """Yield answers: gold with a probability given by the skill and the example's difficulty, else a wrong answer."""
    made = []
    for index, example in enumerate(examples):
        hard = hashlib.sha256(example.id.encode()).digest()[0] / 255 - 0.5
        drawn = generator.random() + 0.4 * hard
        if drawn < skill:
            made.append(example.answers[0])
        elif drawn < skill + 0.15:
            words = example.answers[0].split()
            made.append(" ".join(words[: max(1, len(words) - 1)]) + " indeed")
        elif drawn > 1.1:
            made.append("")
        else:
            made.append(generator.choice(examples).answers[0])
        if number == 1 and index % 5 == 0:
            made[-1] = HOSTILE_ANSWER
    return made


if __name__ == "__main__":
    submissions(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]))
