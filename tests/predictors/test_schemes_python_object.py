"""Predictors that are Python objects: their descriptions before the first question."""

import hashlib
import sys
from types import ModuleType

import pytest

from decabench.errors import DecabenchError, ModelError, UnknownNameError
from decabench.files import file_digest
from decabench.predictors.protocol import Backend, ModelOptions
from decabench.predictors.schemes import make_backend


def described(reference, **options):
    return dict(make_backend(reference, ModelOptions(**options)).describe())


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
    with pytest.raises(DecabenchError, match=r"theirs:Model .*must be a classmethod .* --revision"):
        described("theirs:Model")  # the class is accepted, but no object is made yet
    named = described("theirs:Model", revision="v2")
    assert named["revision"] == "v2" and "says" not in named
    assert described("theirs:Named")["says"] == {"weights": "of the class"}


class NoConstructor:
    def predict(self, questions):
        return ["yes" for question in questions]


class ConstructorOfNothing(NoConstructor):
    def __init__(self):
        self.words = ()


class Optional(NoConstructor):
    def __init__(self, setting=None, beam=4):
        self.setting = setting


class Anything(NoConstructor):
    def __init__(self, *arguments, **settings):
        self.setting = arguments[0]


class NeedsMore(NoConstructor):
    def __init__(self, setting, path): ...


class NeedsAName(NoConstructor):
    def __init__(self, *, path): ...


def make_one():
    return NoConstructor()


@pytest.fixture
def factory(monkeypatch):
    def open_one(made):
        module = ModuleType("theirs")
        module.made = made
        monkeypatch.setitem(sys.modules, "theirs", module)
        with make_backend("theirs:made", ModelOptions()).open() as found:
            return found

    return open_one


@pytest.mark.parametrize("simple", [NoConstructor, ConstructorOfNothing, make_one])
def test_a_class_or_function_need_not_take_the_setting(factory, simple):
    assert factory(simple)("a setting").predict(["a question"]) == ["yes"]


@pytest.mark.parametrize("able", [Optional, Anything])
def test_whatever_can_take_the_setting_is_given_it(factory, able):
    assert factory(able)("a setting").setting == "a setting"


@pytest.mark.parametrize(
    ("greedy", "parameters"), [(NeedsMore, r"\(setting, path\)"), (NeedsAName, r"\(\*, path\)")]
)
def test_a_constructor_that_needs_more_is_told(factory, greedy, parameters):
    with pytest.raises(
        DecabenchError, match=f"theirs:made has the signature {parameters}, .* Add default values"
    ):
        factory(greedy)


def test_a_function_that_answers_questions_is_told_what_to_return(factory):
    def answer(questions):
        return ["yes" for question in questions]

    with pytest.raises(
        ModelError, match=r"theirs:made failed .* must return a predictor, which has a method"
    ):
        factory(answer)(object())


class Says:
    def __init__(self, said):
        self.said = said

    def describe(self):
        if isinstance(self.said, BaseException):
            raise self.said
        return self.said

    def predict(self, questions):
        return []


@pytest.fixture
def said(monkeypatch):
    def make(value):
        module = ModuleType("theirs")
        module.model = Says(value)
        monkeypatch.setitem(sys.modules, "theirs", module)
        return described("theirs:model")["says"]

    return make


@pytest.mark.parametrize(
    ("value", "sentence"),
    [
        (OSError("no\nweights"), r"failed \(OSError: no weights\)"),
        (SystemExit(0), r"failed \(SystemExit: 0\)"),
        ("a text", r"failed \(ValueError: .*returns a dict of strings"),
        (None, r"failed \(TypeError: 'NoneType'"),
        ({"x": float("nan")}, r"failed \(ValueError: Out of range"),
        ({"x": "\ud800"}, r"failed \(UnicodeEncodeError"),
    ],
)
def test_descriptions_that_are_refused(said, value, sentence):
    with pytest.raises(DecabenchError, match=rf"describe\(\) of theirs:model .*{sentence}"):
        said(value)


@pytest.mark.parametrize(
    ("code", "is_apart"),
    [
        ("model = Base('OLD')", True),
        ("import functools\nmodel = functools.partial(functools.partial(make, 'OLD'))", True),
        ("Model = model = Base", True),
        ("class model(Base):\n    pass", False),
    ],
)
def test_the_named_file_decides_and_that_of_its_class(tmp_path, monkeypatch, code, is_apart):
    """A constant in the named module determines the answers, even if the object's class is in another module."""
    base, named = tmp_path / "their_base.py", tmp_path / "their_named.py"
    base.write_text(
        "class Base:\n    def __init__(self, word): ...\n    def predict(self, questions): ...\n"
        "def make(word, setting):\n    return Base(word)\n"
    )
    named.write_text(f"from their_base import Base, make\n{code}\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    for name in ("their_base", "their_named"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    expected = {"source": sha256(named)} | ({"code": sha256(base)} if is_apart else {})
    assert described("their_named:model") == expected


def sha256(path):
    return f"sha256:{hashlib.sha256(path.read_bytes()).hexdigest()}"


@pytest.mark.parametrize("reference", ["majority", "json:JSONDecoder"])
@pytest.mark.parametrize(
    ("option", "flag"),
    [
        ("temperature", "--temperature"),
        ("model", "--model"),
        ("device", "--device"),
        ("timeout", "--timeout"),
    ],
)
def test_options_that_mean_nothing_are_refused(reference, option, flag):
    with pytest.raises(DecabenchError, match=f"{reference} does not use {flag}"):
        make_backend(reference, ModelOptions(**{option: 1.5}))


def test_a_misspelt_scheme_is_told_and_a_module_of_that_name_is_found(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(
        UnknownNameError, match=r"'training:small' can't be imported .* Did you mean trained:small\?"
    ):
        make_backend("training:small", ModelOptions())
    (tmp_path / "training.py").write_text("class small:\n    def predict(self, questions): ...\n")
    monkeypatch.syspath_prepend(tmp_path)
    assert isinstance(make_backend("training:small", ModelOptions()), Backend)
