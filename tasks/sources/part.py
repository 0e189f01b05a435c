"""A download that is not whole yet, and what has to be known to go on with it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from decabench.tasks.home import atomic_file
from decabench.tasks.sources.network import plain_url

if TYPE_CHECKING:
    from requests import Response

__all__ = ["Part"]


@dataclass(frozen=True)
class Part:
    """The bytes that came so far, with a note of the version that they belong to."""

    path: Path
    """`<name>.part`; the note is `<name>.part.json`."""

    @property
    def _note(self) -> Path:
        return self.path.with_name(self.path.name + ".json")

    def headers(self, url: str) -> dict[str, str]:
        """The request headers that go on where the part ends; none where it has to start over."""
        try:
            note = json.loads(self._note.read_text(encoding="utf-8"))
            size, noted, validator = self.path.stat().st_size, note["url"], note["validator"]
        except (OSError, ValueError, KeyError, TypeError):
            return {}
        if size == 0 or noted != plain_url(url):
            return {}
        return {"Range": f"bytes={size}-"} | ({"If-Range": validator} if validator else {})

    def begin(self, url: str, response: Response) -> None:
        """Notes which version of the file is about to be written."""
        tag = response.headers.get("ETag", "")
        # A weak tag does not promise the same bytes, so If-Range may not have it.
        validator = response.headers.get("Last-Modified", "") if not tag or tag.startswith("W/") else tag
        with atomic_file(self._note) as note:
            note.write(json.dumps({"format": 1, "url": plain_url(url), "validator": validator}).encode())

    def size(self) -> int:
        """Bytes so far."""
        return self.path.stat().st_size if self.path.exists() else 0

    def discard(self) -> None:
        """Removes it, so that the next attempt starts from nothing."""
        self.path.unlink(missing_ok=True)
        self._note.unlink(missing_ok=True)

    def hand_over(self, target: Path) -> None:
        """Moves the whole file to `target`."""
        self.path.replace(target)
        self.discard()
