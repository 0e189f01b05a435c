"""The equations of the decathlon paper as printed, with Python loops over time steps and answer tokens.

This shares only the names of weights with `decabench.models`, no code. Examples in a batch must have equal
lengths, because there is no padding. Nothing is cached between answer tokens. B examples; l, m and n tokens of
context, question and answer.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch
from torch import Tensor

Weights = Mapping[str, Tensor]
PAD, UNKNOWN, INIT, EOS = range(4)


def lstm(
    x: Tensor, w: Weights, name: str, suffix: str = "", h: Tensor | None = None, c: Tensor | None = None
):
    """(B, T, d_in) -> (B, T, d_out) and the last h and c, one step after the other (footnote 5)."""
    w_ih, w_hh = w[f"{name}.weight_ih{suffix}"], w[f"{name}.weight_hh{suffix}"]
    b_ih, b_hh = w[f"{name}.bias_ih{suffix}"], w[f"{name}.bias_hh{suffix}"]
    h = x.new_zeros(x.shape[0], w_hh.shape[1]) if h is None else h
    c = torch.zeros_like(h) if c is None else c
    out = []
    for t in range(x.shape[1]):
        gates = x[:, t] @ w_ih.T + b_ih + h @ w_hh.T + b_hh
        i, f, g, o = gates.chunk(4, -1)
        c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
        h = torch.sigmoid(o) * torch.tanh(c)
        out.append(h)
    return torch.stack(out, 1), h, c


def bilstm(x: Tensor, w: Weights, name: str) -> tuple[Tensor, Tensor, Tensor]:
    there, h1, c1 = lstm(x, w, f"{name}.lstm", "_l0")
    back, h2, c2 = lstm(x.flip(1), w, f"{name}.lstm", "_l0_reverse")
    return torch.cat([there, back.flip(1)], -1), torch.cat([h1, h2], -1), torch.cat([c1, c2], -1)


def linear(x: Tensor, w: Weights, name: str) -> Tensor:
    y = x @ w[f"{name}.weight"].T
    return y + w[f"{name}.bias"] if f"{name}.bias" in w else y


def layer_norm(x: Tensor, w: Weights, name: str) -> Tensor:
    centred = x - x.mean(-1, keepdim=True)
    scale = (centred.pow(2).mean(-1, keepdim=True) + 1e-5).sqrt()
    return centred / scale * w[f"{name}.weight"] + w[f"{name}.bias"]


def attention(x: Tensor, y: Tensor, z: Tensor, causal: bool) -> Tensor:
    """Eq. 22"""
    scores = x @ y.transpose(-1, -2) / math.sqrt(x.shape[-1])
    if causal:  # footnote 3
        later = torch.ones(scores.shape[-2:]).triu(1).bool()
        scores = torch.where(later, torch.tensor(-1e30), scores)
    return torch.softmax(scores, -1) @ z


def multi_head(x: Tensor, y: Tensor, w: Weights, name: str, heads: int, causal: bool = False) -> Tensor:
    """Eq. 23, head by head; without an output projection the heads split d, as in the authors' code"""
    d, made = x.shape[-1], []
    if not has(w, f"{name}.output."):
        projected = (y @ w[f"{name}.{part}.weight"].T for part, y in (("query", x), ("key", y), ("value", y)))
        for q, k, v in zip(*(each.chunk(heads, -1) for each in projected), strict=True):
            made.append(attention(q * math.sqrt(q.shape[-1] / d), k, v, causal))  # scores / sqrt(d)
        return torch.cat(made, -1)
    for j in range(heads):
        own = slice(j * d, (j + 1) * d)
        q, k, v = (w[f"{name}.{part}.weight"][own].T for part in ("query", "key", "value"))
        made.append(attention(x @ q, y @ k, y @ v, causal))
    return torch.cat(made, -1) @ w[f"{name}.output.weight"].T


def ffn(x: Tensor, w: Weights, name: str) -> Tensor:
    """Eq. 25"""
    x = layer_norm(x, w, f"{name}.norm_in")
    inner = torch.clamp(linear(x, w, f"{name}.inner"), min=0)
    return layer_norm(linear(inner, w, f"{name}.outer") + x, w, f"{name}.norm_out")


