import ast
import importlib
from types import ModuleType

import pytest

import decabench
from tests.sources import imports, modules

OF_EXTRAS = ("inspect_ai", "matplotlib", "ray", "safetensors", "tensorboard", "torch", "transformers")
PACKAGES = ["decabench.errors", "decabench.metrics", "decabench.tasks"]


def listed(module):
    """Return `__all__` as written in the source, or None."""
    for node in ast.parse(modules()[module].read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "__all__":
            return ast.literal_eval(node.value)
    return None


@pytest.mark.parametrize("module", modules())
def test_what_is_listed_exists(module):
    names = listed(module) or ()
    assert len(names) == len(set(names))
    try:
        loaded = importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name not in OF_EXTRAS:
            raise
        pytest.skip(f"needs {error.name}, which an extra brings")
    assert [name for name in names if not hasattr(loaded, name)] == []


@pytest.mark.parametrize("package", PACKAGES)
def test_a_package_lists_all_that_it_shows(package):
    loaded = importlib.import_module(package)
    shown = {
        name
        for name, value in vars(loaded).items()
        if not name.startswith("_")
        and not isinstance(value, ModuleType)
        and name not in ("ClassVar", "Iterable", "annotations")
    }
    assert shown - set(loaded.__all__) <= constants(package)


def constants(package):
    """Return the metric values in the package's modules, which METRICS lists."""
    from decabench.metrics import METRICS
    from decabench.metrics.base import Metric

    loaded = importlib.import_module(package)
    values = {name for name, value in vars(loaded).items() if isinstance(value, Metric)}
    assert all(vars(loaded)[name] in METRICS.values() for name in values)
    return values


@pytest.mark.parametrize("module", modules())
def test_no_folder_uses_the_private_names_of_another(module):
    path = modules()[module]
    for found in imports(path.read_text(encoding="utf-8"), module, path.name == "__init__.py"):
        away = found.name and modules().get(found.module, path).parent != path.parent
        if away and f"{found.module}.{found.name}" not in modules():
            names = listed(found.module)
            is_public = not found.name.startswith("_") if names is None else found.name in names
            assert is_public or found.name.startswith("__"), (
                f"{module} takes {found.name} from {found.module}"
            )


def test_versions_agree():
    import tomllib

    from tests.sources import ROOT

    with (ROOT / "pyproject.toml").open("rb") as file:
        assert tomllib.load(file)["project"]["version"] == decabench.__version__
