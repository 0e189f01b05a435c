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
from decabench.untrusted import parse_json, parse_toml
from reproduction.logs import count_weights, counts_epochs, read_log, read_versions
from reproduction.plan import Place, Plan, Run, task_of

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


def asked_for(plan: Plan, run: Run, seed: int, place: Place) -> dict[str, Any]:
    """Return what decides about a run: its tasks, settings, the configuration file and where it starts from."""
    config, first = run.config or plan.config, plan.first_of(run, seed)
    return {
        "tasks": list(run.tasks),
        "settings": {**plan.settings, **run.settings},
        "config": tomllib.loads((place.plan.parent / config).read_text(encoding="utf-8")) if config else {},
        "split": plan.split,
        "init": asked_for(plan, first, seed, place) if first else plan.checkpoint_of(run, seed) or None,
    }


def read_training(plan: Plan, run: Run, seed: int, place: Place) -> Training | None:
    """Return what is known of a run's training; None unless it is done. It is read from the logs once, and noted."""
    if not place.results(plan, run, seed).exists():
        return None
    note = place.submission(run.name, seed) / TRAINING
    if not note.exists():
        asked = _asked_at_end(place, run, seed) or asked_for(plan, run, seed, place)
        content = {**asdict(_read_logs(place.run(run.name, seed))), "asked": asked}
        del content["kept"]  # the results say it
        with atomic_file(note) as file:
            file.write((json.dumps(content, indent=1, sort_keys=True) + "\n").encode())
    training = msgspec.json.decode(note.read_bytes(), type=Training)
    return replace(training, kept=_kept_epoch(training, place.results(plan, run, seed)))


def _kept_epoch(training: Training, results: Path) -> int | None:
    """Return the epoch of the step at which a run's weights were kept."""
    steps = sorted({step for step, _, _ in training.validations})
    step = msgspec.json.decode(results.read_bytes())["submission"]["predictor"]["backend"]["step"]
    return steps.index(step) + 1 if training.by_epoch and step in steps else None


def _read_logs(folder: Path) -> Training:
    lines, validations = list[dict[str, str]](), []
    if (folder / "train.csv").exists():
        lines = list(read_log(folder / "train.csv"))
    seconds = [float(line["seconds"]) for line in lines]
    terms: dict[str, list[float]] = {}
    for line in lines[-LAST_STEPS:]:
        for name, figure in line.items():
            if name.startswith("loss.") and figure:
                terms.setdefault(name, []).append(float(figure))
    if (folder / "validation.csv").exists():
        validations = [
            (float(one["step"]), one["task"], float(one["score"]))
            for one in read_log(folder / "validation.csv")
        ]
    return Training(
        weights=count_weights(folder),
        steps=len(seconds),
        seconds=sum(seconds),
        step_seconds=median(seconds) if seconds else None,
        by_epoch=(folder / "config.toml").exists() and counts_epochs(folder),
        validations=validations,
        terms={name: round(mean(own), 4) for name, own in terms.items()},
        versions=read_versions(folder),
    )


def record_file(place: Place, name: str, seed: int) -> Path | None:
    """Return where the record of a run is kept; None where no records are."""
    return place.records / f"{name}-seed-{seed}.zip" if place.records else None


def keep_record(plan: Plan, run: Run, seed: int, place: Place) -> None:
    """Write the record of a run that is done, the same bytes for the same run.

    One of its settings is left as it is, unless it lacks the results of a split and is of the same weights. Answers
    that may not be passed on are left out of it, with digests of them in `withheld/` and the statistics of their score.

    Raises SubmissionError if there is one of other settings.
    """
    file = record_file(place, run.name, seed)
    if file is None or read_training(plan, run, seed, place) is None:
        return
    results = [place.results(plan, run, seed, split) for split in plan.splits_of(run)]
    results = [path for path in results if path.exists()]
    results += list(_statistics_to_keep(plan, run, seed, place))
    names = {path.relative_to(place.submission(run.name, seed)).as_posix() for path in results}
    if has_record(plan, run, seed, place):
        kept_names = _names_of_same_weights(file, place.submission(run.name, seed))
        if not kept_names or names <= kept_names:
            return
    refuse_other_record(plan, run, seed, place)
    submission = place.submission(run.name, seed)
    with TemporaryDirectory() as folder:
        public = Path(folder) / submission.name
        for path in [*submission.glob(f"{FOLDER}/*"), *results, *submission.glob("*.*")]:
            if path.is_file():
                shutil.copyfile(path, make_folder((public / path.relative_to(submission)).parent) / path.name)
        for task, split in find_predictions(public)[0]:
            if task_of(task, place.include).withholds_answers:
                withhold(public, task, split)
        with atomic_file(file) as part, zipfile.ZipFile(part, "w") as archive:
            for path in sorted(path for path in public.rglob("*") if path.is_file()):
                entry = zipfile.ZipInfo(path.relative_to(public).as_posix(), _DATE)
                entry.compress_type = zipfile.ZIP_DEFLATED
                entry.external_attr = 0o644 << 16
                archive.writestr(entry, path.read_bytes(), compresslevel=9)


def _statistics_to_keep(plan: Plan, run: Run, seed: int, place: Place) -> Iterator[Path]:
    """Yield the statistics of a run's scores whose answers a record leaves out."""
    for task, split in find_predictions(place.submission(run.name, seed))[0]:
        if task_of(task, place.include).withholds_answers:
            path = statistics_path(place.results(plan, run, seed, split).parent, task)
            if path.is_file():
                yield path


