"""Answers in the order of the data: what scoring keeps of a file of answers.

Of most lines that is a text, in a list; ids stay with the data, and equal short texts are kept once. A line with more
than an id and an answer is kept as it was read.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from decabench.submission.answers import AnswerKind, AnswerLine

__all__ = ["AlignedAnswers"]

_PLAIN = AnswerLine(0, None, None)[4:]
"""What a line has beyond its id and its answer if it has nothing beyond them."""
_MOST_SHARED = 10_000
"""So many texts are looked up before they are kept; tasks with more have answers that rarely repeat."""


@dataclass(frozen=True)
class AlignedAnswers:
    """The answers to examples of a split, in the order of the data."""

    places: Sequence[int]
    """Which examples are answered, as their places in the split; a range if all are."""
    answers: Sequence[str]
    """The answer to each of them."""
    details: Mapping[int, AnswerLine]
    """The lines that have more than an id and an answer, by their place in `answers`."""

    @classmethod
    def read(cls, lines: Iterable[AnswerLine], ids: Sequence[str]) -> AlignedAnswers:
        """Read lines, each of which must answer another one of the examples with these ids."""
        found: list[str | None] = [None] * len(ids)
        details: dict[int, AnswerLine] = {}
        shared: dict[str, str] = {}
        places: dict[str, int] = {}
        place = -1
        for line in lines:
            place += 1
            if place >= len(ids) or ids[place] != line.id:  # most files are in the order of the data
                places = places or {id_: at for at, id_ in enumerate(ids)}
                place = places[str(line.id)]
            answer, rule = line.answer or "", line.rule
            if len(shared) < _MOST_SHARED:
                answer, rule = shared.setdefault(answer, answer), shared.setdefault(rule, rule)
            else:
                answer, rule = shared.get(answer, answer), shared.get(rule, rule)
            found[place] = answer
            if line[4:] != _PLAIN:
                details[place] = line._replace(id=ids[place], answer=answer, rule=rule)
        answers = [answer for answer in found if answer is not None]
        if len(answers) == len(ids):
            return cls(range(len(ids)), answers, details)
        kept = [at for at, answer in enumerate(found) if answer is not None]
        return cls(kept, answers, {new: details[old] for new, old in enumerate(kept) if old in details})

    def texts(self, kind: AnswerKind) -> Sequence[str]:
        """Return the text to score of each."""
        if kind == "extracted" or not self.details:
            return self.answers
        texts = list(self.answers)
        for place, line in self.details.items():
            texts[place] = line.text(kind)
        return texts
