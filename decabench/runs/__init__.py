"""Run a model on tasks: plan the run, ask the questions, keep a journal, write the submission, and score it.

The names are in `__init__.pyi` and load on first use, because an experiment needs the scorers too.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
