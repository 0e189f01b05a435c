"""JSON with one reading only: no key twice, no NaN, nothing that Python alone would take."""

from __future__ import annotations

import json
from typing import Any, NoReturn

__all__ = ["loads"]


def loads(text: str) -> Any:
    """The value of a JSON text; `ValueError` says in words what is wrong with it."""
    try:
        return _DECODER.decode(text)
    except json.JSONDecodeError as error:
        raise ValueError(f"{error.msg} at column {error.colno}") from None
    except RecursionError:
        raise ValueError("its brackets are nested too deeply") from None


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) < len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in keys if keys.count(key) > 1)
        raise ValueError(f"the key {twice[:60]!r} stands twice in one object")
    return value


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


_DECODER = json.JSONDecoder(object_pairs_hook=_object, parse_constant=_no_constant)
