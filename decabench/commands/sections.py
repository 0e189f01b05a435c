"""Help in sections: a command of many options reads as a few short lists."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

__all__ = ["SectionedCommand", "section"]

Command = TypeVar("Command", bound=Callable[..., Any])

_REST = "Options"


class _Option(click.Option):
    """An option that says under which heading it stands."""

    def __init__(self, *arguments: Any, section: str, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self.section = section


def section(title: str) -> Callable[..., Callable[[Command], Command]]:
    """`click.option` for the options under one heading."""

    def option(*names: str, **settings: Any) -> Callable[[Command], Command]:
        return click.option(*names, cls=_Option, section=title, **settings)

    return option


class SectionedCommand(click.Command):
    """A command whose help lists its options heading by heading, in the order in which they are first used."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Writes the lists."""
        sections: dict[str, list[tuple[str, str]]] = {_REST: []}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is not None:
                sections.setdefault(getattr(parameter, "section", _REST), []).append(record)
        for title, records in sections.items():
            with formatter.section(title):
                formatter.write_dl(records)
