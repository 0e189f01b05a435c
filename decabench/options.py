"""Declare command-line options as fields of dataclasses or as parameters of a command."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import MISSING, dataclass, field
from typing import Any

REQUIRED = MISSING
"""The default of a required option."""


@dataclass(frozen=True)
class OptionInfo:
    """Details of a command-line option. Its name, type and default come from the field or parameter."""

    help: str
    """A description for the help page and the class reference."""
    section: str = ""
    """The heading under which the help page lists the option."""
    flag: str = ""
    """The option as typed, such as `--author` or `--chat/--no-chat`, if it differs from the field's name."""
    metavar: str | None = None
    """The placeholder for the value on the help page."""
    at_least: float | None = None
    """The minimum value."""
    above: float | None = None
    """A lower bound that the value must exceed."""
    at_most: float | None = None
    """The maximum value."""
    choices: tuple[str, ...] = ()
    """The allowed values. If empty, the values of a `Literal` type are allowed."""
    unset: str = ""
    """The default as shown on the help page, such as `the template's`, if the field's default is None."""
    parse: Callable[[str], Any] | None = None
    """Converts the typed string to a value. Raises ValueError if the string is invalid."""
    type: Any = None
    """The click type of a file or folder."""
    complete: Callable[..., list[str]] | None = None
    """A shell completion function, called with click's arguments."""
    variable: str | None = None
    """An additional environment variable for the value."""


def option(default: Any, help: str, **info: Any) -> Any:
    """Declare a dataclass field or a command's parameter as an option. For a required option, the default is REQUIRED.

    The remaining arguments are fields of `OptionInfo`.
    """
    return field(default=default, metadata={"option": OptionInfo(help, **info)})
