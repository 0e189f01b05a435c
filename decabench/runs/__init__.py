"""Run a model on tasks: plan the run, ask the questions, keep a journal, write the submission, and score it.

The names are in `__init__.pyi` and load on first use, because an experiment needs the scorers too.
"""

from decabench.lazy import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
