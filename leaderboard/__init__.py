"""The leaderboard, a static site built from submissions.

Public names are listed in `__init__.pyi` and imported on first use.
"""

from decabench.lazy import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
