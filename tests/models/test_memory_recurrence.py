import pytest

torch = pytest.importorskip("torch", reason="torch is not installed: pip install 'decabench[models]'")

from decabench.models.shared_memory import MemoryWeights, unroll

TASKS, TEXTS, LENGTH, M, D, SEGMENTS, WIDTH = 2, 3, 4, 3, 2, 4, 2


def make(memories=1):
    """Words, and weights as the arguments of `unroll`, flat."""
    torch.manual_seed(0)
    reads = WIDTH * memories
    sizes = [(TEXTS, LENGTH, M), (4 * D, M + D), (4 * D,), (2 * D, reads), (D, D)]
    for n in (D, WIDTH)[:memories]:
        sizes += [(SEGMENTS, WIDTH), (n, 3 * WIDTH), (1, 3 * WIDTH)]
    return [(torch.randn(TASKS, *size, dtype=torch.float64) * 0.6).requires_grad_() for size in sizes]


def run(tensors, reads="both"):
    memories = tuple(MemoryWeights(*tensors[at : at + 3]) for at in range(5, len(tensors), 3))
    return unroll(*tensors[:5], memories, reads)


@pytest.mark.parametrize("reads", ["one", "both"])
def test_the_gradient_against_finite_differences(reads):
    tensors = make() if reads == "one" else make(2)
    assert torch.autograd.gradcheck(lambda *given: run(given, reads)[0], tensors, fast_mode=True)
