"""Records of runs: what a page needs of a run, in one small file that can be kept beside the plan.

RECORDS/RUN-seed-N.zip is a submission that `decabench evaluate` scores like any other (its answers, their results, and
the whole configuration, with digests of the weights and the training data), and `training.json`: what was asked for,
the validation scores, the steps, seconds and number of weights, and the terms of the loss at the end. Weights and logs
are left out, being a thousand times larger.
"""

from __future__ import annotations

import json
import shutil
import tomllib
import zipfile
from collections.abc import Collection, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from statistics import mean, median
from tempfile import TemporaryDirectory
from typing import Any

import msgspec

from decabench.errors import SubmissionError
from decabench.files import atomic_file, by_dotted_key, file_digest, make_folder
from decabench.scoring import read_manifest, statistics_path
from decabench.submission import FOLDER, METADATA_NAME, WITHHELD, find_predictions, open_submission, withhold
from decabench.training.logs import read_rows
from decabench.untrusted import parse_json, parse_toml
from reproduction.checkpoints import count_weights, counts_epochs, read_versions
from reproduction.plan import SeededRun, task_of

TRAINING = "training.json"
ENDED = "ended"
"""The file in a run's folder which says that it was trained to its end, and with which settings."""
LARGEST_NOTE = 10_000_000
LAST_STEPS = 200
"""How many steps at the end of a log the terms of the loss are averaged over."""
_DATE = (1980, 1, 1, 0, 0, 0)


@dataclass(frozen=True)
class Training:
    """What is known of the training of a run that is done."""

    weights: int | None
    """The number of weights, without embeddings."""
    steps: int
    """The number of steps."""
    seconds: float
    """The sum of their seconds."""
    step_seconds: float | None
    """Their median."""
    by_epoch: bool
    """Whether it was validated at the end of each epoch."""
    validations: list[tuple[float, str, float]]
    """(step, task, score) of each validation."""
    kept: int | None = None
    """The epoch after which the weights were kept, counted from 1; None if epochs were not counted."""
    terms: dict[str, float] = field(default_factory=dict)
    """What a model logs at each step, such as a term of its loss, to its mean over the last ones."""
    versions: dict[str, str] = field(default_factory=dict)
    """Of Python, torch, numpy and decabench, that it was trained with; older records do not have them."""


def asked_for(one: SeededRun) -> dict[str, Any]:
    """Return what decides about a run: its tasks, settings, the configuration file and where it starts from."""
    config = one.run.config or one.plan.config
    path = one.place.plan.parent / config
    return {
        "tasks": list(one.run.tasks),
        "settings": {**one.plan.settings, **one.run.settings},
        "config": tomllib.loads(path.read_text(encoding="utf-8")) if config else {},
        "split": one.plan.split,
        "init": asked_for(one.first) if one.first else one.checkpoint or None,
    }


def read_training(one: SeededRun) -> Training | None:
    """Return what is known of a run's training; None unless it is done. It is read from the logs once, and noted."""
    if not one.is_scored:
        return None
    note = one.submission / TRAINING
    if not note.exists():
        content = {**asdict(_read_logs(one.folder)), "asked": _asked_at_end(one) or asked_for(one)}
        del content["kept"]  # the results say it
        with atomic_file(note) as file:
            file.write((json.dumps(content, indent=1, sort_keys=True) + "\n").encode())
    training = msgspec.json.decode(note.read_bytes(), type=Training)
    return replace(training, kept=_kept_epoch(training, one.results()))


def _kept_epoch(training: Training, results: Path) -> int | None:
    """Return the epoch of the step at which a run's weights were kept."""
    steps = sorted({step for step, _, _ in training.validations})
    step = msgspec.json.decode(results.read_bytes())["submission"]["predictor"]["backend"]["step"]
    return steps.index(step) + 1 if training.by_epoch and step in steps else None


def _read_logs(folder: Path) -> Training:
    lines = read_rows(folder / "train.csv")
    seconds = [float(line["seconds"]) for line in lines]
    terms: dict[str, list[float]] = {}
    for line in lines[-LAST_STEPS:]:
        for name, figure in line.items():
            if name.startswith("loss.") and figure:
                terms.setdefault(name, []).append(float(figure))
    validated = read_rows(folder / "validation.csv")
    return Training(
        weights=count_weights(folder),
        steps=len(seconds),
        seconds=sum(seconds),
        step_seconds=median(seconds) if seconds else None,
        by_epoch=(folder / "config.toml").exists() and counts_epochs(folder),
        validations=[(float(one["step"]), one["task"], float(one["score"])) for one in validated],
        terms={name: round(mean(own), 4) for name, own in terms.items()},
        versions=read_versions(folder),
    )