def has(w: Weights, prefix: str) -> bool:
    return any(name.startswith(prefix) for name in w)


def depth(w: Weights, prefix: str) -> int:
    """Return the number of layers `prefix.0`, `prefix.1`, ..."""
    return len({name[len(prefix) + 1 :].split(".")[0] for name in w if name.startswith(f"{prefix}.")})


def encode(context: Tensor, question: Tensor, w: Weights, heads: int):
    """C_fin, Q_fin, the last h and c, and the outputs of the context's self-attentive layers.

    Of (B, l, demb) and (B, m, demb); Q_fin is None where the model points at the context only.
    """
    layers = []
    coattends, points = has(w, "encoder.coattention"), has(w, "decoder.question_query")
    if not coattends:
        context = torch.cat([context, question], 1)
    c_proj, q_proj = (linear(x, w, "encoder.project") for x in (context, question))  # Eq. 15
    c_out, h, c = bilstm(c_proj, w, "encoder.independent")  # Eq. 16
    q_out = None
    if coattends:
        q_ind = bilstm(q_proj, w, "encoder.independent")[0]
        rows = (len(context), 1, c_out.shape[-1])
        cd = torch.cat([w["encoder.coattention.context_dummy"].expand(*rows), c_out], 1)
        qd = torch.cat([w["encoder.coattention.question_dummy"].expand(*rows), q_ind], 1)
        if has(w, "encoder.coattention.project."):
            qd = torch.tanh(linear(qd, w, "encoder.coattention.project"))
        s_cq = torch.softmax(cd @ qd.transpose(1, 2), 1)  # Eq. 17: columns sum to 1
        s_qc = torch.softmax(qd @ cd.transpose(1, 2), 1)
        c_sum, q_sum = s_cq.transpose(1, 2) @ cd, s_qc.transpose(1, 2) @ qd  # Eq. 18
        c_coa, q_coa = s_qc.transpose(1, 2) @ c_sum, s_cq.transpose(1, 2) @ q_sum  # Eq. 19
        joined = torch.cat([c_proj, c_out, q_sum[:, 1:], c_coa[:, 1:]], -1)
        c_out = bilstm(joined, w, "encoder.compress.context")[0]  # Eq. 20
        if points:
            joined = torch.cat([q_proj, q_ind, c_sum[:, 1:], q_coa[:, 1:]], -1)
            q_out = bilstm(joined, w, "encoder.compress.question")[0]  # Eq. 21
    if has(w, "encoder.attend"):
        for layer in range(depth(w, "encoder.attend.context")):  # Eq. 24 and 26
            name = f"encoder.attend.context.{layer}"
            mha = multi_head(c_out, c_out, w, f"{name}.attention", heads)
            c_out = ffn(c_out + mha, w, f"{name}.feed_forward")
            layers.append(c_out)
            if q_out is not None:
                name = f"encoder.attend.question.{layer}"
                mha = multi_head(q_out, q_out, w, f"{name}.attention", heads)
                q_out = ffn(q_out + mha, w, f"{name}.feed_forward")
        c_out, h, c = bilstm(c_out, w, "encoder.final.context")  # Eq. 27
        if q_out is not None:
            q_out = bilstm(q_out, w, "encoder.final.question")[0]
    return c_out, q_out, h, c, layers


def position(t: int, k: int, d: int) -> float:
    return (
        math.sin(t / 10_000 ** (k / (2 * d))) if k % 2 == 0 else math.cos(t / 10_000 ** ((k - 1) / (2 * d)))
    )


