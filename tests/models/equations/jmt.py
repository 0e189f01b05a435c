"""The equations of the Joint Many-Task paper as printed, with Python loops over time steps.

This shares only the names of weights with `decabench.models`, no code. Sentences in a batch must have equal
lengths, because there is no padding. States are lists of (B, d), one per word. Tasks have the names in ORDER. B
sentences, T words.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

Weights = Mapping[str, Tensor]
ORDER = ("pos", "chunk", "dep", "rel", "ent")


def represent(
    sentences: Sequence[Sequence[str]], rows: Mapping[str, int], ngram_rows: Mapping[str, int], w: Weights
) -> list[Tensor]:
    """x_t (section 2.1): a word's vector, and the mean of those of its distinct n-grams."""
    return [
        torch.stack([represent_word(word, rows, ngram_rows, w) for word in words])
        for words in zip(*sentences, strict=True)
    ]


def represent_word(word: str, rows: Mapping[str, int], ngram_rows: Mapping[str, int], w: Weights) -> Tensor:
    own = w["embed.words"][rows.get(word.lower(), 1)]
    marked, grams = ["#BEGIN#", *word, "#END#"], set()
    for n in (2, 3, 4):
        for at in range(len(marked) - n + 1):
            grams.add(f"{n}gram-" + "".join(marked[at : at + n]))
    known = [w["embed.ngrams"][ngram_rows[gram]] for gram in sorted(grams) if gram in ngram_rows]
    mean = torch.stack(known).mean(0) if known else torch.zeros_like(w["embed.ngrams"][0])
    return torch.cat([own, mean])


def lstm(g: Sequence[Tensor], w: Weights, layer: int, suffix: str) -> list[Tensor]:
    """Eq. 1, over inputs in the order in which they are read."""
    parts = [w[f"layers.{layer}.lstm.weight_{part}_l0{suffix}"] for part in ("hh", "ih")]
    W_i, W_f, W_u, W_o = torch.cat(parts, 1).chunk(4)
    b_i, b_f, b_u, b_o = w[f"layers.{layer}.lstm.bias_ih_l0{suffix}"].chunk(4)
    h = c = g[0].new_zeros(len(g[0]), len(b_i))
    states = []
    for x in g:
        g_t = torch.cat([h, x], 1)
        i, f = (g_t @ W_i.T + b_i).sigmoid(), (g_t @ W_f.T + b_f).sigmoid()
        o, u = (g_t @ W_o.T + b_o).sigmoid(), (g_t @ W_u.T + b_u).tanh()
        c = i * u + f * c
        h = o * c.tanh()
        states.append(h)
    return states


def bilstm(g: Sequence[Tensor], w: Weights, layer: int) -> list[Tensor]:
    """h_t: the states of both directions."""
    forward, backward = lstm(g, w, layer, ""), lstm(g[::-1], w, layer, "_reverse")[::-1]
    return [torch.cat(pair, 1) for pair in zip(forward, backward, strict=True)]


def linear(x: Tensor, w: Weights, name: str) -> Tensor:
    return x @ w[f"{name}.weight"].T + w[f"{name}.bias"]


def log_p_tags(h: Tensor, w: Weights, task: str) -> Tensor:
    """log p(y_t | h_t): a softmax above a ReLU layer (section 2.2)."""
    hidden = linear(h, w, f"heads.{task}.hidden").relu()
    return linear(hidden, w, f"heads.{task}.softmax.score").log_softmax(1)


def stack(x: Sequence[Tensor], w: Weights, top: int) -> list[list[Tensor]]:
    """h_t of layers 1 to `top`, of g = [h_t of the layer below; x_t; y_pos + y_chk] (sections 2.2 to 2.6)."""
    layers, labels = [bilstm(x, w, 0)], [torch.zeros(())] * len(x)
    for layer in range(1, top):
        if layer <= 2:
            task = ORDER[layer - 1]
            own = [log_p_tags(h, w, task).exp() @ w[f"labels.{task}"] for h in layers[-1]]  # Eq. 2
            labels = [a + b for a, b in zip(labels, own, strict=True)]
        g = [torch.cat(parts, 1) for parts in zip(layers[-1], x, labels, strict=True)]
        layers.append(bilstm(g, w, layer))
    return layers


