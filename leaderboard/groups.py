"""Who may be compared with whom: results on the same data, scored by the same metrics."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from decabench.leaderboard.read import Entry, TaskEntry

__all__ = ["DataLine", "Group", "groups"]

Ground = tuple[str, str]
"""(data fingerprint, metric signature); an unknown signature is empty and agrees with every other."""

_ORIGINS = {
    "upstream": "upstream files",
    "mirror": "mirror",
    "user": "own data of the submitter",
    "sample": "bundled sample",
}


@dataclass(frozen=True)
class DataLine:
    """What a group's scores on one task stand on."""

    task: str
    """Its name."""
    origin: str
    """`mirror`; `mirror or upstream files` where members differ."""
    is_verified: bool
    """Whether every member says that it matched published checksums."""
    count: str
    """`1,000 of 10,570`, or what is known of it."""
    is_subset: bool
    """Whether fewer examples were scored than the dataset's paper counts."""
    fingerprint: str
    """Of the data."""
    signature: str
    """Of the metric."""
    notes: tuple[str, ...]
    """What its preparation has to say."""


@dataclass
class Group:
    """Results that agree on their ground; grows while results are placed."""

    names: Sequence[str]
    """The tasks that count on this board; data of others does not matter."""
    ground: dict[str, Ground] = field(default_factory=dict)
    """By task."""
    entries: list[Entry] = field(default_factory=list)
    """In the order in which they were placed."""

    def add(self, entry: Entry) -> None:
        """Place a result here."""
        self.entries.append(entry)
        for task, ground in _ground(entry, self.names).items():
            known = self.ground.get(task, ground)
            self.ground[task] = (known[0], known[1] or ground[1])

    def admits(self, entry: Entry) -> bool:
        """Whether it agrees on every task they share and shares one, or at least comes from the same origins."""
        other = _ground(entry, self.names)
        shared = self.ground.keys() & other.keys()
        if not all(_agree(self.ground[task], other[task]) for task in shared):
            return False
        return bool(shared) or self._origins([entry]) <= self._origins(self.entries)

    @property
    def id(self) -> str:
        """Eight hexadecimal digits that stand for the data and metrics."""
        lines = "".join(f"{task}\t{a}\t{b}\n" for task, (a, b) in sorted(self.ground.items()))
        return hashlib.sha256(lines.encode()).hexdigest()[:8]

    @property
    def lines(self) -> tuple[DataLine, ...]:
        """The ground of each task, in the order of the names."""
        return tuple(self._line(name) for name in self.names if name in self.ground)

    def _line(self, name: str) -> DataLine:
        tasks = [entry.tasks[name] for entry in self.entries if name in entry.tasks]
        on_it = [task for task in tasks if task.fingerprint]
        count, is_subset = _count(on_it)
        return DataLine(
            task=name,
            origin=" or ".join(
                sorted({_ORIGINS.get(task.origin, task.origin or "unknown origin") for task in on_it})
            ),
            is_verified=all(task.verified for task in on_it),
            count=count,
            is_subset=is_subset,
            fingerprint=self.ground[name][0],
            signature=self.ground[name][1],
            notes=tuple(sorted({task.note for task in on_it if task.note})),
        )

    def _origins(self, entries: Sequence[Entry]) -> set[str]:
        tasks = (entry.tasks[name] for entry in entries for name in self.names if name in entry.tasks)
        return {task.origin for task in tasks if task.fingerprint}

    @property
    def notes(self) -> tuple[tuple[str, tuple[str, ...]], ...]:
        """What there is to say about the data, each with the tasks that it is said of."""
        tasks: dict[str, list[str]] = {}
        for line in self.lines:
            for note in line.notes:
                tasks.setdefault(note, []).append(line.task)
        return tuple((note, tuple(names)) for note, names in tasks.items())

    @property
    def heading(self) -> str:
        """What data this is, in a few words."""
        origins = Counter(line.origin for line in self.lines)
        if not origins:
            return "No data"
        if list(origins) == [_ORIGINS["sample"]]:
            return "Bundled sample"
        by_size = sorted(origins.items(), key=lambda item: (-item[1], item[0]))
        what = by_size[0][0] if len(by_size) == 1 else ", ".join(f"{origin} ({n})" for origin, n in by_size)
        return f"{what[0].upper()}{what[1:]}: {self._verified}"

    @property
    def _verified(self) -> str:
        verified, all_of_them = sum(line.is_verified for line in self.lines), len(self.lines)
        if verified == all_of_them:
            return "verified"
        return f"{verified} of {all_of_them} tasks verified" if verified else "not verified"


def groups(entries: Sequence[Entry], names: Sequence[str]) -> list[Group]:
    """Split the results of one split into groups that may be compared, in the order of the page.

    Results with all of `names` scored make a group with those that have the same ground on all of them.
    The others, those with more tasks first, join the first group that agrees with them on their tasks,
    or open one of their own; one without any data (everything failed) stands in the first group.
    """
    whole: dict[tuple[tuple[str, Ground], ...], Group] = {}
    rest: list[Entry] = []
    for entry in sorted(entries, key=lambda entry: (-_scored(entry, names), entry.name, entry.path)):
        if _scored(entry, names) == len(names):
            ground = _ground(entry, names)
            key = tuple((name, ground[name]) for name in names)
            whole.setdefault(key, Group(names)).add(entry)
        else:
            rest.append(entry)
    placed = sorted(whole.values(), key=_prominence)
    for entry in rest:
        home = next((group for group in placed if group.admits(entry)), None)
        if home is None:
            home = Group(names)
            placed.append(home)
        home.add(entry)
    return sorted(placed, key=_prominence)


def _prominence(group: Group) -> tuple[bool, bool, int, int, str]:
    """Real data before samples, verified before not, then the larger group."""
    lines = group.lines
    is_sample = any(line.origin == _ORIGINS["sample"] for line in lines) or not lines
    is_unverified = not all(line.is_verified for line in lines)
    return is_sample, is_unverified, -len(lines), -len(group.entries), group.id


def _scored(entry: Entry, names: Sequence[str]) -> int:
    return sum(name in entry.tasks and entry.tasks[name].score is not None for name in names)


def _ground(entry: Entry, names: Sequence[str]) -> Mapping[str, Ground]:
    """Failed tasks count too, where they name their data: they tell which data was meant."""
    tasks = ((name, entry.tasks[name]) for name in names if name in entry.tasks)
    return {name: (task.fingerprint, task.signature) for name, task in tasks if task.fingerprint}


def _agree(one: Ground, other: Ground) -> bool:
    return one[0] == other[0] and (one[1] == other[1] or not one[1] or not other[1])


def _count(tasks: Sequence[TaskEntry]) -> tuple[str, bool]:
    """(text, whether it is fewer than published)."""
    whole = [
        task for task in tasks if task.limited is None
    ] or tasks  # a limited run says nothing of the others
    scored = sorted({task.n for task in whole if task.n is not None})
    published = max((task.published_count or 0 for task in tasks), default=0)
    text = " or ".join(f"{n:,}" for n in scored) or "unknown"
    if published:
        text += f" of {published:,}"
    return text, bool(scored) and scored[0] < published
