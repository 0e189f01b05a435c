"""Devices: memory that goes back to the system or is used again, and what is reset after a training run."""

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed: pip install 'decabench[models]'")

from decabench.models.devices import flush_denormals


def is_flushed():
    return bool(torch.tensor(1e-39) * 1 == 0)


@pytest.mark.parametrize("before", [False, True])
def test_denormals_are_zero_inside_and_as_before_outside(before):
    torch.set_flush_denormal(before)
    try:
        with pytest.raises(KeyError), flush_denormals():
            assert is_flushed()
            assert torch.tensor(1.2e-38) * 1 > 0  # the smallest numbers in full precision are kept
            raise KeyError
        assert is_flushed() is before
    finally:
        torch.set_flush_denormal(False)