def keep_record(one: SeededRun) -> None:
    """Write the record of a run that is done, the same bytes for the same run.

    One of its settings is left as it is, unless it lacks the results of a split and is of the same weights. Answers
    that may not be passed on are left out of it, with digests of them in `withheld/` and the statistics of their score.

    Raises SubmissionError if there is one of other settings.
    """
    file, submission = one.record, one.submission
    if file is None or read_training(one) is None:
        return
    results = [path for split in one.splits if (path := one.results(split)).exists()]
    results += list(_statistics_to_keep(one))
    names = {path.relative_to(submission).as_posix() for path in results}
    if has_record(one):
        kept_names = _names_of_same_weights(file, submission)
        if not kept_names or names <= kept_names:
            return
    refuse_other_record(one)
    with TemporaryDirectory() as folder:
        public = Path(folder) / submission.name
        for path in [*submission.glob(f"{FOLDER}/*"), *results, *submission.glob("*.*")]:
            if path.is_file():
                shutil.copyfile(path, make_folder((public / path.relative_to(submission)).parent) / path.name)
        for task, split in find_predictions(public)[0]:
            if task_of(task, one.place.include).withholds_answers:
                withhold(public, task, split)
        with atomic_file(file) as part, zipfile.ZipFile(part, "w") as archive:
            for path in sorted(path for path in public.rglob("*") if path.is_file()):
                entry = zipfile.ZipInfo(path.relative_to(public).as_posix(), _DATE)
                entry.compress_type = zipfile.ZIP_DEFLATED
                entry.external_attr = 0o644 << 16
                archive.writestr(entry, path.read_bytes(), compresslevel=9)


def _statistics_to_keep(one: SeededRun) -> Iterator[Path]:
    """Yield the statistics of a run's scores whose answers a record leaves out."""
    for task, split in find_predictions(one.submission)[0]:
        if task_of(task, one.place.include).withholds_answers:
            path = statistics_path(one.results(split).parent, task)
            if path.is_file():
                yield path


def has_record(one: SeededRun) -> bool:
    """Whether there is a record of a run with the plan's settings. Raises SubmissionError for a damaged one."""
    file = one.record
    if file is None or not file.exists():
        return False
    try:
        with zipfile.ZipFile(file) as archive:
            notes = [archive.getinfo(name) for name in (TRAINING, METADATA_NAME)]
            if any(note.file_size > LARGEST_NOTE for note in notes):
                raise ValueError("its notes are too large")
            asked = _read_asked(archive.read(notes[0]))
            _check_answered_by(archive.read(notes[1]), asked, one.seed)
    except (OSError, KeyError, ValueError, TypeError, AttributeError, zipfile.BadZipFile) as error:
        raise SubmissionError(
            f"{file} is no record of a run ({error}): delete it to train the run again."
        ) from None
    return bool(asked == asked_for(one))


def _check_answered_by(metadata: bytes, asked: Mapping[str, Any], seed: int) -> None:
    """Check that the model that answered had the seed and the settings that were asked for.

    A record may have been copied in another's place. Raises ValueError, KeyError, TypeError, AttributeError.
    """
    used = by_dotted_key(parse_toml(metadata.decode())["predictor"]["backend"]["config"])
    config, settings = by_dotted_key(asked["config"]), by_dotted_key(asked["settings"])
    wanted = {**config, "tasks": asked["tasks"], **settings, "seed": seed}
    for key, value in wanted.items():
        if key in used and not _is_noted_as(key, value, used[key]):  # settings that came later are in neither
            raise ValueError(f"it was answered by a model with {key} = {used[key]!r:.60}, not {value!r:.60}")


def _is_noted_as(key: str, asked: Any, used: Any) -> bool:
    """Whether a setting's value is what a run notes of it: one of a list as a list, and all fields of a table.

    Of files it notes the names, as their digests are beside them. It is done without the configuration's own code,
    which needs torch, and which may no longer take what an older run was trained with.
    """
    if isinstance(used, list) and not isinstance(asked, list):
        asked = [asked]
    if key == "vectors":
        asked = [
            kind + colon + Path(path).name for kind, colon, path in (name.rpartition(":") for name in asked)
        ]
    if key == "init":
        asked = Path(asked).name
    if isinstance(used, list) and len(used) == len(asked):
        return all(
            one.items() <= other.items()
            if isinstance(one, dict) and isinstance(other, dict)
            else one == other
            for one, other in zip(asked, used, strict=True)
        )
    return bool(asked == used)


def record_has_more(one: SeededRun) -> bool:
    """Whether a run's record has results, of the same weights as those that are here, of a split that has none here.

    It may have gained them from another output folder. Raises SubmissionError for a damaged record.
    """
    missing = [path for split in one.splits if not (path := one.results(split)).exists()]
    if one.record is None or not missing or not has_record(one):
        return False
    names = {path.relative_to(one.submission).as_posix() for path in missing}
    return bool(names & _names_of_same_weights(one.record, one.submission))


def _names_of_same_weights(record: Path, submission: Path) -> set[str]:
    """Return the names of the files in a record; none if it is of other weights than the answers that are here."""
    with zipfile.ZipFile(record) as archive:
        metadata, names = archive.read(METADATA_NAME), set(archive.namelist())
    return names if _weights_of(metadata) == _weights_of((submission / METADATA_NAME).read_bytes()) else set()


