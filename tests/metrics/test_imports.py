"""Importing metrics loads only the standard library, under both names, and nothing that takes long."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import decabench.metrics

FOLDER = Path(decabench.metrics.__file__).resolve().parent
PROBE = """
import json, sys
before = set(sys.modules)
import {module}
print(json.dumps(sorted(set(sys.modules) - before)))
"""


def probe(module: str, path: Path) -> set[str]:
    """Return the top-level names of the modules that are loaded, without site-packages."""
    code = f"import sys; sys.path.insert(0, {str(path)!r})\n" + PROBE.format(module=module)
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", code], capture_output=True, text=True, check=True
    )
    return {name.split(".")[0] for name in json.loads(done.stdout)}


@pytest.fixture
def copied(tmp_path):
    shutil.copytree(FOLDER, tmp_path / "metrics", ignore=shutil.ignore_patterns("__pycache__"))
    return tmp_path


@pytest.mark.parametrize("module", ["metrics", "metrics.selftest"])
def test_a_copied_folder_works_with_the_standard_library_alone(module, copied):
    loaded = probe(module, copied)
    assert loaded - {"metrics"} <= sys.stdlib_module_names


def test_inside_the_package():
    loaded = probe("decabench.metrics", Path(decabench.__file__).resolve().parents[1])
    assert loaded - {"decabench"} <= sys.stdlib_module_names


def test_what_takes_long_to_load_is_loaded_when_it_is_used():
    loaded = probe("decabench.metrics", Path(decabench.__file__).resolve().parents[1])
    assert not loaded & {
        "asyncio",
        "decimal",
        "difflib",
        "fractions",
        "importlib.metadata",
        "json",
        "sqlite3",
        "statistics",
        "string",
    }


def test_a_missing_scorer_is_named_with_its_pip_line(copied):
    code = (
        f"import sys; sys.path.insert(0, {str(copied)!r}); import metrics\n"
        "for scorer in (metrics.bleu, metrics.rouge_score):\n"
        "    try: scorer(['a'], ['a'])\n"
        "    except metrics.MetricError as error: print(error)\n"
    )
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", code], capture_output=True, text=True, check=True
    )
    assert "pip install 'sacrebleu" in done.stdout and "pip install rouge-score==0.1.2" in done.stdout
