"""Predictors that are Python objects: what is known of them before they are asked."""

import sys
from importlib.metadata import EntryPoint
from types import ModuleType

import pytest

import decabench
from decabench.errors import UnknownNameError
from decabench.fingerprint import file_digest
from decabench.predictor import Backend
from decabench.predictors import PREDICTORS, SCHEMES, make_backend, python
from decabench.predictors.options import ModelOptions


def described(reference, **options):
    return dict(make_backend(reference, ModelOptions(**options)).describe())


def test_it_is_a_backend():
    backend = make_backend("majority", ModelOptions())
    assert isinstance(backend, Backend) and not backend.prompted


def test_ours_are_known_by_the_version():
    assert described("majority") == {"decabench": decabench.__version__}


def test_a_file_is_known_by_its_bytes(tmp_path, monkeypatch):
    path = tmp_path / "their_model.py"
    path.write_text(
        "class Model:\n    def __init__(self, setting): ...\n    def predict(self, questions): ...\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    assert described("their_model:Model") == {"source": file_digest(path)}
    assert described("their_model:Model", revision="v2") == {"source": file_digest(path), "revision": "v2"}


def test_what_it_says_of_itself(monkeypatch):
    class Model:
        def describe(self):
            return {"weights": "abc"}

        def predict(self, questions):
            return []

    class Named(Model):
        @classmethod
        def describe(cls):
            return {"weights": "of the class"}

    module = ModuleType("theirs")
    module.model, module.Model, module.Named = Model(), Model, Named
    monkeypatch.setitem(sys.modules, "theirs", module)
    assert described("theirs:model")["says"] == {"weights": "abc"}
    assert "says" not in described("theirs:Model")  # it takes an object, and none is made yet
    assert described("theirs:Named")["says"] == {"weights": "of the class"}


def test_an_entry_point_is_known_by_its_target(monkeypatch):
    point = EntryPoint("theirs", "decabench.predictors.baselines:lead_3", "decabench.predictors")
    monkeypatch.setattr(python, "plugin_names", lambda group: {"theirs": point})
    assert described("theirs") == {"entry_point": "decabench.predictors.baselines:lead_3"}


def test_an_unknown_name_lists_what_there_is():
    with pytest.raises(UnknownNameError) as error:
        described("nobody")
    for name in (*PREDICTORS, *SCHEMES):
        assert name in str(error.value)


def test_opening_makes_one_a_setting():
    made = []

    class Model:
        def __init__(self, setting):
            made.append(setting)

        def predict(self, questions):
            return []

    module = ModuleType("theirs")
    module.Model = Model
    sys.modules["theirs"] = module
    try:
        with make_backend("theirs:Model", ModelOptions()).open() as factory:
            assert isinstance(factory("a setting"), Model)
    finally:
        del sys.modules["theirs"]
    assert made == ["a setting"]
