"""Words as numbers and as vectors: the tokenizer, and vectors from files, from character n-grams and from encoders.

Needs the extra `models`. The names are in `__init__.pyi` and load on first use.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
