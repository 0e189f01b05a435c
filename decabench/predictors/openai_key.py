"""The key of a server: from the environment, into one header, and nowhere else."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field

from decabench.errors import DecabenchError

__all__ = ["VARIABLES", "Key", "environment_key"]

VARIABLES = ("DECABENCH_API_KEY", "OPENAI_API_KEY")
"""Where the key is looked for. The first that is set decides, and set to nothing it means no key."""

SECRET_LENGTH = 8
"""Shorter ones (`EMPTY`, `none`) are no secrets but words, which an answer may well contain."""


@dataclass(frozen=True)
class Key:
    """A key that shows itself to nobody but the server."""

    value: str = field(default="", repr=False)
    """The key; empty for none."""

    @property
    def headers(self) -> dict[str, str]:
        """What a request carries of it."""
        return {"Authorization": f"Bearer {self.value}"} if self.value else {}

    def hidden_in(self, text: str) -> str:
        """The text without the key, for what a server sends back."""
        for form in {self.value, json.dumps(self.value)[1:-1], self.value.replace("/", "\\/")}:
            text = text.replace(form, "[key]") if form else text
        return text

    def hidden_in_answer(self, text: str) -> str:
        """The same for an answer, which a word that happens to be the key does not change."""
        return self.hidden_in(text) if len(self.value) >= SECRET_LENGTH else text


def environment_key() -> Key:
    """The key of the environment, if it has one. Raises DecabenchError for what cannot stand in a header."""
    variable = next((name for name in VARIABLES if name in os.environ), VARIABLES[0])
    value = os.environ.get(variable, "").strip()
    if not all("!" <= char <= "~" for char in value):
        raise DecabenchError(
            f"The key in {variable} has spaces, line breaks or letters beyond ASCII, which no key has: set it again."
        )
    return Key(value)
