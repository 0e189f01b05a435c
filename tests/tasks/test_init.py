from __future__ import annotations

import json
import subprocess
import sys

import pytest

from tests.sources import ROOT

HEAVY = ["numpy", "pyarrow", "datasets", "pandas", "torch", "requests", "ijson", "huggingface_hub"]
_LOADED = "import json, sys, {module}; print(json.dumps(sorted(sys.modules)))"


def loaded(module: str) -> set[str]:
    """Return all modules that importing this one loads."""
    command = [sys.executable, "-c", _LOADED.format(module=module)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    return set(json.loads(done.stdout))


@pytest.mark.parametrize(
    "module",
    [
        "decabench.tasks",
        "decabench.tasks.preparation",
        "decabench.tasks.sources.published",
        "decabench.tasks.registry",
        "decabench.tasks.store",
    ],
)
def test_import_is_light(module: str) -> None:
    modules = loaded(module)
    assert module in modules
    assert modules.isdisjoint(HEAVY)
