"""Figure 4's tasks as one suite, with an SNLI that learns from its validation part: decabench ... --include transfer.py

Only SNLI's validation and test parts are available. So `snli.small` learns the 1,273 pairs of the one and is
validated on the 1,254 pairs of the other. Its scores are not comparable with those of models that learned SNLI's
549,367 training pairs.
"""

from collections.abc import Iterator
from dataclasses import replace

from decabench.tasks import TASKS, Example, Files, RemoteFile, Source, Suite

_SNLI = TASKS["snli"]
_JSON_LINES = next(source for source in _SNLI.sources if source.name == "json lines")
_PARTS = {"train": "validation", "validation": "test"}
"""Split of `snli.small` to the split of SNLI that it is."""


def _read(files: Files, split: str) -> Iterator[Example]:
    yield from _JSON_LINES.read(files, _PARTS[split])


SNLI_SMALL = replace(
    _SNLI,
    name="snli.small",
    title="Natural language inference, validation part learned",
    counts={},
    sources=(
        Source(
            "json lines",
            {split: (RemoteFile(_JSON_LINES.files[part][0].name),) for split, part in _PARTS.items()},
            _read,
        ),
    ),
    shared_folder="snli",
    notes="Train is SNLI's validation part, and validation its test part: not comparable with scores on SNLI.",
)

TRANSFER = Suite(
    name="transfer",
    title="New tasks after the decathlon",
    tasks=("conll2003.entities", "multi30k.en.de", "iwslt.de.en", "snli.small"),
)
