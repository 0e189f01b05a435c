"""Figure 4's tasks as a suite, with a variant of SNLI that trains on the validation part.

Use it with `decabench ... --include transfer.py`.

Only SNLI's validation and test parts are available. So `snli.small` trains on the 1,273 validation pairs and is
validated on the 1,254 test pairs. Its scores are not comparable with the scores of models trained on SNLI's 549,367
training pairs.
"""

from collections.abc import Iterator
from dataclasses import replace

from decabench.tasks import TASKS, Example, Files, RemoteFile, Source, Suite

_SNLI = TASKS["snli"]
_JSON_LINES = next(source for source in _SNLI.sources if source.name == "json lines")
_PARTS = {"train": "validation", "validation": "test"}
"""The split of SNLI used for each split of `snli.small`."""


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
