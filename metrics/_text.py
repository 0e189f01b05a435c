"""SQuAD's normalisation, which half of the metrics share."""

from __future__ import annotations

import re
import string

__all__ = ["normalize"]

_ARTICLES = re.compile(r"\b(a|an|the)\b")
_NO_PUNCTUATION = str.maketrans("", "", string.punctuation)


def normalize(text: str) -> str:
    """Lower-cased, without ASCII punctuation and the words a, an, the, whitespace squeezed.

    As the official SQuAD evaluate-v1.1 and decaNLP 2018 do it: in this order, so that `t.h.e` goes too.
    """
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_NO_PUNCTUATION)).split())
