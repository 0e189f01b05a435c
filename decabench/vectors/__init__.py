"""Words as numbers and as vectors: the tokenizer, and vectors from files, from character n-grams and from encoders.

Needs the extra `models`. The names are in `__init__.pyi` and load on first use.
"""

from decabench.lazy import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
