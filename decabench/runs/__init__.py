"""Run models on tasks: plan the run, ask the questions, keep a journal, write the submission and score it.

Public names are listed in `__init__.pyi`. They are imported lazily because experiments also load the scorers.
"""

from decabench.lazy import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
