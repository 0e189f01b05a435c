"""Which results may be compared: those on the same data, scored by the same metrics."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from decabench.leaderboard.entries import Entry, TaskEntry

__all__ = ["DataLine", "Pool", "pool_entries"]

Ground = tuple[str, str, int]
"""(data fingerprint, metric signature, number of examples); an empty signature is unknown and agrees with any other."""

_ORIGINS = {
    "upstream": "upstream files",
    "mirror": "mirror",
    "user": "the submitter's own data",
    "sample": "bundled sample",
}


@dataclass(frozen=True)
class DataLine:
    """The data and metric behind the scores of one task."""

    task: str
    """The task's name."""
    origin: str
    """`mirror`; `mirror or upstream files` where members differ."""
    is_at_hand: bool
    """Whether this data is prepared here; otherwise all that is said of it is stated by the submitters."""
    is_published: bool
    """Whether it is at hand, and its files match the published checksums."""
    count: str
    """The number of examples, such as `1,000 of 10,570`, as far as it is known."""
    is_subset: bool
    """Whether fewer examples were scored than the dataset's paper reports."""
    fingerprint: str
    """The data's fingerprint."""
    signature: str
    """The metric's signature."""
    is_current: bool
    """Whether that is the signature of the metric here."""
    notes: tuple[str, ...]
    """Notes on the data, written when it was prepared; none unless it is at hand: no submitter writes them."""

    @property
    def known(self) -> str:
        """How its origin is known."""
        if not self.is_at_hand:
            return "as stated by the submitters"
        return "published checksums match" if self.is_published else "no published checksums"


@dataclass
class Pool:
    """Results that may be compared: they agree on the data and metric of every task they share."""

    names: Sequence[str]
    """The tasks to compare; the data of other tasks does not matter."""
    ground: dict[str, Ground] = field(default_factory=dict)
    """The data and metric of each task."""
    entries: list[Entry] = field(default_factory=list)
    """The results, in the order they were added."""

    def add(self, entry: Entry) -> None:
        """Add a result."""
        self.entries.append(entry)
        for task, ground in _ground(entry, self.names).items():
            known = self.ground.get(task, ground)
            self.ground[task] = (known[0], known[1] or ground[1], known[2])

    def admits(self, entry: Entry) -> bool:
        """Return whether a result agrees on every shared task; without any, the data must have the same origins."""
        other = _ground(entry, self.names)
        shared = self.ground.keys() & other.keys()
        if not all(_agree(self.ground[task], other[task]) for task in shared):
            return False
        return bool(shared) or self._origins([entry]) <= self._origins(self.entries)

    @property
    def id(self) -> str:
        """Eight hexadecimal digits that identify the data and metrics."""
        lines = "".join(
            "\t".join((task, *map(str, ground))) + "\n" for task, ground in sorted(self.ground.items())
        )
        return hashlib.sha256(lines.encode()).hexdigest()[:8]

    @property
    def lines(self) -> tuple[DataLine, ...]:
        """The data and metric of each task, in the order of the names."""
        return tuple(self._line(name) for name in self.names if name in self.ground)

    def _line(self, name: str) -> DataLine:
        """Describe the data of a task as the results that may be ranked state it, or all if there is none."""
        with_it = [entry for entry in self.entries if name in entry.tasks and entry.tasks[name].fingerprint]
        checked = [entry for entry in with_it if not entry.apart]
        on_it = [entry.tasks[name] for entry in checked or with_it]
        at_hand = [task for task in on_it if task.at_hand]
        count, is_subset = _count(on_it)
        return DataLine(
            task=name,
            origin=" or ".join(
                sorted({_ORIGINS.get(task.origin, "unknown origin") for task in at_hand or on_it})
            ),
            is_at_hand=bool(at_hand),
            is_published=bool(at_hand) and all(task.verified for task in at_hand),
            count=count,
            is_subset=is_subset,
            fingerprint=self.ground[name][0],
            signature=self.ground[name][1],
            is_current=any(task.is_current for task in on_it),
            notes=tuple(sorted({task.note for task in at_hand if task.note})),
        )

    def _origins(self, entries: Sequence[Entry]) -> set[str]:
        tasks = (entry.tasks[name] for entry in entries for name in self.names if name in entry.tasks)
        return {task.origin for task in tasks if task.fingerprint}

    @property
    def notes(self) -> tuple[tuple[str, tuple[str, ...]], ...]:
        """Notes on the data, each with the tasks that it applies to."""
        tasks: dict[str, list[str]] = {}
        for line in self.lines:
            for note in line.notes:
                tasks.setdefault(note, []).append(line.task)
        return tuple((note, tuple(names)) for note, names in tasks.items())

    @property
    def heading(self) -> str:
        """A short description of the data."""
        origins = Counter(line.origin for line in self.lines)
        if not origins:
            return "No data"
        if list(origins) == [_ORIGINS["sample"]] and all(line.is_at_hand for line in self.lines):
            return "Bundled sample"
        by_size = sorted(origins.items(), key=lambda item: (-item[1], item[0]))
        what = by_size[0][0] if len(by_size) == 1 else ", ".join(f"{origin} ({n})" for origin, n in by_size)
        return f"{what[0].upper()}{what[1:]}: {self._known}"

    @property
    def _known(self) -> str:
        known = Counter(line.known for line in self.lines)
        if len(known) == 1:
            return next(iter(known))
        return ", ".join(f"{words} ({count})" for words, count in known.most_common())


