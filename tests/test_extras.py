from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Callable
from importlib.metadata import packages_distributions
from itertools import chain
from pathlib import Path

import pytest

from decabench.errors import DecabenchError
from decabench.metrics import MetricError, rouge_score
from decabench.predictors.protocol import ModelOptions
from decabench.predictors.schemes import make_backend
from decabench.scoring import ExamplesHead, examples_frame, read_results
from decabench.tasks import load
from decabench.training import train
from tests.sources import ROOT, modules

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]

BROUGHT_BY_EXTRAS = (
    "absl aiohttp datasets dill joblib multiprocess nltk pandas rouge_score xxhash accelerate matplotlib ray "
    "safetensors scipy sklearn tensorboard torch transformers"
).split()
"""Packages that the base install must not need."""


BLOCKER = f"""
import sys

class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {BROUGHT_BY_EXTRAS!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Missing())
"""

OURS = {"_typeshed", "backports", "compression", "decabench"}
"""Modules without a package in every environment: Python 3.14 has `compression` instead of `backports.zstd`."""


BY_THEIR_OWN_NAME = {"mlflow", "wandb"}
"""Optional trackers, which messages say to install under their own names."""


def distribution(requirement: str) -> str:
    """Return the name of a requirement, normalized like pip's."""
    match = re.match(r"[\w.-]+", requirement)
    assert match is not None
    return re.sub(r"[-_.]+", "-", match.group()).lower()


@pytest.mark.slow
def test_the_base_install_works_without_the_extras(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(BLOCKER)  # workers of several processes read it too
    script = """
from decabench import *
from decabench.cli import cli
for line in '''
    prepare --sample
    predict --predictor majority --output submissions/majority
    predict --predictor lead-3 --output submissions/lead-3
    check --submission submissions/majority
    evaluate submissions/majority
    evaluate submissions/lead-3
    verify --submission submissions/majority
    show submissions/majority --task sst --wrong --limit 1
    compare submissions/majority submissions/lead-3
    leaderboard --submissions submissions --output site
    metrics selftest
'''.strip().splitlines():
    assert not cli.main(line.split(), standalone_mode=False), line
"""
    environment = {
        **os.environ,
        "PYTHONPATH": f"{tmp_path}{os.pathsep}{ROOT}",
        "DECABENCH_HOME": "home",
    }
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert (tmp_path / "site" / "index.html").exists()


def test_what_is_imported_is_declared() -> None:
    optional = PROJECT["optional-dependencies"]
    declared = {
        distribution(each) for each in (*PROJECT["dependencies"], *chain.from_iterable(optional.values()))
    }
    known = packages_distributions()
    for module, path in modules().items():
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            match node:
                case ast.Import():
                    names = [each.name for each in node.names]
                case ast.ImportFrom(module=str(name), level=0):
                    names = [name]
                case _:
                    continue
            for top in (
                {name.partition(".")[0] for name in names}
                - sys.stdlib_module_names
                - OURS
                - BY_THEIR_OWN_NAME
            ):
                candidates = {distribution(each) for each in known.get(top, [top])}
                assert candidates & declared, f"{module} imports {top}, which pyproject.toml does not declare"


def backend_of_a_run() -> object:
    return make_backend("trained:some/run", ModelOptions())


@pytest.mark.parametrize(
    ("package", "extra", "use", "message"),
    [
        ("pandas", "pandas", lambda: read_results("."), "read_results requires pandas"),
        ("pandas", "pandas", lambda: examples_frame(ExamplesHead, []), "A table of examples requires pandas"),  # type: ignore[arg-type]
        ("datasets", "datasets", lambda: load("sst"), "decabench.load requires datasets"),
        ("torch", "train", backend_of_a_run, "A trained model requires torch"),
    ],
)
def test_what_needs_an_extra_says_how_to_install_it(
    monkeypatch: pytest.MonkeyPatch, package: str, extra: str, use: Callable[[], object], message: str
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(DecabenchError) as caught:
        use()
    assert str(caught.value).startswith(message)
    advice = f"pip install 'decabench[{extra}]', or in a clone pip install -e '.[{extra}]'."
    assert str(caught.value).endswith(advice)


def test_training_says_how_to_install_torch(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(DecabenchError, match=r"^Training requires torch and safetensors, .* run pip"):
        train(tmp_path)


def test_the_metric_of_rouge_score_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == "rouge_score"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "rouge_score", None)
    with pytest.raises(MetricError) as caught:
        rouge_score(["a"], [["a"]])
    assert str(caught.value) == (
        "rouge_score requires rouge-score, which is not installed. Run pip install 'decabench[rouge]', "
        "or pip install rouge-score==0.1.2."
    )


def test_every_extra_that_a_message_names_exists() -> None:
    named: set[str] = set()
    for path in [*modules().values(), *ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]:
        text = path.read_text(encoding="utf-8")
        named |= set(re.findall(r"require_package\([^,]+, ['\"](\w+)", text))
        for listed in re.findall(r"(?:decabench|'\.|\s\.)\[([\w,]+)\]'?", text):
            named |= set(listed.split(","))
    assert {"hf", "train"} <= named
    assert named <= set(PROJECT["optional-dependencies"])