def refuse_other_record(one: SeededRun) -> None:
    """Raise SubmissionError if there is a record of other settings than the plan's, which is never overwritten."""
    if one.record is not None and one.record.exists() and not has_record(one):
        raise SubmissionError(
            f"{one.record} is the record of a run of other settings than the plan's. It is kept: delete it to have the "
            "run trained and recorded anew, or name another folder with --records."
        )


def has_changed(one: SeededRun) -> bool:
    """Whether a run is done that was trained with other settings than the plan's of today.

    Raises SubmissionError if what says so is damaged.
    """
    note = one.submission / TRAINING
    try:
        asked = _read_asked(note.read_bytes()) if note.exists() else _asked_at_end(one)
    except (OSError, KeyError, ValueError, TypeError) as error:
        raise SubmissionError(
            f"{note} is damaged ({error}): delete its folder to train the run again."
        ) from None
    return bool(asked is not None and asked != asked_for(one))


def mark_ended(one: SeededRun) -> None:
    """Note in a run's folder that it was trained to its end, and what was asked for."""
    with atomic_file(one.folder / ENDED) as file:
        file.write(json.dumps({"asked": asked_for(one)}).encode())


def has_ended(one: SeededRun) -> bool:
    """Whether a run was trained to its end, and not broken off."""
    return (one.folder / ENDED).exists()


def has_same_weights(one: SeededRun) -> bool:
    """Whether a run's answers, if it has any, are those of the weights that are here: it may have been trained anew."""
    from decabench.models import Checkpoint  # with torch, which pages made of records do without

    metadata = one.submission / METADATA_NAME
    return not metadata.exists() or _weights_of(metadata.read_bytes()) == Checkpoint.open(one.folder).digest()


def _weights_of(metadata: bytes) -> str | None:
    """Return the digest of the weights that a submission was answered with, as its metadata says."""
    found: str | None = tomllib.loads(metadata.decode())["predictor"].get("backend", {}).get("weights")
    return found


def _asked_at_end(one: SeededRun) -> Any:
    """Return what a run that was trained to its end was asked for; None if it was not, or did not say so yet."""
    file = one.folder / ENDED
    content = file.read_bytes() if file.exists() else b""
    return _read_asked(content) if content else None


def _read_asked(note: bytes) -> Any:
    return parse_json(note.decode())["asked"]


def restore_run(one: SeededRun) -> bool:
    """Put the answers and results of a run's record where they would be after training.

    Returns False if there is no record, or one of other settings, which the plan no longer asks for. What was broken
    off is done again. Raises SubmissionError for a record that is damaged, or whose answers or results are not those
    that its manifest has the digests of.
    """
    file, submission, results = one.record, one.submission, "results"
    if file is None or not has_record(one):
        return False
    part = submission / f"{results}.part"
    with open_submission(file) as opened:
        assert opened.folder is not None
        if not (opened.folder / results).is_dir():
            raise SubmissionError(
                f"{file} has no {results}/: restore it, or delete it to train the run again."
            )
        own = one.results().parent.relative_to(submission).as_posix()
        found = (path.relative_to(opened.folder).as_posix() for path in (opened.folder / results).iterdir())
        if changed := list(_changed_files(opened.folder, {own, *found})):
            raise SubmissionError(
                f"{file} is not as it was written, by its manifest.json: {', '.join(changed)}. Restore it, or delete "
                "it to train the run again."
            )
        for left in (part, submission / results):
            shutil.rmtree(left, ignore_errors=True)
        ignored = shutil.ignore_patterns(results)
        shutil.copytree(opened.folder, submission, ignore=ignored, dirs_exist_ok=True)
        shutil.copytree(opened.folder / results, part)
    part.replace(submission / results)  # last, and at once: results say that all is there
    return True


def _changed_files(folder: Path, results: Collection[str]) -> Iterator[str]:
    """Yield the files of a record, of answers and results, that its manifest has other digests of, or none.

    `submission.toml` and what is known of the training are in no manifest. Raises InvalidManifestError.
    """
    manifest = read_manifest(folder)
    unbound = set(results) - (manifest.results.keys() if manifest else set())
    if manifest is None or unbound:
        yield f"it has no digests of {', '.join(sorted(unbound))}"
        return
    for name, bound in manifest.results.items():
        files = {f"{name}/results.json": bound.results}
        for own, task in bound.tasks.items():
            files |= task.predictions
            statistics = statistics_path(Path(name), own).as_posix()
            if task.statistics and (folder / statistics).is_file():  # only where answers are left out
                files[statistics] = task.statistics
        for path, digest in files.items():
            if path.startswith(f"{FOLDER}/") and list(folder.glob(f"{WITHHELD}/{Path(path).stem}.*")):
                continue  # `evaluate` holds its digests against the results
            if not (folder / path).is_file() or file_digest(folder / path) != digest:
                yield path
