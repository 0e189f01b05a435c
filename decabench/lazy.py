"""Import a package's public names, as listed in its `__init__.pyi`, on first use.

Apart from `importlib`, which `python -m` has already loaded, this module imports nothing, because it runs before
`__main__` removes the current folder from the path.
"""

from importlib import import_module


def lazy_names(package: str, file: str) -> tuple[object, object, list[str]]:
    """Return a package's `__getattr__`, `__dir__` and `__all__`, based on the imports in its stub file."""
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
