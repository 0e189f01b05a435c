"""A training step of the Joint Many-Task model (forward, backward, penalties, SGD) against the paper's equations with
loops over time steps.

    python benchmarks/jmt_step.py

Both have the paper's sizes, 20,000 words and the same weights and batch; their losses are checked to be equal before
either is timed. The yardstick gets the penalties of Eq. 6-10 as the paper writes them, as terms of the loss, and looks
up words and n-grams in two calls, not word by word. CPU seconds, the best of some steps on one core.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

LENGTHS = {"pos": 16, "chunk": 24, "dep": 16, "rel": 10, "ent": 10}
"""Words in a sentence: the means of EWT, CoNLL-2000 and SICK."""
BATCHES = {"pos": 25, "chunk": 25, "dep": 15, "rel": 25, "ent": 25}


def make(words: int):
    """Make a model of the five tasks, with weights that are not 0, and its words."""
    import numpy as np
    import torch

    from decabench.models.joint_many_task import JointManyTask, JointManyTaskConfig
    from decabench.tasks import Label, Number, Tags, Tree
    from decabench.vectors.tokenizer import Lexicon
    from decabench.vectors.word_vectors import JoinedVectors, NoVectors, WordTable

    random, letters = np.random.default_rng(0), list("etaoinshrdlucmfwypvbgkjqxz")
    found: dict[str, None] = {}
    while len(found) < words:
        found["".join(random.choice(letters, random.integers(2, 11)))] = None
    outputs = {
        "pos": Tags(names=tuple(f"T{n}" for n in range(49))),
        "chunk": Tags(scheme="IOB2", names=("O", *(f"{p}-C{n}" for n in range(11) for p in "BI"))),
        "dep": Tree(relations=tuple(f"r{n}" for n in range(49))),
        "rel": Number(low=1, high=5),
        "ent": Label(names=("entailment", "neutral", "contradiction")),
    }
    dropouts = ("input", "pair_input", "vertical", "classifier", "rating")
    config = JointManyTaskConfig(
        sparse_gradients=True, word_dropout=0.0, **{f"{name}_dropout": 0.0 for name in dropouts}
    )
    torch.manual_seed(0)
    table = WordTable(Lexicon([f" {word} " for word in found]), JoinedVectors((NoVectors(100),)))
    model = JointManyTask(config, outputs, table)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name.startswith("heads") and not parameter.any():
                parameter.uniform_(-0.1, 0.1)
    return model, list(found), table


def look_up(sentences, parts, weights):
    """x_t of all words at once: a word's vector, and the mean of those of its distinct n-grams."""
    import torch
    from torch.nn import functional as F

    from decabench.vectors.word_vectors import ngrams

    flat = [word for words in zip(*sentences, strict=True) for word in words]
    own = F.embedding(torch.tensor([parts.words[word] for word in flat]), weights["embed.words"])
    grams = [[parts.ngrams[gram] for gram in set(ngrams(word))] for word in flat]
    starts = torch.tensor([0, *map(len, grams)]).cumsum(0)[:-1]
    members = torch.tensor([row for rows in grams for row in rows])
    means = F.embedding_bag(members, weights["embed.ngrams"], starts, mode="mean")
    return torch.cat([own, means], 1).split(len(sentences))


def measure(model, words, table, task: str, repeats: int) -> tuple[float, float]:
    """Time a step of the model and one of the transcription: the best CPU seconds of each."""
    import numpy as np
    import torch

    from benchmarks import jmt_equations as equations
    from decabench.models.joint_many_task import FAMILY

    random, size, length = np.random.default_rng(1), BATCHES[task], LENGTHS[task]
    is_pair = task in ("rel", "ent")
    frequency = 1 / np.arange(1, len(words) + 1)
    sentences = [
        [random.choice(words, length, p=frequency / frequency.sum()).tolist() for _ in range(size)]
        for _ in range(1 + is_pair)
    ]
    targets = {
        "pos": {"tags": random.integers(0, 49, (size, length))},
        "chunk": {
            "tags": np.zeros((size, length), dtype=np.int64)
        },  # all outside: the same in IOB2 and IOBES
        "dep": {
            "heads": np.tile(np.arange(length), (size, 1)),
            "relations": random.integers(0, 49, (size, length)),
        },
        "rel": {"number": random.integers(1, 6, (size, 1)).astype(np.float32)},
        "ent": {"label": random.integers(0, 3, (size, 1))},
    }[task]
    items = []
    for row in range(size):
        item = {
            name: np.array(table.lexicon.number(f" {word} " for word in own[row]), dtype=np.int32)
            for name, own in zip(("tokens", "second"), sentences, strict=False)
        }
        items.append({**item, **{name: values[row] for name, values in targets.items()}})
    batch = FAMILY.make_batch(task, items, table, model.config)
    arrays = {name: torch.from_numpy(values) for name, values in targets.items()}
    weights = dict(model.named_parameters())

    def fast():
        return sum(value for value, _ in model.losses(batch).values())

    def slow():
        xs = [look_up(own, model.embed.parts, weights) for own in sentences]
        match task:
            case "dep":
                return equations.parser_loss(*xs, arrays["heads"], arrays["relations"], weights)
            case "rel":
                return equations.rating_loss(*xs, arrays["number"][:, 0], weights)
            case "ent":
                return equations.entailment_loss(*xs, arrays["label"][:, 0], weights)
            case _:
                return equations.tag_loss(*xs, arrays["tags"], weights, task)

    with torch.no_grad():
        torch.testing.assert_close(fast(), slow(), atol=1e-3, rtol=1e-4)
    optimizer = torch.optim.SGD(model.parameters(), 1e-4)
    model.begin_pass(task, 1)
    reference = {name: value.detach().clone() for name, value in weights.items()}

    def step(loss):
        optimizer.zero_grad(set_to_none=True)
        total = loss() / size
        if loss is slow:
            for each in model.penalties[task]:
                value = weights[each.name]
                total = total + each.decay / 2 * value.square().sum()
                total = total + each.successive / 2 * (value - reference[each.name]).square().sum()
        total.backward()
        if loss is fast:
            model.before_step(1e-4)
        optimizer.step()

    best = []
    for loss in (fast, slow):
        step(loss)
        times = []
        for _ in range(repeats):
            begun = time.process_time()
            step(loss)
            times.append(time.process_time() - begun)
        best.append(min(times))
    return best[0], best[1]


def main() -> None:
    import torch

    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--words", type=int, default=20_000)
    options = parser.parse_args()
    torch.set_num_threads(1)
    model, words, table = make(options.words)
    print("| task | batch | words a sentence | here, ms | transcription, ms | ratio |")
    print("|---|---|---|---|---|---|")
    for task, length in LENGTHS.items():
        fast, slow = measure(model, words, table, task, options.repeats)
        print(
            f"| {task} | {BATCHES[task]} | {length} | {fast * 1e3:.0f} | {slow * 1e3:.0f} | {slow / fast:.1f} |"
        )


if __name__ == "__main__":
    main()
