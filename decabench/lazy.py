"""Public names of a package that load when they are first used, as its `__init__.pyi` lists them.

This imports only modules that Python has already loaded, because it runs before `__main__` removes the current
folder from the path.
"""

from importlib import import_module


def lazy_names(package: str, file: str) -> tuple[object, object, list[str]]:
    """Return `__getattr__`, `__dir__` and `__all__` from lines such as `from .file import name as name`."""
    places: dict[str, str] = {}
    with open(f"{file}i", encoding="utf-8") as stub:
        for words in map(str.split, stub):
            if words[:1] == ["from"]:
                places[words[-1]] = f"{package}{words[1]}"

    def __getattr__(name: str) -> object:
        if name not in places:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(places[name]), name)

    def __dir__() -> list[str]:
        return sorted(places)

    return __getattr__, __dir__, sorted(places)
