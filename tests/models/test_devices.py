"""Devices: memory that goes back to the system or is used again, and what is reset after a training run."""

import subprocess
import sys

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed: pip install 'decabench[models]'")

from decabench.models.devices import flush_denormals

SCRIPT = """
from pathlib import Path
from decabench.models.devices import release_memory

def resident():
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096

blocks = [bytearray(b"x" * 100_000) for _ in range(2_000)]
del blocks[:-1]  # the last one keeps the heap from shrinking
before = resident()
release_memory()
print(before - resident())
"""


@pytest.mark.skipif(
    sys.platform != "linux", reason="only glibc can return memory from the middle of its heap"
)
def test_freed_memory_goes_back_to_the_system():
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True)
    assert int(done.stdout) > 150_000_000


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


REUSE = """
import resource
from decabench.models.devices import reuse_memory

def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(20):
        bytearray(40_000_000)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

before = faults()
with reuse_memory():
    bytearray(b"x" * 40_000_000)
    within = faults()
print(before, within, faults())
"""


@pytest.mark.skipif(sys.platform != "linux", reason="only glibc can be told to keep freed memory")
def test_memory_is_reused_only_within():
    """Writing to new memory costs a page fault per page, at least per huge page of 2 MB."""
    done = subprocess.run([sys.executable, "-c", REUSE], capture_output=True, text=True, check=True)
    before, within, after = map(int, done.stdout.split())
    assert within < before / 5
    assert after > before / 2
