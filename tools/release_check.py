"""Build the wheel and the source archive, check their contents, and try the wheel on every available Python.

python tools/release_check.py [--python PATH]… [--only PATH] [--output dist]

For each Python, the wheel is installed into an empty environment, where `decabench metrics selftest`, the demo and
`decabench run examples/run.toml` must work. Prints the size of each environment, and the versions that were not found.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
import zipfile
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VERSIONS = ("3.11", "3.12", "3.13", "3.14")
MOST = 310
"""The maximum size of the base install in megabytes, including bytecode but not the empty environment."""
LARGEST = {".whl": 2, ".gz": 5}
"""The maximum sizes of the wheel and the source archive, in megabytes."""

IN_WHEEL = (
    r"decabench/__init__\.py",
    r"decabench/metrics/nf1\.py",
    r"decabench/tasks/sample/SOURCES\.toml",
    r"decabench-[\d.]+\.dist-info/licenses/LICENSE",
)
IN_ARCHIVE = (
    *(
        "LICENSE",
        "README.md",
        "CHANGELOG.md",
        "CITATION.cff",
        "Makefile",
        "constraints.txt",
        "pyproject.toml",
    ),
    *("docs/tutorial.md", "docs/images/board.png", "examples/run.toml", "metrics/nf1.py", "tasks/task.py"),
    *("tests/test_docs.py", "tools/demo.sh", "leaderboard/static/board.css"),
)


def run(*arguments: str | Path, **options: object) -> str:
    """Run a command and return its output. If it fails, exit with the output."""
    done = subprocess.run([str(each) for each in arguments], capture_output=True, text=True, **options)  # type: ignore[call-overload]
    if done.returncode:
        sys.exit(f"{' '.join(map(str, arguments))} failed:\n{done.stdout}{done.stderr}")
    return str(done.stdout)


def build(output: Path) -> tuple[Path, Path]:
    """Build the source archive, then the wheel from it."""
    shutil.rmtree(output, ignore_errors=True)
    run(sys.executable, "-m", "build", "--outdir", output, ROOT)
    (wheel,) = output.glob("*.whl")
    (archive,) = output.glob("*.tar.gz")
    return wheel, archive


def missing(wheel: Path, archive: Path) -> Iterator[str]:
    """Yield the files missing from the wheel or the archive."""
    names = zipfile.ZipFile(wheel).namelist()
    yield from (f"wheel: {each}" for each in IN_WHEEL if not any(re.fullmatch(each, name) for name in names))
    with tarfile.open(archive) as packed:
        found = {name.partition("/")[2] for name in packed.getnames()}
    yield from (f"archive: {each}" for each in IN_ARCHIVE if each not in found)


def pythons(given: list[str]) -> dict[str, str]:
    """Return the path of a Python for each version, searching the given paths, PATH and pyenv."""
    candidates = [*given, *(f"python{version}" for version in VERSIONS)]
    candidates += map(str, sorted(Path("~/.pyenv/versions").expanduser().glob("3.*/bin/python")))
    found: dict[str, str] = {}
    for candidate in candidates:
        code = "import sys; print('%d.%d' % sys.version_info[:2])"
        try:
            done = subprocess.run([candidate, "-c", code], capture_output=True, text=True)
        except OSError:
            continue
        version = done.stdout.strip()
        if done.returncode == 0 and version in VERSIONS:
            found.setdefault(version, candidate)
    return dict(sorted(found.items()))


def megabytes(folder: Path) -> float:
    """Return the disk usage of a folder in megabytes."""
    return sum(path.lstat().st_blocks for path in folder.rglob("*")) * 512 / 2**20


def attempt(python: str, package: Path, folder: Path) -> str:
    """Install a package into an empty environment, run some commands, and return a description of the result."""
    run(python, "-m", "venv", folder / "venv")
    before = megabytes(folder / "venv")
    tool = folder / "venv" / "bin"
    pip = [tool / "python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    run(*pip, "--constraint", ROOT / "constraints.txt", package)
    size = megabytes(folder / "venv") - before
    work = folder / "work"
    work.mkdir()
    for name in ("examples", "tools"):
        shutil.copytree(ROOT / name, work / name)
    clean = {
        name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "DECABENCH"))
    }
    environment = {**clean, "PATH": f"{tool}{os.pathsep}{os.environ['PATH']}"}
    checked = run(tool / "decabench", "metrics", "selftest", cwd=work, env=environment).splitlines()[-1]
    demo = run("sh", "tools/demo.sh", cwd=work, env=environment)
    example = run(tool / "decabench", "run", "examples/run.toml", cwd=work, env=environment)
    if not all("against majority" in shown and "Board: " in shown for shown in (demo, example)):
        sys.exit(f"The demo or the example did not show a comparison and a board:\n{demo}{example}")
    if size > MOST:
        sys.exit(f"The base install takes {size:.0f} MB, more than the limit of {MOST} MB.")
    return f"{size:.0f} MB, {checked}, demo and examples/run.toml done"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--python", action="append", default=[], help="an additional Python to try")
    parser.add_argument("--only", action="append", default=[], help="try only this Python; can be repeated")
    parser.add_argument("--output", type=Path, default=ROOT / "dist")
    given = parser.parse_args()
    wheel, archive = build(given.output)
    for each in (wheel, archive):
        print(f"{each.name}: {(size := each.stat().st_size / 2**20):.1f} MB")
        if size > (most := LARGEST[each.suffix]):
            sys.exit(f"{each.name} has {size:.1f} MB, more than the limit of {most} MB.")
    if absent := list(missing(wheel, archive)):
        sys.exit("Missing from " + "\nMissing from ".join(absent))
    version = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    if not wheel.name.startswith(f"decabench-{version}-"):
        sys.exit(f"{wheel.name} does not have the version {version} of pyproject.toml.")
    # A compiled wheel doesn't fit every Python, so each Python builds its own from the archive.
    installed = wheel if wheel.name.endswith("-none-any.whl") else archive
    found = {f"at {python}": python for python in given.only} or pythons(given.python)
    for name, python in found.items():
        with tempfile.TemporaryDirectory(prefix="decabench-release-") as folder:
            print(f"Python {name}: {attempt(python, installed, Path(folder))}", flush=True)
    if absent := [name for name in VERSIONS if name not in found and not given.only]:
        print(f"Not tried because not installed: Python {', '.join(absent)}")
    if not found:
        sys.exit(1)


if __name__ == "__main__":
    main()
