"""Token prices, from options or a table of yours, and the maximum cost of a run."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from decabench.errors import DecabenchError, require_name
from decabench.predictors import Answer, Outcome
from decabench.tables import TomlTable, read_toml


@dataclass(frozen=True)
class Prices:
    """Prices per million tokens, in any currency; None if a price was not given."""

    prompt: float | None = None
    """The price of prompt tokens."""
    completion: float | None = None
    """The price of generated tokens."""

    def cost(self, prompt_tokens: int | None, completion_tokens: int | None) -> float | None:
        """Return the cost of these tokens, or None if no price was given."""
        if self.prompt is None and self.completion is None:
            return None
        prompt = (self.prompt or 0) * (prompt_tokens or 0)
        return (prompt + (self.completion or 0) * (completion_tokens or 0)) / 1_000_000


def read_prices(path: str | Path, model: str) -> Prices:
    """Read the prices of a model from a TOML file with a table for each: `["gpt-x"]`, `in = 2.5`, `out = 10`.

    Raises DecabenchError if the file lacks the model, or has other content.
    """
    content = read_toml(Path(path), DecabenchError)
    require_name(model, content, f"price in {path} of the model")
    faults: list[str] = []
    table = TomlTable(content, "", faults).table(model)
    table.refuse_unknown(("in", "out"))
    found = Prices(table.number("in"), table.number("out"))
    table.raise_faults(str(path), DecabenchError)
    return found


@dataclass
class Budget:
    """A submission's cost until now, and its limit."""

    prices: Prices
    """The prices."""
    most: float
    """The maximum cost."""
    spent: float = 0.0
    """The cost of all answers until now, in this run and earlier ones."""

    @property
    def is_spent(self) -> bool:
        """Whether to stop asking questions."""
        return self.spent >= self.most

    def count(self, outcome: Outcome) -> None:
        """Count an outcome. Raises DecabenchError for an answer whose number of tokens is unknown."""
        if not isinstance(outcome, Answer):
            return
        if outcome.prompt_tokens is None and outcome.completion_tokens is None:
            raise DecabenchError(
                "--max-cost needs counts of tokens, but the server's replies have none: leave it out."
            )
        self.spent += self.prices.cost(outcome.prompt_tokens, outcome.completion_tokens) or 0.0
