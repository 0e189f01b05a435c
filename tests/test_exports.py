import ast
import importlib

import pytest

from tests.sources import imports, modules

OF_EXTRAS = ("inspect_ai", "matplotlib", "ray", "safetensors", "tensorboard", "torch", "transformers")


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
