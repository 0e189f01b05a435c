"""Devices: memory that goes back to the system."""

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