def decode(
    encoded,
    answer: Tensor,
    context_words: Tensor,
    question_words: Tensor,
    size: int,
    w: Weights,
    heads: int,
    layer_by_layer: bool = False,
):
    """p(w_t) of every step, a list of (B, size), for answer vectors (B, n, demb) from <init> on; `size` is v + o."""
    c_fin, q_fin, h, cell, encoder_layers = encoded
    if not has(w, "encoder.coattention"):
        context_words = torch.cat([context_words, question_words], 1)
    a = linear(answer, w, "decoder.project")  # Eq. 2
    if has(w, "decoder.layers"):
        d = a.shape[-1]
        a = a + torch.tensor([[position(t, k, d) for k in range(d)] for t in range(a.shape[1])])  # Eq. 3
        for layer in range(depth(w, "decoder.layers")):
            name = f"decoder.layers.{layer}"
            mha = multi_head(a, a, w, f"{name}.over_answer", heads, causal=True)  # Eq. 4
            a = mha + a
            if has(w, f"{name}.norm."):
                a = layer_norm(a, w, f"{name}.norm")
            read = encoder_layers[layer] if layer_by_layer else c_fin
            ac = multi_head(a, read, w, f"{name}.over_context", heads)  # Eq. 5
            a = ffn(ac + a, w, f"{name}.feed_forward")  # Eq. 6
    v = w["generate.weight"].shape[0]
    state, made = torch.zeros_like(h), []
    for t in range(a.shape[1]):
        _, h, cell = lstm(torch.cat([a[:, t], state], -1)[:, None], w, "decoder.lstm", "", h, cell)  # Eq. 7
        alpha_c = torch.softmax(
            (c_fin @ linear(h, w, "decoder.context_query")[:, :, None]).squeeze(-1), -1
        )  # Eq. 8
        summed = (c_fin * alpha_c[:, :, None]).sum(1)
        state = torch.tanh(linear(torch.cat([summed, h], -1), w, "decoder.context_state"))  # Eq. 9
        p_v = torch.softmax(linear(state, w, "generate"), -1)  # Eq. 11
        p_v = torch.cat([p_v, p_v.new_zeros(len(p_v), size - v)], -1)
        p_c = torch.zeros_like(p_v).scatter_add(1, context_words, alpha_c)  # Eq. 10
        gamma = torch.sigmoid(
            linear(torch.cat([state, h, a[:, t]], -1), w, "decoder.vocabulary_switch")
        )  # Eq. 12
        pointed = p_c
        if q_fin is not None:
            query = linear(h, w, "decoder.question_query")
            alpha_q = torch.softmax((q_fin @ query[:, :, None]).squeeze(-1), -1)  # Eq. 8
            summed = (q_fin * alpha_q[:, :, None]).sum(1)
            asked = torch.tanh(linear(torch.cat([summed, h], -1), w, "decoder.question_state"))  # Eq. 9
            p_q = torch.zeros_like(p_v).scatter_add(1, question_words, alpha_q)  # Eq. 10
            lam = torch.sigmoid(
                linear(torch.cat([asked, h, a[:, t]], -1), w, "decoder.context_switch")
            )  # Eq. 12
            pointed = lam * p_c + (1 - lam) * p_q
        made.append(gamma * p_v + (1 - gamma) * pointed)  # Eq. 13
    return made


def negative_log_likelihood(batch, w: Weights, heads: int, layer_by_layer: bool = False) -> Tensor:
    """-log p(a_t) of every token, (B, n), of a batch without padding and with its two inputs apart."""
    vectors = batch.vectors
    encoded = encode(vectors[batch.context], vectors[batch.question], w, heads)
    size = w["generate.weight"].shape[0] + len(batch.others)
    words = (batch.context_output, batch.question_output)
    steps = decode(encoded, vectors[batch.answer], *words, size, w, heads, layer_by_layer)
    at = [-p.gather(1, batch.target[:, t : t + 1]).log() for t, p in enumerate(steps)]
    return torch.cat(at, 1)


def greedy(batch, w: Weights, heads: int, table: Tensor, limit: int) -> Tensor:
    """(B, limit): the likeliest words, everything computed again for each; `table` has the vocabulary's vectors.

    The encoder runs once. <eos> does not stop decoding, because other answers may not have ended.
    """
    vectors = batch.vectors
    encoded = encode(vectors[batch.context], vectors[batch.question], w, heads)
    table = torch.cat([table, vectors[batch.others]])
    said = torch.full((len(batch.context), 1), INIT)
    for _ in range(limit):
        p = decode(encoded, table[said], batch.context_output, batch.question_output, len(table), w, heads)[
            -1
        ]
        p[:, [PAD, UNKNOWN, INIT]] = 0
        said = torch.cat([said, p.argmax(-1)[:, None]], 1)
        if bool((said == EOS).any(1).all()):
            break
    return said[:, 1:]
