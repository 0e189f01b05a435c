"""Answer files as dicts."""

from __future__ import annotations

from pathlib import Path

from decabench.submission import AnswerKind, PredictionFile, read_lines


def read_answers(file: PredictionFile | Path, kind: AnswerKind = "extracted") -> dict[str | None, str]:
    path = file.path if isinstance(file, PredictionFile) else file
    return {line.id: line.text(kind) for line in read_lines(path)}
