"""A checkpoint that travels: weights, vocabulary and its own copy of the word vectors in one small folder."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.torch import save

from decabench.errors import DecabenchError
from decabench.files import atomic_file, file_digest, make_folder
from decabench.models import (
    MODEL,
    RECORD,
    SPECIALS,
    VOCABULARY,
    Joined,
    Saved,
    Vectors,
    Words,
    index_path,
    is_line,
    load_weights,
    write_matrix,
)
from decabench.training.checkpoints import write_json

__all__ = ["UNFINISHED", "VECTORS", "Exported", "export"]

VECTORS = "vectors.npy"
"""The words of its rows stand beside it in `vectors.txt`."""
UNFINISHED = frozenset({VECTORS, index_path(Path(VECTORS)).name, MODEL, VOCABULARY})
"""What an export that was broken off leaves: its record comes last."""


@dataclass(frozen=True)
class Exported:
    """What was written."""

    words: int
    """How many words have a vector in it."""
    size: int
    """Bytes in all."""


def export(saved: Saved, output: Path, words: int = 20_000, half: bool = True) -> Exported:
    """Writes a checkpoint of its own to the empty folder `output`. Raises DecabenchError.

    It knows the vectors of the words that the model can generate and of the first `words` of each of its vectors'
    files, which begin with the most frequent; the others are zeros to it, as unknown words are. `half` halves its size:
    weights and vectors in half precision, which are made whole again when it is loaded.
    """
    make_folder(output)
    vectors = saved.open_vectors()
    lexicon = saved.lexicon()
    known = _known(vectors, [word.strip() for word in lexicon.words[len(SPECIALS) :]], words)
    values = vectors.rows(known)
    write_matrix(output / VECTORS, known, values.astype(np.float16 if half else np.float32))
    weights = load_weights(saved.folder / MODEL)
    with atomic_file(output / MODEL) as file:
        file.write(save({name: value.half() if half else value for name, value in weights.items()}))
    lexicon.write(output / VOCABULARY)
    write_json(output / RECORD, _record(saved, file_digest(output / VECTORS, index_path(output / VECTORS))))
    return Exported(len(known), sum(path.stat().st_size for path in output.iterdir()))


def _known(vectors: Vectors, vocabulary: list[str], limit: int) -> list[str]:
    """Words that have a vector, in order, each once."""
    parts = vectors.parts if isinstance(vectors, Joined) else (vectors,)
    firsts: list[str] = []
    for part in parts:
        if not isinstance(part, Words):
            raise DecabenchError(
                f"Vectors of {type(part).__name__} are made from a word's letters, and an export holds those of whole "
                "words alone: export a model that was trained with vectors of words."
            )
        firsts += list(part.index)[:limit]
    wanted = [word for word in dict.fromkeys([*vocabulary, *firsts]) if word and is_line(word)]
    has_vector: list[bool] = (vectors.rows(wanted) != 0).any(axis=1).tolist()
    return [word for word, has in zip(wanted, has_vector, strict=True) if has]


def _record(saved: Saved, digest: str) -> dict[str, Any]:
    """What the checkpoint says of itself: all but what only its own run's folder needs."""
    config = {**saved.record["config"], "vectors": [VECTORS]}
    config["init"] = Path(config["init"]).name if config["init"] else ""
    kept = {key: value for key, value in saved.record.items() if key != "state"}
    names = [Path(name).name for name in saved.vectors]
    trained = {
        "vectors": dict(zip(names, saved.record["vectors"].split("+"), strict=False)),
        "weights": saved.digest(),
    }
    return {**kept, "config": config, "vectors": digest, "exported_from": trained}
