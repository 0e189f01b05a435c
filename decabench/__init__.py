"""decabench: one model, ten and more language tasks, scores that agree with the official scorers.

The names are in `__init__.pyi`. Each loads on first use, so that importing this package loads nothing heavy.
"""

import lazy_loader

__version__ = "0.1.0"

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
