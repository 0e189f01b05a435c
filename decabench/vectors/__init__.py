"""A tokenizer, a lexicon of numbered words, and word vectors from files, character n-grams and encoders.

Requires the extra `models`. The public names are listed in `__init__.pyi` and loaded on first use.
"""

from decabench.lazy import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
