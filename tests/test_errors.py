"""Errors about data end a command with 3, a wrong name with 2, a model's failure with 4."""

import pytest

from decabench.errors import (
    DataError,
    LostDeviceError,
    MissingDataError,
    ModelError,
    StorageError,
    UnknownNameError,
)
from decabench.metrics.base import DecabenchError


@pytest.mark.parametrize(
    ("kind", "code"),
    [
        (DataError, 3),
        (MissingDataError, 3),
        (StorageError, 3),
        (UnknownNameError, 2),
        (ModelError, 4),
        (LostDeviceError, 4),
    ],
)
def test_exit_codes(kind: type[DecabenchError], code: int) -> None:
    assert issubclass(kind, DecabenchError)
    assert kind("a sentence").exit_code == code
