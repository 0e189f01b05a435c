"""Train from a bundle on a GPU, in commands that keep within limits: minutes,
number of files, size of each file.

    python run.py smoke  BUNDLE --trust HEX --out one
        Train 100 steps in each mode, then five tasks side by side.
    python run.py joint  BUNDLE --trust HEX --out two
        Train all tasks together until the time is up, and write a state.
    python run.py joint  BUNDLE --trust HEX --out three --state two
        Train further, as often as you like; the last time with --last, with
        which the learning rate falls to zero.
    python run.py answer BUNDLE --trust HEX --out four --state three
        Write the weights, and answer every question. If the time was too
        short, go on with --answered four.

BUNDLE is a folder that `decabench train --bundle` wrote. Needs only torch,
numpy and safetensors: model and training loop are decabench's own, from the
bundle's code.zip. That is code, so run only a bundle that you made: HEX is the
beginning of the digest of code.zip, which `decabench train --bundle` printed.
"""

from __future__ import annotations

import argparse
import ast
import atexit
import difflib
import gc
import gzip
import hashlib
import importlib
import io
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import textwrap
import time
import types
import zipfile
import zlib
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import Any, NoReturn, cast

SINGLE = ("sst", "woz.en", "srl", "wikisql", "squad")
"""Tasks to train one at a time, side by side."""
NO_TASKS = "none"
"""For the option --tasks of smoke: try the modes alone."""
MODES = {
    "float32": ("float32", False, False),
    "bfloat16": ("bfloat16", False, False),
    "compiled": ("float32", True, False),
    "graphs": ("float32", False, True),
}
"""Name to precision, whether to compile the decoder's step, and whether to record its loop as CUDA graphs.

An H200 took up to some seconds for each of the first steps in bfloat16, probably to load kernels for new sizes.
"""
ANSWERED = "answered.json.gz"
"""What was answered when the time was over, and of which weights, to go on from."""
LOG = "train.csv.gz"
"""The log of a state, which grows with each step: some 50 bytes, and a third of that in the file."""
ENDLESS = 10**9
"""More steps than there is time for."""
COOLS_FROM = 0.6
"""The share of its time after which a run on one task cools down, if it would not reach its last step."""
FOR_ANSWERS = 0.2
"""The share of the time of a run on one task that its answers have."""
LAST_STEPS = 500
"""How many steps before its end say how fast a run is."""
TRUSTED = 16
"""How many digits of a digest at least say that code is trusted."""
FILE_SIZE = 100_000
"""The least size that weights can be split into."""
RECORD, OPTIMIZER = "checkpoint.json", "optimizer.safetensors"
"""Files of a state; one that `answer` wrote has no optimizer."""
FIXED = ("tasks", "vectors", "init", "model.name")
"""Settings that a bundle was written for."""
FREE = frozenset({"init", "precision", "compile", "graphs"})
"""Settings in which a state may differ from the bundle: its mode is compared by itself."""


# decabench's own code, and what stands in for the packages that it imports