def pool_entries(entries: Sequence[Entry], names: Sequence[str]) -> list[Pool]:
    """Group the results of one suite and split into comparable pools, in the order of the page.

    Results with all of `names` scored share a pool if they have the same data and metrics throughout. The others, those
    with more tasks first, join the first pool that they agree with, or start a new one. A result without any data,
    because everything failed, joins the first pool.
    """
    whole: dict[tuple[tuple[str, Ground], ...], Pool] = {}
    rest: list[Entry] = []
    for entry in sorted(entries, key=lambda entry: (-_scored(entry, names), entry.name, entry.path)):
        if _scored(entry, names) == len(names):
            ground = _ground(entry, names)
            key = tuple((name, ground[name]) for name in names)
            whole.setdefault(key, Pool(names)).add(entry)
        else:
            rest.append(entry)
    placed = sorted(whole.values(), key=_prominence)
    for entry in rest:
        home = next((pool for pool in placed if pool.admits(entry)), None)
        if home is None:
            home = Pool(names)
            placed.append(home)
        home.add(entry)
    return sorted(placed, key=_prominence)


def _prominence(pool: Pool) -> tuple[bool, int, bool, bool, int, int, int, str]:
    """Sort pools with results to rank first, then by data that is known here; invented data comes after all of them.

    Among pools on as much known data, the real comes before the sample and the published before other, and the metrics
    that are known here before those of other signatures; then counts by how many results are on it, rather than what
    they say.
    """
    lines = pool.lines
    known = [line for line in lines if line.is_at_hand]
    is_apart = all(entry.apart for entry in pool.entries)
    is_sample = any(line.origin == _ORIGINS["sample"] for line in known)
    is_unpublished = not all(line.is_published for line in known)
    foreign = sum(not line.is_current for line in lines)
    known_data = -len(known), is_sample, is_unpublished
    return is_apart, *known_data, foreign, -len(pool.entries), -len(lines), pool.id


def _scored(entry: Entry, names: Sequence[str]) -> int:
    return sum(name in entry.tasks and entry.tasks[name].score is not None for name in names)


def _ground(entry: Entry, names: Sequence[str]) -> Mapping[str, Ground]:
    """Return the data and metric of each task, including failed tasks that state their data."""
    tasks = ((name, entry.tasks[name]) for name in names if name in entry.tasks)
    return {name: (task.fingerprint, task.signature, task.rows) for name, task in tasks if task.fingerprint}


def _agree(one: Ground, other: Ground) -> bool:
    return (one[0], one[2]) == (other[0], other[2]) and (one[1] == other[1] or not one[1] or not other[1])


def _count(tasks: Sequence[TaskEntry]) -> tuple[str, bool]:
    """Return the number of examples of the data as text, and whether it is smaller than the published number."""
    rows = max(task.rows for task in tasks)  # the same for all: results on other numbers are not in the pool
    published = max((task.published_count or 0 for task in tasks), default=0)
    return f"{rows:,} of {published:,}" if published else f"{rows:,}", rows < published
