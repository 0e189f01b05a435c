"""The overview, a task's places and `decabench compare` never contradict each other.

tests/browser/test_pairs.py checks that pages which compute in the browser agree with them.
"""

from __future__ import annotations

import numpy as np
import pytest

from decabench.leaderboard.entries import Entry, Place, Standings
from decabench.leaderboard.pages import rank_on_task
from decabench.leaderboard.ranking import rank_suite
from decabench.scoring import Sample, compare_pairs, flip_signs
from decabench.tasks import TASKS, Suite
from tests.leaderboard.small import entry, suite_results
from tests.scoring.populations import SIZES, mean_rows, sample

PAIR = Suite("pair", "Pair", ("first", "second"), total="sum", total_name="sum")
USED = dict.fromkeys(PAIR.tasks, "em")


def draw_table(seed: int, systems: int = 10) -> tuple[dict[tuple[str, str], Sample], list[Entry]]:
    """Return systems with different skills on two tasks. Skills on the two tasks are independent."""
    generator = np.random.default_rng(seed)
    samples: dict[tuple[str, str], Sample] = {}
    entries = []
    for task, units, mean in (("first", 14, 8), ("second", 60, 30)):
        n = SIZES["unequal"](generator, units, mean)
        difficulty = generator.beta(6, 3, units)
        for number in range(systems):
            skill = generator.normal(0, 0.12)
            chance = np.clip(difficulty + skill + generator.normal(0, 0.08, units), 0, 1)
            samples[f"s{number}", task] = sample("em", mean_rows(generator.binomial(n, chance), n), n, task)
    for number in range(systems):
        scores = {task: samples[f"s{number}", task].score for task in PAIR.tasks}
        file = suite_results(f"s{number}", PAIR, scores, USED)
        find = lambda name, task, score, metric: samples[name, task]  # noqa: E731
        entries.append(entry(file, f"s{number}/x", find=find))
    return samples, entries


@pytest.mark.parametrize("seed", range(5))  # 5 tables of 45 pairs
def test_no_two_pages_contradict_each_other(seed: int) -> None:
    samples, entries = draw_table(seed)
    board = rank_suite(PAIR, entries, TASKS)
    (table,) = board.tables
    names = [row.entry.name for row in table.rows]
    assert table.tests.total is not None
    ranks = {"total": {row.entry.name: placed(row.place) for row in table.rows}}
    ranks |= {column.name: task_ranks(table, number, column) for number, column in enumerate(board.columns)}
    verdicts = 0
    for kind, found in (("total", table.tests.total), *table.tests.tasks.items()):
        for b in range(len(names)):
            for a in range(b):
                one, other = names[a], names[b]
                adjusted, p = float(found.adjusted[a, b]), float(found.p[a, b])
                verdict = int(np.sign(found.differences[a, b])) * found.differ(a, b)
                low, high = (float(end[a, b]) for end in found.ends)
                assert not found.is_same(a, b)
                verdicts += verdict != 0
                assert p <= adjusted
                assert (low > 0 or high < 0) == (p < 0.05)
                if verdict:
                    assert adjusted < 0.05 and (low > 0) == (verdict > 0)
                    assert ranks[kind][one][0] != ranks[kind][other][0]
                    assert (ranks[kind][one][0] > ranks[kind][other][0]) == (verdict > 0)
                    better, worse = (other, one) if verdict > 0 else (one, other)
                    assert ranks[kind][better][1][0] < ranks[kind][worse][1][1]
                if (a + b) % 5:
                    continue
                # The command line uses the same resamples, so its figures are the same.
                tasks = PAIR.tasks if kind == "total" else [kind]
                command = compare_pairs(
                    [flip_signs([samples[one, task], samples[other, task]]) for task in tasks]
                )
                assert p == pytest.approx(command.p[0, 1], abs=1e-4)
        assert all(best <= rank <= worst for rank, (best, worst) in ranks[kind].values())
    assert 20 < verdicts < 110  # of 135


def placed(place: Place | None) -> tuple[int, tuple[int, int]]:
    assert place is not None
    return place.rank, (place.best, place.worst)


def task_ranks(table: Standings, number: int, column: object) -> dict[str, tuple[int, tuple[int, int]]]:
    places = rank_on_task(table, number, column)[0]  # type: ignore[arg-type]
    return {row.entry.name: placed(place) for place, row in places}
