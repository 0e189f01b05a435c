"""YAML: what is written is what PyYAML reads, whatever the texts and numbers."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from decabench.exchange.yaml_text import Tagged, dump_yaml

yaml = pytest.importorskip("yaml", reason="PyYAML is not installed")

TEXTS = st.text(st.characters(exclude_categories=["Cs"]))
SCALARS = TEXTS | st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False)
VALUES = st.recursive(SCALARS, lambda inner: st.lists(inner) | st.dictionaries(TEXTS, inner), max_leaves=20)


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.dictionaries(TEXTS, VALUES))
def test_it_is_read_back(value):
    assert (yaml.safe_load(dump_yaml(value)) or {}) == value


def test_it_is_read_as_it_looks():
    assert dump_yaml(
        {"task": "sst", "list": [{"a": 1, "b": [1.0, 1e-05]}, "x"], "load": Tagged("!f u.x")}
    ) == ('task: "sst"\nlist:\n  - a: 1\n    b:\n      - 1.0\n      - 1.0e-05\n  - "x"\nload: !f u.x\n')


def test_half_a_character_is_replaced():
    assert yaml.safe_load(dump_yaml({"a": "x\ud800"})) == {"a": "x\ufffd"}
