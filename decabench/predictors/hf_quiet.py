"""Keeps transformers from talking: what matters is said in our own words."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

__all__ = ["quiet"]


@contextmanager
def quiet() -> Iterator[None]:
    """No progress bars and no warnings of transformers inside; as they were afterwards."""
    os.environ.setdefault("USE_HUB_KERNELS", "0")  # read at the first import: kernels of the hub are code
    logging: Any = import_module("transformers.utils.logging")  # which has no types
    verbosity, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(verbosity)
        if bars:
            logging.enable_progress_bar()