def use_code(bundle: Path, trust: str) -> None:
    """Make the bundle's decabench importable, if its digest begins with `trust`."""
    path = bundle / "code.zip"
    if not bundle.is_dir():
        raise SystemExit(f"There is no folder {bundle}: give the one that decabench train --bundle wrote.")
    if not path.is_file():
        raise SystemExit(f"{bundle} is not a bundle: it has no code.zip. Copy all of its files.")
    code = path.read_bytes()
    digest = hashlib.sha256(code).hexdigest()
    if len(trust) < TRUSTED or not digest.startswith(trust.lower()):
        given = f"is not the code that --trust {trust} names" if trust else "would be run"
        raise SystemExit(
            f"{path} {given}: its digest is {digest}. Run only a bundle that you made: give --trust and the "
            f"{TRUSTED} digits or more that decabench train --bundle printed."
        )
    folder = Path(tempfile.mkdtemp(prefix="bundle-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    with zipfile.ZipFile(io.BytesIO(code)) as archive:
        archive.extractall(folder)
    sys.path.insert(0, str(folder))
    for name, make in {"lazy_loader": _lazy_loader, "msgspec": _msgspec, "tomli_w": _tomli_w}.items():
        try:
            importlib.import_module(name)
        except ImportError:
            sys.modules[name] = make()


def _lazy_loader() -> Any:
    """Load a package's names on first use, as its `__init__.pyi` lists them."""

    def attach_stub(package: str, file: str) -> tuple[Any, Any, list[str]]:
        stub = ast.parse(Path(file).with_suffix(".pyi").read_text(encoding="utf-8"))
        homes = {
            alias.name: f"{package}.{node.module}"
            for node in stub.body
            if isinstance(node, ast.ImportFrom)
            for alias in node.names
        }

        def load(name: str) -> Any:
            if name not in homes:
                raise AttributeError(f"module {package!r} has no attribute {name!r}")
            return getattr(importlib.import_module(homes[name]), name)

        return load, lambda: sorted(homes), sorted(homes)

    made: Any = types.ModuleType("lazy_loader")
    made.attach_stub = attach_stub
    return made


def _msgspec() -> Any:
    """Convert JSON values to dataclasses. It trusts them: what is read here was written here."""

    def convert(value: Any, kind: Any) -> Any:
        if not is_dataclass(kind):
            return value
        names = {field.name for field in fields(kind)}
        return kind(
            **{
                name: tuple(own) if isinstance(own, list) else own
                for name, own in value.items()
                if name in names
            }
        )

    made: Any = types.ModuleType("msgspec")
    made.convert = convert
    made.ValidationError = ValueError
    made.json = types.SimpleNamespace(decode=lambda text, type: json.loads(text))
    return made


def _tomli_w() -> Any:
    """Write TOML: tables inline, everything else as JSON, which TOML reads alike."""

    def value(given: Any) -> str:
        if isinstance(given, dict):
            return f"{{{', '.join(f'{json.dumps(key)} = {value(own)}' for key, own in given.items())}}}"
        if isinstance(given, (list, tuple)):
            return f"[{', '.join(map(value, given))}]"
        return json.dumps(given)

    made: Any = types.ModuleType("tomli_w")
    made.dumps = lambda table: "".join(f"{json.dumps(key)} = {value(own)}\n" for key, own in table.items())
    return made


# What the commands share


class Clock:
    """The time that a command has."""

    def __init__(self, minutes: float) -> None:
        self.begun, self.seconds = time.perf_counter(), 60 * minutes

    def left(self, reserve: float = 0.0) -> float:
        """Seconds left, without a share in reserve for what comes last; at least one."""
        return max(1.0, self.seconds * (1 - reserve) - (time.perf_counter() - self.begun))

    def has(self, seconds: float) -> bool:
        """Whether so many seconds are left, and a twentieth of all time in reserve for writing."""
        return time.perf_counter() - self.begun + seconds < 0.95 * self.seconds


class Ended(SystemExit):
    """Raised by the first Ctrl-C or SIGTERM, so that what was done is still written."""

    def __str__(self) -> str:
        number = signal.Signals(cast(int, self.code) - 128)
        return "Ctrl-C" if number == signal.SIGINT else number.name


SIGNALS = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]
CHILDREN: list[Any] = []
"""The processes that train tasks side by side."""


def end_at_once(number: int, frame: object) -> None:
    """End this process and those that it began, at the second Ctrl-C; other signals are no reason to lose results."""
    if number != signal.SIGINT:
        return
    for child in CHILDREN:
        child.kill()
    os._exit(128 + number)


def heed_no_more() -> None:
    """Let results be written: only a second Ctrl-C ends the process, and at once."""
    for each in SIGNALS:
        signal.signal(each, end_at_once)


def end_on_signals() -> None:
    """Let Ctrl-C, SIGTERM and a terminal that is closed raise Ended.

    Not while a model trains: there the first one ends the run after a step. An exception in the middle of a step may
    leave a lock of its threads taken, with which the process never ends.
    """

    def end(number: int, frame: object) -> NoReturn:
        heed_no_more()
        raise Ended(128 + number)

    for each in SIGNALS:
        if signal.getsignal(each) != signal.SIG_IGN:  # as a shell has it for what runs in the background
            signal.signal(each, end)


def wrap(text: str, indent: str = "") -> str:
    """Wrap text to the terminal, and to 80 columns in a wider one; paths stay whole."""
    width = min(80, shutil.get_terminal_size().columns)
    return textwrap.fill(
        text, max(20, width), subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )


def say(text: str) -> None:
    try:
        print(wrap(text, "  ") + "\n", end="", flush=True)  # at once, as several processes print side by side
    except OSError:  # the terminal was closed: what is written counts
        pass


def short(value: float | None) -> str:
    """Show a number with three or four digits."""
    if value is None:
        return "-"
    if 1000 <= abs(value) < 1e12:
        return f"{float(f'{value:.4g}'):,.0f}"
    return f"{value:.3g}"


def say_table(rows: Sequence[Sequence[str]]) -> None:
    """Print rows, of which the first is the head, with aligned columns."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for first, *others in rows:
        cells = [
            first.ljust(widths[0]),
            *(cell.rjust(width) for cell, width in zip(others, widths[1:], strict=True)),
        ]
        print("  ".join(cells).rstrip(), flush=True)


def pick_names(option: str, given: str, known: Iterable[str]) -> list[str]:
    """Read the names, separated by commas, that an option gives. Raises SystemExit if one is not known."""
    names = list(dict.fromkeys(filter(None, map(str.strip, given.split(",")))))
    unknown = [name for name in names if name not in known]
    if names and not unknown:
        return names
    near = difflib.get_close_matches(unknown[0], list(known), 1) if unknown else []
    raise SystemExit(
        f"{option} {given!r} names {', '.join(unknown) or 'nothing'}"
        f"{f' (did you mean {near[0]}?)' if near else ''}: give one or more of {', '.join(known)}, separated by commas."
    )


def read_settings(text: str) -> dict[str, Any]:
    """Read the option --set. Raises SystemExit."""
    try:
        settings = json.loads(text)
    except (ValueError, RecursionError):
        settings = None
    if not isinstance(settings, dict):
        raise SystemExit(
            f"--set {text} is not a JSON object: give settings by name, such as "
            """--set '{"steps": 2000, "learning_rate": 0.001}'."""
        )
    if fixed := [name for name in FIXED if name in spread(settings)]:
        raise SystemExit(
            f"--set {text} changes {' and '.join(fixed)}, which the bundle was written for: leave it out, or write "
            "another bundle."
        )
    if isinstance(seed := settings.get("seed"), int) and seed >= 2**63:
        raise SystemExit(f"--set {text} has a seed that torch cannot take: give one below 2**63.")
    return settings


def check_mode(mode: str, settings: dict[str, Any]) -> None:
    """Check that a mode and the settings of the option --set do not contradict each other. Raises SystemExit."""
    tables = [settings, *(value for value in settings.values() if isinstance(value, dict))]
    given = [name for name in ("precision", "compile", "graphs") if any(name in table for table in tables)]
    if mode and given:
        raise SystemExit(
            f"--mode {mode} and --set both say {' and '.join(given)}: leave it out of one of the two."
        )


def spread(settings: dict[str, Any]) -> dict[str, Any]:
    """Write the settings of the model one by one, as `model.dropout`."""
    made: dict[str, Any] = {}
    for name, value in settings.items():
        is_table = name == "model" and isinstance(value, dict)
        made |= {f"model.{key}": own for key, own in value.items()} if is_table else {name: value}
    return made


def reduce_bundle(bundle: Any, task: str, settings: str) -> Any:
    """Reduce a bundle to one task, with the settings that the option --set gives for all and for it.

    Raises SystemExit.
    """
    from decabench.errors import DecabenchError
    from decabench.tasks import TASKS

    given, known = read_settings(settings), bundle.config.tasks
    for name in given.keys() & TASKS.keys():
        if name not in known:
            raise SystemExit(
                f"--set {settings} has settings of {name}, which the bundle does not have: give those of one or more "
                f"of {', '.join(known)}."
            )
        if not isinstance(given[name], dict):
            raise SystemExit(
                f"--set {settings} gives {json.dumps(given[name])} for {name}: give the settings of a task by name, "
                f"""such as --set '{{"{name}": {{"batch_tokens": 3000}}}}'."""
            )
    own = spread({name: value for name, value in given.items() if name not in known})
    own |= spread(read_settings(json.dumps(given.get(task, {}))))
    try:
        return bundle.only(task, own)
    except DecabenchError as error:
        raise SystemExit(f"--set {settings} cannot be used for {task}: {error}") from error


def require_writable(out: Path) -> None:
    """Check that results can be written to a new or empty folder, and leave no trace of that. Raises SystemExit."""
    made: list[Path] = []
    try:
        made = [folder for folder in (out, *out.parents) if not folder.exists()]
        out.mkdir(parents=True, exist_ok=True)
        if any(out.iterdir()):
            raise SystemExit(f"--out {out} is not empty: name another folder.")
        with tempfile.TemporaryFile(dir=out):
            pass
    except OSError as error:
        raise SystemExit(
            f"--out {out} cannot be written ({error.strerror}): name a new folder in one that you can write to."
        ) from error
    finally:
        for folder in made:
            with suppress(OSError):
                folder.rmdir()


def open_state(folder: Path, bundle: Any, goes_on: bool) -> Any:
    """Open a state that joint wrote, to go on from it or to answer with it. Raises SystemExit, DecabenchError."""
    from decabench.models import Checkpoint
    from decabench.training.resume import changed_settings

    if not folder.is_dir():
        advice = ", or leave --state out to begin anew" if goes_on else ""
        raise SystemExit(
            f"There is no folder {folder}: give a state, which is the folder that run.py joint wrote, as --state"
            f"{advice}."
        )
    if not (folder / RECORD).is_file():
        raise SystemExit(
            f"{folder} is not a state, as it has no {RECORD}: give the folder that run.py joint wrote as --state, "
            "with all of its files."
        )
    checkpoint = Checkpoint.open(folder)
    if not goes_on:
        return checkpoint
    checkpoint.check_files(optimizer=True)
    if checkpoint.record.config.get("cooldown"):  # joint has none but for --last
        raise SystemExit(
            f"{folder} is the state of a run that has ended (--last): answer with it, or go on from the state before "
            "it."
        )
    if checkpoint.record.state is None:
        raise SystemExit(
            f"{folder} has the weights that run.py answer wrote, and no state: give the folder that run.py joint wrote "
            "as --state."
        )
    if missing := [name for name in (OPTIMIZER, LOG) if not (folder / name).is_file()]:
        raise SystemExit(
            f"The state {folder} lacks {' and '.join(missing)}: copy all of the files that run.py joint wrote."
        )
    lexicon = bundle.data.lexicon
    if (
        checkpoint.record.data != bundle.record["data"]
        or checkpoint.record.vectors != bundle.record["vectors"]["digest"]
        or checkpoint.lexicon().words != lexicon.words[: lexicon.size]
    ):
        raise SystemExit(
            f"{folder} was trained on other data than the bundle {bundle.folder} has: give the bundle that it was "
            "trained on, or leave --state out to begin anew."
        )
    if changed := changed_settings(checkpoint, bundle.config, FREE):
        raise SystemExit(
            f"{folder} was trained with other settings than the bundle {bundle.folder} has "
            f"({', '.join(sorted(changed))}): give the bundle that it was trained on."
        )
    return checkpoint


def copy_state(state: Path, folder: Path, optimizer: str) -> str:
    """Copy a state to where a run goes on from it, and return its log. Raises SystemExit, DecabenchError."""
    from safetensors.torch import save_file

    from decabench.models import load_optimizer, load_weights

    kept, weights = load_optimizer(state), load_weights(state)
    try:
        grown = grow(kept, weights, optimizer)
        log = gzip.decompress((state / LOG).read_bytes()).decode()
    except (OSError, EOFError, ValueError, KeyError, zlib.error) as error:
        raise SystemExit(
            f"The state {state} is damaged ({type(error).__name__}: {error}): give an unchanged copy of what run.py "
            "joint wrote."
        ) from error
    shutil.copytree(state, folder, ignore=shutil.ignore_patterns(LOG, OPTIMIZER))
    save_file(grown, folder / OPTIMIZER)
    record_digests(folder)
    return log


def record_digests(folder: Path) -> None:
    """Write the digests of a checkpoint's files, of which the optimizer's was written last, to its record."""
    from decabench.models import digest_files, write_json

    record = json.loads((folder / RECORD).read_text(encoding="utf-8"))
    write_json(folder / RECORD, {**record, "files": digest_files(folder)})


def train(bundle: Any, folder: Path, seconds: float, options: Any, **settings: Any) -> Any:
    """Train until the run ends or its time is over, from the folder's checkpoint if it has one; return the last."""
    from decabench.models import latest_checkpoint
    from decabench.tasks import Store
    from decabench.training import TrainingInterrupted, TrainingRun, run_training

    config = replace(bundle.config, **{"checkpoint_every": ENDLESS, **settings})
    run = TrainingRun(
        config=config,
        tasks=bundle.tasks,
        store=Store(folder),
        output=folder,
        device=options.device,
        resume=True,
        report=say,
        bundle=bundle,
        stop_after=seconds,
        after_signal=end_at_once,
    )
    try:
        run_training(run)
    except TrainingInterrupted as end:  # it has written the state of its last step
        heed_no_more()
        raise Ended(end.exit_code) from None
    return latest_checkpoint(folder)


def mode_settings(config: Any, mode: str) -> dict[str, Any]:
    """Return what a mode sets: the configuration's own, if none is named."""
    from decabench.models import pick_precision

    precision, compiled, graphs = MODES.get(mode, (config.precision, config.compile, config.graphs))
    return {"precision": pick_precision(precision), "compile": compiled, "graphs": graphs}


def ends_by_itself(config: Any) -> bool:
    """Whether a run is counted in epochs or phases, which say where it ends."""
    return bool(config.schedule == "sequential" or config.epochs or config.phases)


def cooldown(step: int, rate: float, seconds: float) -> dict[str, Any]:
    """Return settings with which a run ends after `step` in a cooldown of as many steps as fit into the time.

    If it turns out slower than `rate` steps a second, the clock ends it before.
    """
    left = max(1, int(0.9 * rate * seconds))
    say(f"The last {left:,} steps, in which the learning rate falls to zero, at {rate:.1f} steps a second.")
    return {"steps": step + left, "cooldown": left}


def write_weights(bundle: Any, checkpoint: Any, out: Path, options: Any, keep_state: bool) -> None:
    """Write a checkpoint in half precision and in shards. Its vectors are the bundle's, and are not repeated."""
    from decabench.models import PortableVectors, load_weights, write_portable

    out.mkdir(parents=True, exist_ok=True)
    names = tuple(Path(name).name for name in bundle.config.vectors)
    vectors = PortableVectors(names, checkpoint.record.vectors, len(bundle.data.lexicon))
    record = checkpoint.record if keep_state else replace(checkpoint.record, state=None)
    checkpoint.lexicon().write(out / "vocabulary.json")
    write_portable(out, record, load_weights(checkpoint.folder), vectors, True, options.file_size)


def answer(
    bundle: Any, weights: Path, work: Path, options: Any, clock: Clock, tasks: list[str], name: str
) -> list[str]:
    """Answer validation questions with written weights, task by task while there is time; write a submission.

    What an earlier command answered with the same weights is not asked again. Returns the tasks that there was no time
    for; what was answered of them, and of all others, is then in a file beside the weights, to go on from.
    """
    from decabench.models import Checkpoint, pick_precision
    from decabench.predictors.protocol import ModelOptions
    from decabench.predictors.trained import backend
    from decabench.submission import SubmissionInfo, write_submission
    from decabench.vectors import WordTable

    model_folder = work / name
    model_folder.mkdir(parents=True, exist_ok=True)
    own_vectors = [Path(path) for path in bundle.config.vectors if ":" not in path or Path(path).exists()]
    beside = [path.with_suffix(".txt") for path in own_vectors if path.suffix == ".npy"]
    for path in (*weights.iterdir(), *own_vectors, *beside):
        if path.is_file():
            shutil.copy(path, model_folder / path.name)
    checkpoint = Checkpoint.open(model_folder)
    words = WordTable(bundle.data.lexicon, checkpoint.open_vectors())
    if checkpoint.lexicon().words != bundle.data.lexicon.words[: bundle.data.lexicon.size]:
        raise SystemExit(
            f"{weights} has another vocabulary than the bundle: give the bundle it was trained on."
        )
    model = checkpoint.load(options.device, options.precision, words)
    precision = pick_precision(options.precision)
    lines = {task: {} for task in tasks}
    lines |= read_answers(options.answered, checkpoint.digest(), precision, bundle)
    try:
        for task in sorted(lines, key=lambda task: len(bundle.validation[task])):
            ask(model, bundle, task, lines[task], options, clock)
    finally:  # what was answered before an error counts all the same
        ids = {task: bundle.questions(task)[0] for task in lines}
        missing = [task for task in lines if len(lines[task]) < len(ids[task])]
        if missing and options.command == "answer":
            text = json.dumps({"weights": checkpoint.digest(), "precision": precision, "lines": lines})
            (weights / ANSWERED).write_bytes(gzip.compress(text.encode(), mtime=0))
        done = {
            (task, "validation"): [lines[task][id_] for id_ in ids[task]]
            for task in lines
            if task not in missing
        }
        if done:
            described = backend(str(model_folder), ModelOptions(device=options.device)).describe()
            info = SubmissionInfo(
                name=name,
                description=f"{bundle.config.model.name} trained on {', '.join(bundle.config.tasks)} from a bundle.",
                predictor={
                    "name": f"trained:{name}",
                    "decabench": bundle.record["decabench"],
                    "seed": bundle.config.seed,
                    "backend": {**described, "precision": precision},
                },
                data={f"{task}.{split}": bundle.record["data"][f"{task}.{split}"] for task, split in done},
            )
            write_submission(work / "submissions" / name, info, done)
    return missing


def ask(model: Any, bundle: Any, task: str, answered: dict[str, Any], options: Any, clock: Clock) -> None:
    """Answer the questions of a task that are not answered yet, short ones first, while there is time."""
    data = bundle.validation[task]
    ids, kept = bundle.questions(task)
    order = sorted(range(len(ids)), key=lambda row: sum(map(len, data.item(row).values())))
    left = [row for row in order if ids[row] not in answered]
    took = 0.0
    for start in range(0, len(left), options.window):
        if not clock.has(1.5 * took):  # the next questions are longer
            break
        begun = time.perf_counter()
        rows = left[start : start + options.window]
        items = [data.item(row) for row in rows]
        found = model.answer_items(bundle.tasks[task], items, batch_tokens=options.batch_tokens)
        for row, reply in zip(rows, found, strict=True):
            answered[ids[row]] = line(ids[row], reply, kept[row])
        took = time.perf_counter() - begun
    say(f"{task}: {len(answered):,} of {len(ids):,} questions answered")


def find_answers(folder: Path) -> Path:
    """Find what an earlier command answered when its time was over. Raises SystemExit."""
    if not folder.is_dir():
        raise SystemExit(f"There is no folder {folder}: give the one that run.py answer wrote as --answered.")
    path = folder / ANSWERED
    if not path.is_file():
        raise SystemExit(
            f"{path} is not there: that command had time for all of its tasks. Leave --answered out."
        )
    return path


def read_answers(folder: Path | None, weights: str, precision: str, bundle: Any) -> dict[str, dict[str, Any]]:
    """Read what an earlier command answered with the same weights and precision: lines by id, by task."""
    if folder is None:
        return {}
    path = find_answers(folder)
    try:
        record = json.loads(gzip.decompress(path.read_bytes()))
        given, lines = (record["weights"], record["precision"]), dict(record["lines"])
        for task, own in lines.items():
            if task not in bundle.validation or not own.keys() <= set(bundle.questions(task)[0]):
                raise ValueError(f"its questions of {task} are not the bundle's")
            if any(not isinstance(row, dict) or row.get("id") != name for name, row in own.items()):
                raise ValueError(f"its lines of {task} are not of the questions that they stand for")
    except (OSError, EOFError, ValueError, KeyError, TypeError, AttributeError, zlib.error) as error:
        raise SystemExit(
            f"{path} cannot be gone on from ({type(error).__name__}: {error}): give an unchanged copy of what run.py "
            "answer wrote with this bundle, or leave --answered out."
        ) from error
    for name, was, now in zip(("weights", "precision"), given, (weights, precision), strict=True):
        if was != now:
            raise SystemExit(
                f"The answers in {path} were given with other {name} ({was}) than these ({now}): give the same --state "
                "and --precision as then, or leave --answered out."
            )
    return lines


def line(id_: str, reply: Any, kept: int | None) -> dict[str, Any]:
    """A line of a submission."""
    made = {"id": id_, "answer": reply.text, "finish": "stop" if reply.finished else "length"}
    if kept is not None:
        made["context_kept"] = [0, kept]
    return {**made, "prompt_tokens": reply.read, "completion_tokens": reply.said}


def zip_folder(folder: Path, path: Path) -> None:
    """Write the files of a folder to an archive."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for file in sorted(folder.rglob("*")):
            if file.is_file():
                archive.write(file, file.relative_to(folder))


def split_file(path: Path, size: int) -> None:
    """Split a file larger than `size` into `NAME.1`, `NAME.2`, ...: `cat NAME.*` joins them."""
    if path.stat().st_size <= size:
        return
    with path.open("rb") as file:
        for number in range(1, -(-path.stat().st_size // size) + 1):
            path.with_name(f"{path.name}.{number}").write_bytes(file.read(size))
    path.unlink()


def check_out(options: Any) -> None:
    """Check that what was written keeps within the limits."""
    sizes = {path.name: path.stat().st_size for path in options.out.iterdir()}
    if len(sizes) > options.files or max(sizes.values()) > options.file_size:
        raise SystemExit(
            f"{options.out} has {len(sizes)} files of up to {max(sizes.values()):,} bytes: more than --files "
            f"{options.files} or --file-size {options.file_size:,}. Train a smaller model, or raise the limits."
        )
    say(f"{options.out}: {len(sizes)} files, {sum(sizes.values()) / 1e6:.1f} MB")


# The optimizer's state, in a few bytes

MEANS = ("/mean-of-rows", "/mean-of-columns")


def shrink(state: dict[str, Any]) -> dict[str, Any]:
    """Keep of Adam's squared gradients the means of rows and columns, and of its gradients nothing.

    With the paper's beta2 of 0.98 they remember some fifty steps, and gradients ten: not worth twice the size of the
    weights. A matrix is restored from its means as in Adafactor (Shazeer and Stern 2018, section 3).
    """
    kept = {}
    for name, value in state.items():
        if name.endswith(("/exp_avg", "/momentum_buffer")):
            continue
        if value.ndim == 2:
            kept[name + MEANS[0]], kept[name + MEANS[1]] = value.mean(1), value.mean(0)
        else:
            kept[name] = value
    return kept


def grow(kept: dict[str, Any], weights: dict[str, Any], optimizer: str) -> dict[str, Any]:
    """Restore what `shrink` kept."""
    import torch

    state = {}
    for name, value in kept.items():
        if name.endswith(MEANS[0]):
            bare = name.removesuffix(MEANS[0])
            columns = kept[bare + MEANS[1]]
            state[bare] = value[:, None] * columns[None, :] / value.mean().clamp_min(1e-30)
        elif not name.endswith(MEANS[1]):
            state[name] = value
    # SGD begins anew by itself.
    for name in {name.rpartition("/")[0] for name in state} if optimizer == "adam" else ():
        state[f"{name}/exp_avg"] = torch.zeros_like(weights[name])
    return state


# The commands


def smoke(bundle: Any, options: Any, clock: Clock, work: Path) -> list[str]:
    """Train some steps in each mode, and compare losses with the CPU's; then train tasks side by side.

    Returns the modes and tasks that failed.
    """
    import torch

    from decabench.models import pick_device

    modes, known = pick_names("--modes", options.modes, MODES), bundle.config.tasks
    if options.tasks == NO_TASKS:
        tasks = []
    elif options.tasks:
        tasks = pick_names("--tasks", options.tasks, known)
    else:
        tasks = [task for task in SINGLE if task in known] or list(known[: len(SINGLE)])
    for task in tasks:  # not only in its process, minutes later
        reduce_bundle(bundle, task, options.set)
    device = pick_device(options.device)
    on_gpu = device.type == "cuda"
    report: dict[str, Any] = {
        "device": torch.cuda.get_device_name(device) if on_gpu else "cpu",
        "torch": torch.__version__,
        "modes": {},
        "single": {},
    }
    options.out.mkdir(parents=True, exist_ok=True)
    try:
        for number, mode in enumerate(modes):
            if on_gpu:
                torch.cuda.reset_peak_memory_stats(device)
            share = Clock(clock.left(0.6 if tasks else 0.05) / (len(modes) - number) / 60)
            found = report["modes"][mode] = {}
            try:
                try_mode(bundle, mode, options, share, work / mode, device, found)
            except Exception as error:  # such as no compiler: the others are worth knowing all the same
                found["error"] = f"{type(error).__name__}: {error}"[:500]
                say(f"{mode} failed ({found['error'][:300]}); the other modes go on.")
            if on_gpu:
                found["gigabytes"] = torch.cuda.max_memory_allocated(device) / 1e9
                gc.collect()  # the network with its graphs, or the next mode would begin with its memory
                torch.cuda.empty_cache()
            say(f"{mode}: {describe(found)}")
        if tasks:
            report["single"] |= train_beside(tasks, options, clock, work)
            pack_runs(report, options, work)
    finally:  # also if it is ended
        (options.out / "report.json").write_text(json.dumps(report, indent=1) + "\n")
    say_report(report)
    failed = [mode for mode, found in report["modes"].items() if "error" in found]
    return failed + [task for task, found in report["single"].items() if found["exit"]]


def describe(found: dict[str, Any]) -> str:
    """Describe what `measure` found in a sentence."""
    if "steps a second" not in found:
        return "no step was made"
    return (
        f"step {found['steps']:,}, {short(found['steps a second'])} steps, {short(found['examples a second'])} "
        f"examples and {short(found['target tokens a second'])} target tokens a second; loss "
        f"{short(found['mean loss of the second half'])} in the second half"
    )


def say_report(report: dict[str, Any]) -> None:
    """Print tables of modes and tasks."""
    columns = {
        "steps": "steps",
        "steps/s": "steps a second",
        "examples/s": "examples a second",
        "tokens/s": "target tokens a second",
        "loss": "mean loss of the second half",
    }
    numbers = {
        kind: {
            name: [short(found.get(key)) for key in columns.values()] for name, found in report[kind].items()
        }
        for kind in ("modes", "single")
    }
    rows = [["mode", *columns, "off CPU", "GB"]]
    for mode, found in report["modes"].items():
        off = [abs(own["loss"]) for own in found.get("difference from the CPU", {}).values()]
        rows.append(
            [mode, *numbers["modes"][mode], short(max(off, default=None)), short(found.get("gigabytes"))]
        )
    say_table(rows)
    say("(off CPU: the largest relative difference of a task's loss from the CPU's)")
    if report["single"]:
        rows = [["task", *columns, "exit"]]
        rows += [
            [task, *numbers["single"][task], str(found["exit"])] for task, found in report["single"].items()
        ]
        say_table(rows)


def try_mode(
    bundle: Any, mode: str, options: Any, clock: Clock, folder: Path, device: Any, found: dict[str, Any]
) -> None:
    """Compare a mode's losses with the CPU's, then train some steps in it; put what is found into `found`."""
    from decabench.training import compare_losses, in_steps

    precision, compiled, graphs = MODES[mode]
    losses = compare_losses(bundle, device, precision, compiled, graphs)
    found["difference from the CPU"] = {
        task: {key: value / bundle.record["losses"][task][key] - 1 for key, value in own.items()}
        for task, own in losses.items()
    }
    # Most of the first hundred steps record a graph: the second half of more says what replaying them brings.
    steps = options.steps * (5 if graphs else 1)
    found["steps asked for"] = steps
    brief = replace(bundle, config=in_steps(bundle.config, steps))
    train(brief, folder, clock.left(), options, precision=precision, compile=compiled, graphs=graphs)
    found |= measure(folder)


def train_beside(tasks: list[str], options: Any, clock: Clock, work: Path) -> dict[str, dict[str, Any]]:
    """Train tasks side by side, each in a process of its own; return what became of each."""
    flags = ["--minutes", str(clock.left(0.05) / 60), "--device", options.device]
    flags += ["--file-size", str(options.file_size), "--trust", options.trust]
    flags += ["--precision", options.precision, "--set", options.set]
    flags += ["--mode", options.mode] if options.mode else []
    found: dict[str, dict[str, Any]] = {task: {} for task in tasks}
    children: dict[str, Any] = {}
    try:
        for task in tasks:
            command = [sys.executable, __file__, "single", str(options.bundle)]
            command += ["--tasks", task, "--out", str(work / "runs" / task), *flags]
            # Ctrl-C is for this process, which has them end: they would not know which of two signals is the first.
            children[task] = subprocess.Popen(command, start_new_session=True)
            CHILDREN.append(children[task])
        for task, child in children.items():
            try:
                found[task]["exit"] = child.wait(clock.left(0.02))
            except subprocess.TimeoutExpired:
                child.terminate()
                found[task]["exit"] = child.wait()
                say(f"{task} took too long, and was ended.")
            else:
                if child.returncode:
                    code = child.returncode
                    say(f"{task} failed, exit code {code}: the reason stands above. The others go on.")
            log = work / "runs" / task / "run"
            if (log / "train.csv").is_file():
                found[task] |= measure(log)
                found[task]["answered"] = (work / "runs" / task / "submissions").is_dir()
                shutil.rmtree(log / "checkpoints", ignore_errors=True)
    finally:
        for child in children.values():
            if child.poll() is None:
                child.terminate()  # all of them, before any is waited for
        for child in children.values():
            child.wait()
    return found


def pack_runs(report: dict[str, Any], options: Any, work: Path) -> None:
    """Pack the single runs, without weights that do not fit."""
    room = (options.files - 1) * options.file_size - 100_000
    runs = [folder for folder in (work / "runs").glob("*") if folder.is_dir()]
    for folder in sorted(runs, key=lambda folder: folder_size(folder / "weights")):
        room -= folder_size(folder)
        if room < 0:  # the submission is kept, the weights are not
            report["single"][folder.name]["left out"] = "its weights, which are larger than what is left"
            room += folder_size(folder / "weights")
            shutil.rmtree(folder / "weights")
    zip_folder(work / "runs", options.out / "runs.zip")
    split_file(options.out / "runs.zip", options.file_size)


def measure(folder: Path, after: int = 0) -> dict[str, Any]:
    """Read a run's log after a step: how fast it was in the second half of that, and its loss."""
    from decabench.training.logs import read_rows

    rows = [row for row in read_rows(folder / "train.csv") if int(row["step"]) > after]
    if not rows:
        return {"steps": after}
    half = rows[len(rows) // 2 :]
    seconds = sum(float(row["seconds"]) for row in half)
    return {
        "steps": int(rows[-1]["step"]),
        "steps a second": len(half) / max(seconds, 1e-9),
        "examples a second": sum(int(row["examples"]) for row in half) / max(seconds, 1e-9),
        "target tokens a second": sum(int(row["tokens"]) for row in half) / max(seconds, 1e-9),
        "first losses": [float(row["loss"]) for row in rows[:10]],
        "mean loss of the second half": sum(float(row["loss"]) for row in half) / len(half),
    }


def folder_size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def train_to_cooldown(bundle: Any, run: Path, clock: Clock, options: Any, mode: dict[str, Any]) -> Any:
    """Train until the last step, or, if there is no time for all of them, cool down in the time that is left."""
    begun = time.perf_counter()
    checkpoint = train(bundle, run, COOLS_FROM * clock.left(FOR_ANSWERS), options, **mode)
    step, steps = checkpoint.record.step, bundle.config.steps
    if step == steps:
        return checkpoint
    left = clock.left(FOR_ANSWERS)
    rate = step / (time.perf_counter() - begun)  # with its start and what it compiled, which comes again
    if step <= steps - bundle.config.cooldown and rate * left < steps - step:
        mode = {**mode, **cooldown(step, rate, left)}
    return train(bundle, run, left, options, **mode)


def single(bundle: Any, options: Any, clock: Clock, work: Path) -> None:
    """Train one task with a vocabulary of its own, and answer its validation questions."""
    import torch

    torch.set_num_threads(2)  # several of these run side by side
    tasks = pick_names("--tasks", options.tasks, bundle.config.tasks)
    if len(tasks) > 1:
        raise SystemExit(
            f"single trains one task, and --tasks {options.tasks!r} names {len(tasks)}: give one of them, or use smoke "
            "to train several side by side."
        )
    (task,) = tasks
    own, run = reduce_bundle(bundle, task, options.set), options.out / "run"
    mode = mode_settings(own.config, options.mode)
    if ends_by_itself(own.config):
        checkpoint = train(own, run, clock.left(FOR_ANSWERS), options, **mode)
        say(f"{task}: {describe(measure(run))}.")
    else:
        checkpoint = train_to_cooldown(own, run, clock, options, mode)
    weights = options.out / "weights"
    write_weights(own, checkpoint, weights, options, keep_state=False)
    try:
        unanswered = answer(own, weights, work, options, clock, [task], f"single-{task}")
    finally:
        if (work / "submissions").is_dir():
            shutil.copytree(work / "submissions", options.out / "submissions")
    if unanswered:
        raise SystemExit(
            f"There was no time for all questions of {task}: give more --minutes, or fewer steps. Its weights are in "
            f"{weights}."
        )


def joint(bundle: Any, options: Any, clock: Clock, work: Path) -> None:
    """Train all tasks together, from the state of an earlier command if one is given, and write a state.

    If it fails, such as for want of memory, it writes the state of its last checkpoint.
    """
    from safetensors.torch import save_file

    from decabench.models import latest_checkpoint, load_optimizer, pick_precision, write_json

    run, step, was = work / "run", 0, {}
    if options.state is not None:
        record = open_state(options.state, bundle, goes_on=True).record
        step, was = record.step, record.config
        folder = run / "checkpoints" / f"step-{step:08d}"
        log = copy_state(options.state, folder, bundle.config.optimizer)
        write_json(run / "latest.json", {"checkpoint": f"checkpoints/{folder.name}"})
        (run / "train.csv").write_text(log, encoding="utf-8")
    elif options.last:
        raise SystemExit(
            "There is no run to finish: give the folder that the command joint wrote as --state, or leave --last out."
        )
    settings = mode_settings(bundle.config, options.mode)
    was = {**was, "precision": pick_precision(was["precision"])} if was else {}
    if changed := [name for name, value in settings.items() if was.get(name, value) != value]:
        other = ", ".join(f"{name} {was[name]}" for name in changed)
        raise SystemExit(
            f"{options.state} was trained in another mode ({other}): give the --mode that the command before had."
        )
    # It ends when its time does, and cools down where --last says so; whatever the bundle has of both.
    settings |= {"cooldown": 0, "checkpoint_every": options.checkpoint_every}
    if ends_by_itself(bundle.config):
        if options.last:
            raise SystemExit(
                "A run that is counted in epochs or phases, or has the schedule sequential, ends by itself: leave "
                "--last out."
            )
    else:
        settings["steps"] = ENDLESS
    if options.last:
        rate = measure(run, step - LAST_STEPS)["steps a second"]
        settings |= cooldown(step, rate, clock.left(0.1))
    try:
        train(bundle, run, clock.left(0.1), options, **settings)
    finally:
        checkpoint = latest_checkpoint(run)
        if checkpoint is not None and checkpoint.record.step > step:
            write_weights(bundle, checkpoint, options.out, options, keep_state=True)
            state = shrink(load_optimizer(checkpoint.folder))
            save_file(
                {name: value.contiguous() for name, value in state.items()},
                options.out / OPTIMIZER,
            )
            record_digests(options.out)
            (options.out / LOG).write_bytes(gzip.compress((run / "train.csv").read_bytes(), mtime=0))
            say(f"The state of step {checkpoint.record.step:,} is in {options.out}.")
    if checkpoint is None or checkpoint.record.step == step:
        raise SystemExit(
            f"No step was made after step {step:,}, and nothing was written: the run is at its end, or had no time. "
            "Answer with --state, or give more --minutes."
        )
    say(f"{describe(measure(run, step))}.".capitalize())


def answer_all(bundle: Any, options: Any, clock: Clock, work: Path) -> None:
    """Write the weights of a state in half precision and in shards, and answer every validation question with them."""
    if options.state is None:
        raise SystemExit("Nothing to answer with: give the folder that the command joint wrote as --state.")
    known = bundle.config.tasks
    tasks = pick_names("--tasks", options.tasks, known) if options.tasks else list(known)
    checkpoint = open_state(options.state, bundle, goes_on=False)
    if options.answered is not None:
        find_answers(options.answered)
    options.out.mkdir(parents=True, exist_ok=True)
    write_weights(bundle, checkpoint, options.out, options, keep_state=False)
    try:
        left = answer(bundle, options.out, work, options, clock, tasks, "joint")
    finally:
        if (work / "submissions" / "joint").is_dir():
            zip_folder(work / "submissions" / "joint", options.out / "submission.zip")
    if left:
        say(
            f"There was no time for all of {', '.join(left)}: go on with --state {options.state} "
            f"--answered {options.out}."
        )


COMMANDS = {"smoke": smoke, "joint": joint, "answer": answer_all, "single": single}


def describe_end(options: Any, end: Ended) -> str:
    """Say what a command that was ended has written."""
    out, command = options.out, options.command
    ended = f"Ended by {end}" if command != "single" else f"{options.tasks} was ended by {end}"
    written = sorted(path.name for path in out.iterdir()) if out.is_dir() else []
    if command == "joint":
        if written:
            return f"{ended}: go on with --state {out}."
        return f"{ended} before this command had a state to write."
    if not written:
        return f"{ended}: nothing was written."
    if ANSWERED in written and command == "answer":
        return f"{ended}: go on with --state {options.state} --answered {out}."
    return f"{ended}: {out} has what was done until then ({', '.join(written)})."


class Parser(argparse.ArgumentParser):
    """A parser that refuses in a sentence, without a list of all options."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, wrap(f"{message}. run.py --help describes all options.") + "\n")


def number(kind: type[int] | type[float], least: int) -> Callable[[str], int | float]:
    """Read a number of an option: a whole one from `least`, or one above it."""
    wanted = f"a whole number, {least:,} or more" if kind is int else f"a number above {least}, up to 100,000"

    def read(text: str) -> int | float:
        try:
            value = kind(text)
        except ValueError:
            value = least - 1
        if not (value >= least if kind is int else least < value <= 100_000):
            raise argparse.ArgumentTypeError(f"it is {text!r}: give {wanted}")
        return value

    return read


def make_parser() -> argparse.ArgumentParser:
    """Make the parser of the command line, whose help fits 80 columns."""
    width = min(80, shutil.get_terminal_size().columns)
    parser = Parser(
        prog="run.py",
        usage="python run.py COMMAND BUNDLE --trust HEX --out FOLDER [options]",
        description=__doc__,
        formatter_class=lambda prog: argparse.RawDescriptionHelpFormatter(
            prog, max_help_position=24, width=width
        ),
    )
    positive, minutes = number(int, 1), number(float, 0)
    add = parser.add_argument
    add(
        "command",
        metavar="COMMAND",
        choices=COMMANDS,
        help="smoke, joint, answer, or single: one of smoke's tasks",
    )
    add("bundle", metavar="BUNDLE", type=Path, help="folder that decabench train --bundle wrote")
    add("--trust", default="", metavar="HEX", help="digest of code.zip, from decabench train --bundle")
    add("--out", type=Path, required=True, metavar="FOLDER", help="new folder for the results")
    add("--device", default="auto", help="auto, cpu or cuda [auto]")
    add = parser.add_argument_group("limits").add_argument
    add("--minutes", type=minutes, default=9.5, metavar="N", help="time to keep within [9.5]")
    add("--files", type=positive, default=8, metavar="N", help="most files to write [8]")
    add(
        "--file-size",
        type=number(int, FILE_SIZE),
        default=16_000_000,
        metavar="N",
        help="most bytes in each of them [16000000]",
    )
    add = parser.add_argument_group("joint and answer").add_argument
    add("--state", type=Path, metavar="FOLDER", help="folder that an earlier joint wrote")
    add = parser.add_argument_group("joint").add_argument
    add("--last", action="store_true", help="end the run here: the learning rate falls to zero")
    add(
        "--checkpoint-every",
        type=positive,
        default=500,
        metavar="N",
        help="steps that a failure loses at most [500]",
    )
    add = parser.add_argument_group("answer").add_argument
    add("--answered", type=Path, metavar="FOLDER", help="folder of an earlier answer that ran out of time")
    add(
        "--window",
        type=positive,
        default=2_048,
        metavar="N",
        help="questions to answer between looks at the clock [2048]",
    )
    add(
        "--batch-tokens",
        type=positive,
        default=200_000,
        metavar="N",
        help="tokens in a batch of questions [200000]",
    )
    add = parser.add_argument_group("smoke, answer and single").add_argument
    add(
        "--tasks",
        default="",
        metavar="NAMES",
        help="tasks, separated by commas; none: modes alone [smoke: five; answer: all]",
    )
    add(
        "--precision",
        default="auto",
        choices=("auto", "float32", "bfloat16"),
        metavar="NAME",
        help="precision of answers: auto (float32), float32, bfloat16 [auto]",
    )
    add = parser.add_argument_group("joint, smoke and single").add_argument
    add(
        "--mode",
        default="",
        choices=list(MODES),
        metavar="MODE",
        help=f"mode to train in (smoke: its runs on one task): {', '.join(MODES)} [the bundle's settings]",
    )
    add = parser.add_argument_group("smoke and single").add_argument
    add(
        "--set",
        default="{}",
        metavar="JSON",
        help="settings of the runs on one task, as JSON; under a task's name, of its run alone [{}]",
    )
    add = parser.add_argument_group("smoke").add_argument
    add("--steps", type=positive, default=100, metavar="N", help="steps in each mode [100]")
    add("--modes", default=",".join(MODES), metavar="NAMES", help="modes, separated by commas [all four]")
    return parser


def run_command(options: Any) -> None:
    """Check what can be checked at once, then run a command. Raises SystemExit."""
    clock = Clock(options.minutes)
    require_writable(options.out)
    if options.command == "smoke":
        pick_names("--modes", options.modes, MODES)
    check_mode(options.mode, read_settings(options.set))
    failed = None
    try:
        use_code(options.bundle, options.trust)
        from decabench.errors import DecabenchError
        from decabench.training import Bundle

        with tempfile.TemporaryDirectory(prefix="run-") as work:
            try:
                failed = COMMANDS[options.command](Bundle.open(options.bundle), options, clock, Path(work))
            except DecabenchError as error:
                # What decabench says of its checkpoint is about the state that it was copied from.
                copy = rf"{re.escape(work)}/run(/checkpoints/step-\d+)?"
                raise SystemExit(
                    re.sub(copy, lambda found: str(options.state or options.out), str(error))
                ) from error
    except Ended as end:
        say(describe_end(options, end))
        raise
    if options.command != "single":
        check_out(options)
    if failed:
        raise SystemExit(
            f"Failed: {', '.join(failed)}. The reasons stand above; {options.out / 'report.json'} has the results of "
            "all."
        )


def main() -> None:
    options = make_parser().parse_args()
    end_on_signals()
    try:
        run_command(options)
    except SystemExit as end:
        if not isinstance(end.code, str):
            raise
        print(wrap(end.code), file=sys.stderr)
        sys.exit(1)


if __name__ == "__main__":
    main()
