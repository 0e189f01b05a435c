"""A tokenizer, a lexicon that assigns ids to words, and word vectors.

Word vectors come from files, character n-grams and encoders. Requires the `models` extra. The
public names are listed in `__init__.pyi` and loaded on first use.
"""

from decabench.lazy import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
