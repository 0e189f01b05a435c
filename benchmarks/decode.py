"""MQAN's greedy decoding against the paper's equations, which compute everything anew for each answer token.

    python benchmarks/decode.py --batches 8,32 --lengths 50,200 --answer 30

Both encode once, and their answers are compared before either is timed. No answer ends early.
"""

from __future__ import annotations

from models import Shape, main, make_model


def calls(shape: Shape, side: str, device: str):
    """One batch of answers."""
    import torch

    from benchmarks import equations
    from decabench.vectors.tokenizer import EOS

    model, batch = make_model(shape, device)
    model.generate.bias.data[EOS] = -1e3  # no answer ends early: every run generates as much
    weights = dict(model.named_parameters())
    heads = model.config.heads

    @torch.inference_mode()
    def slow(limit: int = shape.answer):
        return equations.greedy(batch, weights, heads, model.vocabulary, limit)

    def fast(limit: int = shape.answer):
        return model.generate_answers(batch, limit)[0].outputs

    if side == "yardstick":
        # Rounding may decide between two words of like probability, so nearly all answers must agree, not all.
        agreed = (slow(4) == fast(4)).all(1).float().mean().item()
        assert agreed > 0.8, f"both sides agree on only {agreed:.0%} of the answers"
    return slow if side == "yardstick" else fast


def tokens(shape: Shape) -> int:
    return shape.batch * shape.answer


if __name__ == "__main__":
    main(__doc__, __file__, calls, tokens)
