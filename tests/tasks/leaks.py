"""Rules that guess labels from ids and order alone: what a predictor could do if either held the answers."""

from __future__ import annotations

import math
import random
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Sequence

__all__ = ["leaks"]

_BLOCKS = 10
_CHARACTERS = 12
_MARGIN = 0.03
"""What a rule may gain over the commonest label, beyond four standard errors: texts of a kind may stand together."""


def leaks(ids: Sequence[str], labels: Sequence[str]) -> dict[str, tuple[float, float]]:
    """Return the rules that guess the labels too well: (its accuracy, that of the commonest label).

    Every rule is learnt from a random half of the examples and measured on the other.
    """
    order = list(range(len(ids)))
    random.Random(7).shuffle(order)
    learnt, measured = order[::2], order[1::2]
    if not measured:
        return {}
    common = Counter(labels[at] for at in learnt).most_common(1)[0][0]
    chance = sum(labels[at] == common for at in measured) / len(measured)
    most = (
        max(chance, Counter(labels).most_common(1)[0][1] / len(labels))
        + _MARGIN
        + 4 * math.sqrt(0.25 / len(measured))
    )
    found = {}
    for name, feature in _features(ids, labels).items():
        counts: defaultdict[Hashable, Counter[str]] = defaultdict(Counter)
        for at in learnt:
            counts[feature(at)][labels[at]] += 1
        guesses = {value: count.most_common(1)[0][0] for value, count in counts.items()}
        right = sum(guesses.get(feature(at), common) == labels[at] for at in measured) / len(measured)
        if right > most:
            found[name] = (right, chance)
    return found


def _features(ids: Sequence[str], labels: Sequence[str]) -> dict[str, Callable[[int], Hashable]]:
    """Return what a rule looks at: a character of the id, the place of its number or of the example, a neighbour."""
    by_number = sorted(range(len(ids)), key=lambda at: (_number(ids[at]), at))
    place = {at: number for number, at in enumerate(by_number)}
    by_text = {at: number for number, at in enumerate(sorted(range(len(ids)), key=lambda at: ids[at]))}
    features: dict[str, Callable[[int], Hashable]] = {
        "place": lambda at: _BLOCKS * at // len(ids),
        "number of the id": lambda at: _BLOCKS * place[at] // len(ids),
        "rank of the id": lambda at: _BLOCKS * by_text[at] // len(ids),
        "label before": lambda at: labels[at - 1] if at else None,
        "length of the id": lambda at: len(ids[at]),
    }
    for nth in range(1, _CHARACTERS + 1):
        features[f"character {nth} from the end"] = lambda at, nth=nth: ids[at][-nth:][:1]  # type: ignore[misc]
        features[f"character {nth}"] = lambda at, nth=nth: ids[at][nth - 1 : nth]  # type: ignore[misc]
    return features


def _number(id: str) -> int:
    digits = id.rstrip("".join(c for c in set(id) if not c.isdigit()))
    tail = digits[len(digits.rstrip("0123456789")) :]
    return int(tail) if tail else 0
