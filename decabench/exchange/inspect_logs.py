"""Read answers from Inspect logs (`.eval` and `.json`), using the inspect-ai package."""

from __future__ import annotations

import re
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from decabench.errors import SubmissionError, require_package
from decabench.exchange.foreign_rows import (
    FILE_BYTES,
    FINISHES,
    ForeignAnswer,
    ForeignFile,
    Places,
    option_letter,
    texts_in,
)
from decabench.files import require_machine
from decabench.text import printable, quoted


def open_inspect(path: Path, places: Places) -> ForeignFile:
    """Open an Inspect log."""
    require_package("An Inspect log", "inspect", "inspect_ai")
    from inspect_ai.log import read_eval_log

    _bound_archive(path)
    try:
        log = read_eval_log(str(path), resolve_attachments=True)
    except Exception as error:  # a damaged file can raise almost anything
        raise SubmissionError(f"{path.name} is not an Inspect log: {_first_line(error)}.") from error
    facts = {"model": log.eval.model, "task": log.eval.task, "status": log.status}
    versions = {f"version of {name}": version for name, version in log.eval.packages.items()}
    samples = log.samples or []
    if not places.choice and any(_CHOICE in (sample.scores or {}) for sample in samples):
        places = replace(places, choice=_CHOICE)  # the completions contain only option letters
    elif not places.choice and samples and all(_names_a_letter(sample) for sample in samples):
        raise SubmissionError(
            f"The answers in {path.name} are option letters, but they have not been scored with {_CHOICE!r}. "
            "Run 'inspect score' on the log first."
        )
    if places.choice and all(_repeats_completion(sample, places.choice) for sample in samples):
        places = replace(places, choice="")  # some scorers extract no answer, such as model_graded_qa
    order = _dataset_order(log, samples)
    return ForeignFile(
        _inspect_rows(samples, places, path.name, order),
        has_order=bool(order),
        size=len(order) or None,
        is_raw=not places.choice,
        facts={**facts, **versions},
    )


def _dataset_order(log: Any, samples: Sequence[Any]) -> dict[str, int]:
    """Return each sample's position in the dataset, counted from 0, by sample id.

    A log sorts its samples by their ids as strings, so 10 comes before 2, and the dataset's order must
    be read from the log's metadata. The result is empty if the log doesn't record the position of every
    sample, or if the dataset was shuffled.
    """
    dataset = getattr(log.eval, "dataset", None)
    ids = list(map(str, getattr(dataset, "sample_ids", None) or ()))
    order = {id_: at for at, id_ in enumerate(ids)}
    is_whole = len(order) == len(ids) == (getattr(dataset, "samples", None) or len(ids))
    has_all = all(str(sample.id) in order for sample in samples)
    return order if is_whole and has_all and not getattr(dataset, "shuffled", False) else {}


def _names_a_letter(sample: Any) -> bool:
    return bool(sample.choices) and _LETTER.search(sample.output.completion or "") is not None


_LETTER = re.compile(r"(?i)answer\s*:\s*([a-z]|\d+)\b")


def _repeats_completion(sample: Any, scorer: str) -> bool:
    answer = getattr((sample.scores or {}).get(scorer), "answer", None)
    if scorer == _CHOICE or not isinstance(answer, str):
        return scorer != _CHOICE and sample.error is not None
    return answer.strip().casefold() == (sample.output.completion or "").strip().casefold()


def _bound_archive(path: Path) -> None:
    if not zipfile.is_zipfile(path):
        return
    try:
        with zipfile.ZipFile(path) as archive:
            size = sum(member.file_size for member in archive.infolist())
    except (OSError, zipfile.BadZipFile) as error:
        require_machine(error, path)
        raise SubmissionError(f"{path.name} is damaged: {error}.") from error
    if size > FILE_BYTES:
        raise SubmissionError(
            f"{path.name} unpacks to {size:,} bytes, more than the limit of {FILE_BYTES:,}."
        )


def _inspect_rows(
    samples: Sequence[Any], places: Places, name: str, order: Mapping[str, int]
) -> Iterator[ForeignAnswer]:
    epochs = sorted({sample.epoch for sample in samples})
    if len(epochs) > 1 and not places.epoch:
        raise SubmissionError(f"{name} has {len(epochs)} epochs. Choose an epoch with --epoch.")
    for number, sample in enumerate(samples, 1):
        if places.epoch and sample.epoch != places.epoch:
            continue
        id_, output, limit = str(sample.id), sample.output, getattr(sample, "limit", None)
        if sample.error is not None or not (output.choices or limit):
            continue  # no answer; `check` reports it as missing
        reason = output.stop_reason if output.choices else ""
        ended = FINISHES.get(reason, "length" if limit else "stop")
        about = _inspect_texts(sample)._replace(line=number, id=id_, position=order.get(id_), finish=ended)
        # In text that a content filter cut off, a scorer may find an answer by mistake.
        if not places.choice or ended == "refused":
            yield about._replace(answer=output.completion)
            continue
        score = (sample.scores or {}).get(places.choice)
        if score is None or not isinstance(score.answer, str):
            listed = ", ".join(map(printable, sample.scores or {})) or "none"
            message = (
                f"the scorer {quoted(places.choice)} gave no answer for {quoted(id_)}; the scorers of this sample are: "
                f"{listed}"
            )
            yield about._replace(problem=("missing-field", message))
        else:
            options = sample.choices or ()
            if places.choice != _CHOICE and score.answer in options:
                options = ()  # scorers other than `choice` return the option's text
            yield _scored_answer(about, score.answer, output.completion, options)


def _inspect_texts(sample: Any) -> ForeignAnswer:
    given = getattr(sample, "input", None) or ""
    messages = [given] if isinstance(given, str) else [getattr(each, "text", "") for each in given]
    target, options = getattr(sample, "target", None) or (), sample.choices or ()
    targets = (target,) if isinstance(target, str) else tuple(target)
    named = {option_letter(at): option for at, option in enumerate(options)}
    golds = [*targets, *(named[each] for each in targets if each in named)]
    texts = texts_in([*messages, *options, *targets, getattr(sample, "metadata", None) or {}])
    return ForeignAnswer(None, texts=texts, golds=tuple(golds))


_CHOICE = "choice"
"""The name of Inspect's scorer for multiple-choice tasks. Its answers contain one or more option letters."""


def _scored_answer(
    about: ForeignAnswer, answer: str, completion: str, options: Sequence[str]
) -> ForeignAnswer:
    """Add a scorer's answer to a row, replacing an option letter with the option's text.

    If the answer lists several options, the row gets a problem instead of an answer.
    """
    letters = {option_letter(at): option for at, option in enumerate(options)}
    chosen = [letters.get(each.strip()) for each in answer.split(",")]
    if len(chosen) > 1 and None not in chosen:
        named = f"{quoted(about.id or '')} lists several options ({answer})"
        message = f"the answer to {named}, but decabench accepts only one option per example"
        return about._replace(problem=("bad-record", message))
    text = answer if chosen[0] is None else chosen[0]
    letter = None if chosen[0] is None else answer.strip()
    return about._replace(answer=text, raw=None if completion == text else completion, letter=letter)


def _first_line(error: BaseException) -> str:
    return printable((str(error).strip() or type(error).__name__).split("\n")[0][:200]).rstrip(".")
