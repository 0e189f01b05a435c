"""MQAN's training step (forward, backward, Adam) against the paper's equations with loops over time steps.

    python benchmarks/train_step.py --batches 8,32 --lengths 50,200

Both have the same weights, batch and optimizer; their losses are checked to be equal before either is timed. The
yardstick is the equations written plainly.
"""

from __future__ import annotations

from models import Shape, main, make_model


def calls(shape: Shape, side: str, device: str):
    """One training step."""
    import torch

    from benchmarks import equations

    model, batch = make_model(shape, device)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4, betas=(0.9, 0.98), eps=1e-9, fused=True)
    weights = dict(model.named_parameters())

    def fast():
        return -model.log_likelihood(batch).mean()

    def slow():
        return equations.negative_log_likelihood(batch, weights, model.config.heads).mean()

    with torch.no_grad():
        torch.testing.assert_close(fast(), slow(), atol=1e-4, rtol=1e-4)
    loss = slow if side == "yardstick" else fast

    def step():
        optimizer.zero_grad(set_to_none=True)
        loss().backward()
        optimizer.step()

    return step


def tokens(shape: Shape) -> int:
    return shape.batch * (shape.length + shape.question + shape.answer)


if __name__ == "__main__":
    main(__doc__, __file__, calls, tokens)
