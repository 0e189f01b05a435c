"""Train word vectors with skip-gram, as "A Joint Many-Task Model" does, on the training text of prepared tasks.

    pip install gensim
    python -m papers.make_skipgram skipgram.vec --tasks cnn_dailymail,squad [--home FOLDER]
    decabench train --set 'vectors=["skipgram.vec", "ngrams.safetensors"]' ...

The paper uses Wikipedia, 100 dimensions, a window of 1, 15 negatives, a subsampling coefficient of 1e-5, words that
occur ten times or more, and a learning rate that falls from 0.025 to 0 in one pass. The available text is a hundred
times smaller, so there are more passes and weaker subsampling. The output is in word2vec's text format, like
fastText's `.vec` files.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from decabench.tasks import Store
from decabench.vectors import Corpus, read_corpus
from decabench.vectors.tokenizer import SPECIALS


@dataclass(frozen=True)
class Texts:
    """The texts of a corpus as lists of words. They can be read several times, once for each pass."""

    corpus: Corpus

    def __iter__(self) -> Iterator[list[str]]:
        words = self.corpus.lexicon.words
        text: list[str] = []
        for number in self.corpus.text.tolist():
            if number >= len(SPECIALS):
                text.append(words[number].strip())
            elif text:
                yield text
                text = []
        if text:
            yield text


def main() -> None:
    parser = argparse.ArgumentParser(description="Train word vectors by skip-gram on prepared tasks.")
    parser.add_argument("output", type=Path, help=".vec file to write")
    parser.add_argument("--tasks", default="cnn_dailymail,squad", help="tasks, separated by commas")
    parser.add_argument("--home", type=Path, help="folder of prepared data")
    for name, default in (
        ("dimension", 100),
        ("window", 1),
        ("negatives", 15),
        ("minimum", 10),
        ("passes", 5),
    ):
        parser.add_argument(f"--{name}", type=int, default=default, help=f"[default: {default}]")
    parser.add_argument(
        "--frequent", type=float, default=1e-4, help="subsampling coefficient [default: 0.0001]"
    )
    parser.add_argument(
        "--seed", type=int, default=0, help="the same seed gives the same vectors [default: 0]"
    )
    given = parser.parse_args()
    # gensim seeds its initial vectors with Python's string hashes.
    if os.environ.get("PYTHONHASHSEED") is None:
        raise SystemExit("Set PYTHONHASHSEED=0, so that the same seed gives the same vectors.")
    from gensim.models import Word2Vec

    corpus = read_corpus(Store(given.home), given.tasks.split(","))
    model: Any = Word2Vec(
        Texts(corpus),
        sg=1,
        vector_size=given.dimension,
        window=given.window,
        negative=given.negatives,
        min_count=given.minimum,
        sample=given.frequent,
        epochs=given.passes,
        seed=given.seed,
        workers=1,  # with several workers, the order of words would vary
    )
    model.wv.save_word2vec_format(str(given.output))
    print(
        f"Wrote {len(model.wv):,} words of {given.dimension} dimensions to {given.output}, from {corpus.size:,} tokens."
    )


if __name__ == "__main__":
    main()
