"""Counts the words of tasks that share a vector with a more frequent word, and lists the largest groups of such words.

    python tools/shared_vectors.py VECTORS --tasks sst,woz.en [--home HOME] [--groups 3]

VECTORS is a name or a file, as in `decabench train --set vectors=...`. Words are those of training contexts, cut and
lower-cased as MQAN's are; a token counts if another word of them, which occurs more often, has the same vector.
"""

from __future__ import annotations

import argparse
from collections import Counter
from pathlib import Path

import numpy as np

from decabench.tasks import Store, home_folder
from decabench.vectors import open_vectors
from decabench.vectors.tokenizer import tokenize
from decabench.vectors.word_vectors import Vectors

Groups = list[list[str]]


def count_words(store: Store, task: str) -> Counter[str]:
    """Count the words of a task's training contexts."""
    rows = store.read(task, "train", ("context",))
    texts = Counter(row["context"] for row in rows)  # SQuAD asks several questions of one
    words: Counter[str] = Counter()
    for text, count in texts.items():
        for token in tokenize(text.lower()):
            if word := token.strip():
                words[word] += count
    return words


def group_words(counts: Counter[str], vectors: Vectors) -> Groups:
    """Group words by their vector, the most frequent first; words without one are left out."""
    words = list(counts)
    rows = vectors.rows(words)
    groups: dict[bytes, list[str]] = {}
    for word, row in zip(words, rows, strict=True):
        if np.any(row):
            groups.setdefault(row.tobytes(), []).append(word)
    return [sorted(group, key=lambda word: (-counts[word], word)) for group in groups.values()]


def share_of_others(counts: Counter[str], groups: Groups) -> float:
    """Return how many tokens of a hundred have the vector of a more frequent word."""
    others = sum(counts[word] for group in groups for word in group[1:])
    return 100 * others / max(1, counts.total())


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("vectors", help="name or file")
    parser.add_argument("--tasks", required=True, help="tasks, separated by commas")
    parser.add_argument("--home", type=Path, help="folder of prepared data")
    parser.add_argument("--groups", type=int, default=3, help="how many groups to list")
    given = parser.parse_args()
    store, vectors = Store(home_folder(given.home)), open_vectors(given.vectors)
    for task in given.tasks.split(","):
        counts = count_words(store, task)
        groups = group_words(counts, vectors)
        known = sum(map(len, groups))
        print(
            f"{task}: {len(counts):,} words, {known:,} with a vector, {len(groups):,} vectors; "
            f"{share_of_others(counts, groups):.1f} % of tokens have that of a more frequent word"
        )
        for group in sorted(groups, key=len, reverse=True)[: given.groups]:
            print(f"  {len(group)}: {', '.join(group[:12])}")


if __name__ == "__main__":
    main()
