import torch
from torch.nn import functional as F

from decabench.models.mqan import Recurrence, StepWeights, advance

B, N, D, L = 3, 5, 4, 6


def inputs():
    """Everything in double precision; the second example has padding."""
    torch.manual_seed(0)

    def made(*shape):
        return torch.randn(*shape, dtype=torch.float64, requires_grad=True)

    closed = torch.zeros(B, L, 1, dtype=torch.float64)
    closed[1, 4:] = -torch.inf
    kept = F.dropout(torch.ones(N, B, D, dtype=torch.float64), 0.3)
    free = (made(B, N, 4 * D), made(B, D), made(B, D), made(B, L, D))
    return free, closed, kept, (made(2 * D, 4 * D), made(D, 2 * D), made(D, D), made(D))


def test_it_is_the_loop_that_autograd_follows():
    free, closed, kept, weights = inputs()
    given, h, c, memory = free
    context, rows = torch.zeros_like(h), []
    for t in range(N):
        moved = advance(
            given[:, t], torch.cat([context * kept[t], h], 1), c, memory, closed, StepWeights(*weights)
        )
        h, c, context = moved.h, moved.c, moved.context
        rows.append((h, context, moved.attention.squeeze(2)))
    looped = [torch.stack(parts, 1) for parts in zip(*rows, strict=True)]
    made = Recurrence.apply(*free, closed, kept, *weights)
    gradients = []
    for outputs in (looped, made):
        loss = sum((at + 1) * output.sin().sum() for at, output in enumerate(outputs))
        gradients.append(torch.autograd.grad(loss, (*free, *weights)))
    for one, two in zip((*looped, *gradients[0]), (*made, *gradients[1]), strict=True):
        torch.testing.assert_close(one, two, rtol=1e-10, atol=1e-12)
