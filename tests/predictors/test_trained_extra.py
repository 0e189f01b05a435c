"""Without torch, the name of a trained model leads to a sentence about the extra."""

from __future__ import annotations

import sys

import pytest

from decabench.errors import DecabenchError, install_hint
from decabench.predictors.protocol import ModelOptions
from decabench.predictors.schemes import make_backend


def test_without_torch_it_says_which_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(DecabenchError) as caught:
        make_backend("trained:some/run", ModelOptions())
    assert str(caught.value) == (
        "A trained model requires torch: run pip install 'decabench[train]', or in a clone pip install -e '.[train]'."
    )


def test_the_hint_names_the_extra() -> None:
    assert install_hint("hf") == "run pip install 'decabench[hf]', or in a clone pip install -e '.[hf]'"