def pick(log_p: Tensor, classes: Tensor) -> Tensor:
    """Sum the values at a class for each row."""
    return log_p[torch.arange(len(log_p)), classes].sum()


def tag_loss(x: Sequence[Tensor], tags: Tensor, w: Weights, task: str) -> Tensor:
    """The first term of Eq. 6 or 7. `tags` is (B, T)."""
    top = ORDER.index(task) + 1
    states = stack(x, w, top)[-1]
    return -sum(pick(log_p_tags(h, w, task), tags[:, t]) for t, h in enumerate(states))


def parser_loss(x: Sequence[Tensor], heads: Tensor, relations: Tensor, w: Weights) -> Tensor:
    """The first term of Eq. 8. `heads`, (B, T), are numbered from 1, and 0 is the root; `relations` is (B, T)."""
    h, W_d, r = stack(x, w, 3)[-1], w["heads.dep.match.weight"], w["heads.dep.root"]
    candidates = [r.expand_as(h[0]), *h]
    total = torch.zeros((), dtype=r.dtype)
    for t in range(len(h)):
        # m(t, j) = h_t' W_d h_j, for the root and all words but the t-th (Eq. 3)
        m = [((h[t] @ W_d.T) * candidate).sum(1) for candidate in candidates]
        m[t + 1] = torch.full_like(m[0], -torch.inf)
        total = total - pick(torch.stack(m, 1).log_softmax(1), heads[:, t])
        head = torch.stack(candidates, 1)[torch.arange(len(heads)), heads[:, t]]
        hidden = linear(torch.cat([h[t], head], 1), w, "heads.dep.hidden").relu()
        total = total - pick(linear(hidden, w, "heads.dep.relation").log_softmax(1), relations[:, t])
    return total


def maxout(x: Tensor, w: Weights, name: str, pieces: int) -> Tensor:
    """The largest of several linear maps."""
    return torch.stack(linear(x, w, f"{name}.pieces").chunk(pieces, 1)).amax(0)


def log_p_ratings(first: list[Tensor], second: list[Tensor], w: Weights, pieces: int) -> Tensor:
    """log p(h_s, h_s') (Eq. 4, 5)."""
    s, other = torch.stack(first).amax(0), torch.stack(second).amax(0)
    hidden = maxout(torch.cat([(s - other).abs(), s * other], 1), w, "heads.rel.hidden", pieces)
    return linear(hidden, w, "heads.rel.score").log_softmax(1)


def rating_loss(
    first: Sequence[Tensor], second: Sequence[Tensor], numbers: Tensor, w: Weights, pieces: int = 2
):
    """The first term of Eq. 9, with the target of Tai et al. 2015 for ratings from 1 to 5. `numbers` is (B,)."""
    log_p = log_p_ratings(stack(first, w, 4)[3], stack(second, w, 4)[3], w, pieces)
    total = torch.zeros((), dtype=log_p.dtype)
    for row, y in enumerate(numbers.tolist()):
        target = torch.zeros_like(log_p[row])
        target[int(y) - 1] = int(y) + 1 - y
        if y > int(y):
            target[int(y)] = y - int(y)
        total = total + sum(q * (q.log() - own) for q, own in zip(target, log_p[row], strict=True) if q > 0)
    return total


def entailment_loss(
    first: Sequence[Tensor], second: Sequence[Tensor], labels: Tensor, w: Weights, pieces: int = 2
):
    """The first term of Eq. 10. `labels` is (B,)."""
    layers, others = stack(first, w, 5), stack(second, w, 5)
    s, other = torch.stack(layers[4]).amax(0), torch.stack(others[4]).amax(0)
    y_rel = log_p_ratings(layers[3], others[3], w, pieces).exp() @ w["labels.rel"]
    d_2 = torch.cat([s - other, s * other, y_rel], 1)
    for at in range(3):
        d_2 = maxout(d_2, w, f"heads.ent.hidden.{at}", pieces)
    return -pick(linear(d_2, w, "heads.ent.softmax.score").log_softmax(1), labels)