def has_record(plan: Plan, run: Run, seed: int, place: Place) -> bool:
    """Whether there is a record of a run with the plan's settings. Raises SubmissionError for a damaged one."""
    file = record_file(place, run.name, seed)
    if file is None or not file.exists():
        return False
    try:
        with zipfile.ZipFile(file) as archive:
            notes = [archive.getinfo(name) for name in (TRAINING, METADATA_NAME)]
            if any(note.file_size > LARGEST_NOTE for note in notes):
                raise ValueError("its notes are too large")
            asked = _read_asked(archive.read(notes[0]))
            _check_answered_by(archive.read(notes[1]), asked, seed)
    except (OSError, KeyError, ValueError, TypeError, AttributeError, zipfile.BadZipFile) as error:
        raise SubmissionError(
            f"{file} is no record of a run ({error}): delete it to train the run again."
        ) from None
    return bool(asked == asked_for(plan, run, seed, place))


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
        asked = [Path(name).name for name in asked]
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


def record_has_more(plan: Plan, run: Run, seed: int, place: Place) -> bool:
    """Whether a run's record has results, of the same weights as those that are here, of a split that has none here.

    It may have gained them from another output folder. Raises SubmissionError for a damaged record.
    """
    file = record_file(place, run.name, seed)
    splits = [split for split in plan.splits_of(run) if not place.results(plan, run, seed, split).exists()]
    if file is None or not splits or not has_record(plan, run, seed, place):
        return False
    submission = place.submission(run.name, seed)
    names = {place.results(plan, run, seed, split).relative_to(submission).as_posix() for split in splits}
    return bool(names & _names_of_same_weights(file, submission))


def _names_of_same_weights(record: Path, submission: Path) -> set[str]:
    """Return the names of the files in a record; none if it is of other weights than the answers that are here."""
    with zipfile.ZipFile(record) as archive:
        metadata, names = archive.read(METADATA_NAME), set(archive.namelist())
    return names if _weights_of(metadata) == _weights_of((submission / METADATA_NAME).read_bytes()) else set()


def refuse_other_record(plan: Plan, run: Run, seed: int, place: Place) -> None:
    """Raise SubmissionError if there is a record of other settings than the plan's, which is never overwritten."""
    file = record_file(place, run.name, seed)
    if file is not None and file.exists() and not has_record(plan, run, seed, place):
        raise SubmissionError(
            f"{file} is the record of a run of other settings than the plan's. It is kept: delete it to have the run "
            "trained and recorded anew, or name another folder with --records."
        )


def has_changed(plan: Plan, run: Run, seed: int, place: Place) -> bool:
    """Whether a run is done that was trained with other settings than the plan's of today.

    Raises SubmissionError if what says so is damaged.
    """
    note = place.submission(run.name, seed) / TRAINING
    try:
        asked = _read_asked(note.read_bytes()) if note.exists() else _asked_at_end(place, run, seed)
    except (OSError, KeyError, ValueError, TypeError) as error:
        raise SubmissionError(
            f"{note} is damaged ({error}): delete its folder to train the run again."
        ) from None
    return bool(asked is not None and asked != asked_for(plan, run, seed, place))


def mark_ended(plan: Plan, run: Run, seed: int, place: Place) -> None:
    """Note in a run's folder that it was trained to its end, and what was asked for."""
    with atomic_file(place.run(run.name, seed) / ENDED) as file:
        file.write(json.dumps({"asked": asked_for(plan, run, seed, place)}).encode())


def has_ended(place: Place, run: Run, seed: int) -> bool:
    """Whether a run was trained to its end, and not broken off."""
    return (place.run(run.name, seed) / ENDED).exists()


def has_same_weights(place: Place, run: Run, seed: int) -> bool:
    """Whether a run's answers, if it has any, are those of the weights that are here: it may have been trained anew."""
    from decabench.models import Checkpoint  # with torch, which pages made of records do without

    metadata = place.submission(run.name, seed) / METADATA_NAME
    if not metadata.exists():
        return True
    return _weights_of(metadata.read_bytes()) == Checkpoint.open(place.run(run.name, seed)).digest()


def _weights_of(metadata: bytes) -> str | None:
    """Return the digest of the weights that a submission was answered with, as its metadata says."""
    found: str | None = tomllib.loads(metadata.decode())["predictor"].get("backend", {}).get("weights")
    return found


def _asked_at_end(place: Place, run: Run, seed: int) -> Any:
    """Return what a run that was trained to its end was asked for; None if it was not, or did not say so yet."""
    file = place.run(run.name, seed) / ENDED
    content = file.read_bytes() if file.exists() else b""
    return _read_asked(content) if content else None


def _read_asked(note: bytes) -> Any:
    return parse_json(note.decode())["asked"]


def restore_run(plan: Plan, run: Run, seed: int, place: Place) -> bool:
    """Put the answers and results of a run's record where they would be after training.

    Returns False if there is no record, or one of other settings, which the plan no longer asks for. What was broken
    off is done again. Raises SubmissionError for a record that is damaged, or whose answers or results are not those
    that its manifest has the digests of.
    """
    file = record_file(place, run.name, seed)
    if file is None or not has_record(plan, run, seed, place):
        return False
    submission, results = place.submission(run.name, seed), "results"
    part = submission / f"{results}.part"
    with open_submission(file) as opened:
        assert opened.folder is not None
        if not (opened.folder / results).is_dir():
            raise SubmissionError(
                f"{file} has no {results}/: restore it, or delete it to train the run again."
            )
        own = place.results(plan, run, seed).parent.relative_to(submission).as_posix()
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
