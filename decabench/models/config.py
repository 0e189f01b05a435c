"""What a model of the decathlon paper is made of: sizes, and which of its parts are there. Needs no torch."""

from __future__ import annotations

from dataclasses import dataclass

from decabench.errors import DecabenchError
from decabench.tasks.registry import named

__all__ = ["MODELS", "ModelConfig", "Parts"]


@dataclass(frozen=True)
class Parts:
    """Which parts of MQAN a model has: the columns of the paper's Table 2."""

    self_attention: bool
    """Self-attentive encoder and decoder layers (+SAtt)."""
    coattention: bool
    """Context and question as two inputs, coattended (+CAtt); one sequence of both otherwise."""
    question_pointer: bool
    """A second pointer, over the question (+QPtr)."""


MODELS: dict[str, Parts] = {
    "s2s": Parts(self_attention=False, coattention=False, question_pointer=False),
    "satt": Parts(self_attention=True, coattention=False, question_pointer=False),
    "catt": Parts(self_attention=True, coattention=True, question_pointer=False),
    "mqan": Parts(self_attention=True, coattention=True, question_pointer=True),
}
"""Each adds one part to the one before it."""


@dataclass(frozen=True)
class ModelConfig:
    """Sizes of a model. The defaults are those of Appendix D."""

    name: str = "mqan"
    """`mqan`, or one of its ablations: `s2s`, `satt`, `catt`."""
    dimension: int = 200
    """d: the width of every representation; even, as BiLSTMs give half of it a direction."""
    hidden: int = 150
    """f: the inner width of feed-forward networks."""
    heads: int = 3
    """p: attention heads, each of the whole width d (Eq. 23)."""
    layers: int = 2
    """Self-attentive layers, in the encoder and in the decoder alike."""
    dropout: float = 0.2
    """The share of activations that training drops."""
    vocabulary: int = 50_000
    """v: how many words the model can generate without pointing at them; fewer where training has fewer."""
    max_answer_tokens: int = 100
    """Where decoding stops if the model does not."""

    def __post_init__(self) -> None:
        named(self.name, MODELS, "model")
        for key in ("dimension", "hidden", "heads", "layers", "vocabulary", "max_answer_tokens"):
            if getattr(self, key) < 1:
                raise DecabenchError(f"The model's {key} is {getattr(self, key)}: give 1 or more.")
        if self.dimension % 2:
            raise DecabenchError(
                f"The model's dimension is {self.dimension}: give an even number, half for each direction."
            )
        if not 0 <= self.dropout < 1:
            raise DecabenchError(f"The model's dropout is {self.dropout}: give at least 0 and less than 1.")

    @property
    def parts(self) -> Parts:
        """Which parts the model has."""
        return MODELS[self.name]
