"""Devices: memory that goes back to the system, and memory that is used again."""

import subprocess
import sys

import pytest

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
