import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import venv
import zipfile
from dataclasses import dataclass
from pathlib import Path

import pytest
from filelock import FileLock

from tests.sources import ROOT

LINKS = ("metrics", "tasks", "leaderboard")

pytestmark = pytest.mark.slow


def run(*arguments, **options):
    done = subprocess.run(list(map(str, arguments)), capture_output=True, text=True, **options)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def copy_of_the_tree(target, links):
    """Copy the files that git has or would add, without earlier builds. Links are copied as links or as plain files."""
    if shutil.which("git") is None or not (ROOT / ".git").exists():
        pytest.skip("not a git checkout, so files of the project and built files cannot be distinguished")
    listed = run("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", cwd=ROOT)
    for name in filter(None, listed.split("\0")):
        source, copy = ROOT / name, target / name
        copy.parent.mkdir(parents=True, exist_ok=True)
        if source.is_symlink() and links == "plain files":  # as git writes them with core.symlinks=false
            copy.write_text(os.readlink(source))
        elif source.is_symlink() or source.exists():
            shutil.copy2(source, copy, follow_symlinks=False)
    return target


@dataclass(frozen=True)
class Built:
    """A wheel and the environment in which it is installed."""

    wheel: Path
    python: Path
    folder: Path
    """An empty folder to run in."""

    def run(self, *arguments):
        """Run the environment's Python in an empty folder, with other libraries from this environment."""
        borrowed = {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}
        environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
        return run(
            self.python,
            *arguments,
            cwd=self.folder,
            env={**environment, "PYTHONPATH": os.pathsep.join(sorted(borrowed)), "DECABENCH_HOME": "home"},
        )


@pytest.fixture(scope="session", params=["links", pytest.param("plain files", marks=pytest.mark.heavy)])
def built(request, tmp_path_factory):
    """A wheel, built and installed once for all test processes."""
    base = tmp_path_factory.getbasetemp()
    base = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    folder = base / f"wheel of {request.param}"
    with FileLock(base / f"{folder.name}.lock"):
        if not (folder / "empty").exists():
            build(folder, request.param)
    (wheel,) = (folder / "dist").iterdir()
    return Built(wheel, python_of(folder), folder / "empty")


def python_of(folder):
    return folder / "environment" / ("Scripts" if os.name == "nt" else "bin") / "python"


def build(folder, links, compiler=None):
    tree = copy_of_the_tree(folder / "tree", links)
    assert all((tree / "decabench" / name).is_symlink() == (links == "links") for name in LINKS)
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--no-input"]
    environment = os.environ | ({"CC": compiler} if compiler else {})
    run(
        *pip,
        "wheel",
        tree,
        "--no-deps",
        "--no-build-isolation",
        "--no-index",
        "-w",
        folder / "dist",
        env=environment,
    )
    (wheel,) = (folder / "dist").iterdir()
    venv.create(folder / "environment", with_pip=False)
    run(*pip, "--python", python_of(folder), "install", "--no-deps", "--no-index", wheel)
    (folder / "empty").mkdir()


def test_it_holds_the_package_and_nothing_else(built):
    names = zipfile.ZipFile(built.wheel).namelist()
    listed = run("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", cwd=ROOT).split("\0")
    paths = [
        Path(name) for name in listed if name and (ROOT / name).is_file() and not (ROOT / name).is_symlink()
    ]
    expected = {
        path.as_posix() if path.parts[0] == "decabench" else f"decabench/{path.as_posix()}"
        for path in paths
        if path.parts[0] in (*LINKS, "decabench")
    }
    found = {name for name in names if not name.startswith("decabench-0.1.0.dist-info/")}
    assert found - set(compiled(names)) == expected | {"decabench/py.typed"}
    assert built.wheel.stat().st_size < 2 * 2**20


def test_its_description_has_no_relative_links(built):
    text = zipfile.ZipFile(built.wheel).read("decabench-0.1.0.dist-info/METADATA").decode()
    assert text.count("![") >= 3 and not re.search(r"\]\((?!https?:|#)", text)


def compiled(names):
    return [
        name
        for name in names
        if name.startswith("decabench/metrics/_speedups") and name.endswith((".so", ".pyd"))
    ]


def test_it_holds_compiled_code_where_there_is_a_compiler(built):
    if shutil.which("cc") is None or not Path(sysconfig.get_path("include"), "Python.h").exists():
        pytest.skip("needs a C compiler and Python's headers")
    assert compiled(zipfile.ZipFile(built.wheel).namelist()) == ["decabench/metrics/_speedups.abi3.so"]
    assert "-cp311-abi3-" in built.wheel.name
    assert built.run("-c", "from decabench.metrics import _speedups") == ""


@pytest.mark.heavy
def test_it_works_without_a_compiler(tmp_path):
    build(tmp_path, "links", compiler="false")
    (wheel,) = (tmp_path / "dist").iterdir()
    assert compiled(zipfile.ZipFile(wheel).namelist()) == []
    plain = Built(wheel, python_of(tmp_path), tmp_path / "empty")
    assert plain.run("-m", "decabench", "metrics", "selftest").endswith("all agree\n")


def test_what_is_imported_is_what_was_installed(built):
    code = (
        "import json, decabench, decabench.metrics, decabench.tasks, decabench.leaderboard\n"
        "from decabench.metrics import nf1\n"
        "modules = [decabench, decabench.metrics, decabench.tasks, decabench.leaderboard]\n"
        "print(json.dumps([[m.__file__ for m in modules], float(nf1(['the Cat'], [['cat']]))]))\n"
    )
    files, score = json.loads(built.run("-c", code))
    assert score == 100
    environment = built.python.parents[1].resolve()
    assert all(Path(file).resolve().is_relative_to(environment) for file in files)


def test_the_console_works(built):
    script = built.python.with_name("decabench")
    assert script.exists()
    assert "wikisql" in built.run("-m", "decabench", "tasks")
    assert built.run(script, "--version") == "decabench, version 0.1.0\n"


def test_the_selftest_passes(built):
    assert built.run("-m", "decabench", "metrics", "selftest").endswith("all agree\n")


def test_commands_from_prepare_to_leaderboard_work(built):
    done = [
        built.run("-m", "decabench", *line.split())
        for line in (
            "prepare schema --sample",
            "predict --predictor oracle --tasks schema --output submissions/oracle",
            "check --submission submissions/oracle",
            "evaluate --submission submissions/oracle --tasks schema",
            "leaderboard --submissions submissions --output site",
        )
    ]
    assert "100.0 of 100 (1 of 10 tasks)" in done[3]
    assert "oracle" in (built.folder / "site" / "index.html").read_text(encoding="utf-8")
