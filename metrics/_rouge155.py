"""A Python version of ROUGE-1.5.5 for single summaries: stemming, tokens, n-gram overlap and summary-level LCS.

The stemmer is Porter's (1980), with the deviations of the Perl script.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Container, Mapping, Sequence
from functools import cache
from itertools import chain, pairwise
from pathlib import Path

try:
    from ._speedups import count_rouge
except ImportError:  # built without a compiler
    _compiled = False
else:
    _compiled = True

_CONSONANTS = "[^aeiou][^aeiouy]*"
_VOWELS = "[aeiouy][aeiou]*"
_MEASURE_OVER_0 = re.compile(f"({_CONSONANTS})?{_VOWELS}{_CONSONANTS}")
_MEASURE_IS_1 = re.compile(f"({_CONSONANTS})?{_VOWELS}{_CONSONANTS}({_VOWELS})?$")
_MEASURE_OVER_1 = re.compile(f"({_CONSONANTS})?{_VOWELS}{_CONSONANTS}{_VOWELS}{_CONSONANTS}")
_HAS_VOWEL = re.compile(f"({_CONSONANTS})?[aeiouy]")
_SHORT = re.compile(f"{_CONSONANTS}[aeiouy][^aeiouwxy]$")
_DOUBLED = re.compile(r"([^aeiouylsz])\1$")

_STEP_2 = {
    "ational": "ate", "tional": "tion", "enci": "ence", "anci": "ance", "izer": "ize", "bli": "ble",
    "alli": "al", "entli": "ent", "eli": "e", "ousli": "ous", "ization": "ize", "ation": "ate", "ator": "ate",
    "alism": "al", "iveness": "ive", "fulness": "ful", "ousness": "ous", "aliti": "al", "iviti": "ive",
    "biliti": "ble", "logi": "log",
}  # fmt: skip
_STEP_3 = {"icate": "ic", "ative": "", "alize": "al", "iciti": "ic", "ical": "ic", "ful": "", "ness": ""}
# The leftmost match of an alternation anchored at the end is the longest suffix.
_SUFFIX_2 = re.compile(f"({'|'.join(_STEP_2)})$")
_SUFFIX_3 = re.compile(f"({'|'.join(_STEP_3)})$")
_SUFFIX_4 = re.compile("(al|ance|ence|er|ic|able|ible|ant|ement|ou|ism|ate|iti|ous|ive|ize)$")


def stem(word: str) -> str:
    """Stem a lowercase word. Words with fewer than three letters are returned unchanged."""
    if len(word) < 3:
        return word
    initial_y = word.startswith("y")
    if initial_y:  # an initial y is a consonant, so uppercase it to keep it out of the vowel patterns
        word = "Y" + word[1:]
    word = _cut_past_and_gerund(_cut_plural(word))
    if word.endswith("y") and _HAS_VOWEL.match(word[:-1]):
        word = word[:-1] + "i"
    word = _map_suffix(word, _SUFFIX_2, _STEP_2)
    word = _map_suffix(word, _SUFFIX_3, _STEP_3)
    word = _cut_final_e(_cut_long_suffixes(word))
    return "y" + word[1:] if initial_y else word


def _cut_plural(word: str) -> str:
    """Apply Porter's step 1a."""
    if word.endswith(("sses", "ies")):
        return word[:-2]
    return word[:-1] if word.endswith("s") and not word.endswith("ss") else word


def _cut_past_and_gerund(word: str) -> str:
    """Apply Porter's step 1b."""
    if word.endswith("eed"):
        return word[:-1] if _MEASURE_OVER_0.match(word[:-3]) else word
    if not word.endswith(("ed", "ing")):
        return word
    left = word[:-2] if word.endswith("ed") else word[:-3]
    if not _HAS_VOWEL.match(left):
        return word
    if left.endswith(("at", "bl", "iz")):
        return left + "e"
    if _DOUBLED.search(left):
        return left[:-1]
    return left + "e" if _SHORT.match(left) else left


def _map_suffix(word: str, pattern: re.Pattern[str], mapping: dict[str, str]) -> str:
    """Apply Porter's step 2 or 3."""
    found = pattern.search(word)
    if found and _MEASURE_OVER_0.match(word[: found.start()]):
        return word[: found.start()] + mapping[found[1]]
    return word


def _cut_long_suffixes(word: str) -> str:
    """Apply Porter's step 4."""
    found = _SUFFIX_4.search(word)
    if found and _MEASURE_OVER_1.match(word[: found.start()]):
        word = word[: found.start()]
    word = _cut_suffix(word, "ment")
    if word.endswith("ent"):
        return _cut_suffix(word, "ent")
    return _cut_suffix(word, "ion") if word.endswith(("sion", "tion")) else word


def _cut_suffix(word: str, suffix: str) -> str:
    left = word[: -len(suffix)]
    return left if word.endswith(suffix) and _MEASURE_OVER_1.match(left) else word


def _cut_final_e(word: str) -> str:
    """Apply Porter's step 5."""
    if word.endswith("e"):
        left = word[:-1]
        if _MEASURE_OVER_1.match(left) or (_MEASURE_IS_1.match(left) and not _SHORT.match(left)):
            word = left
    return word[:-1] if word.endswith("ll") and _MEASURE_OVER_1.match(word) else word


Sentences = list[list[str]]
"""Sentences of stemmed tokens."""

_WORDNET = Path(__file__).parent / "data" / "wordnet-2.0"
# Later lists and lines override earlier lists and lines, as in the scorer behind the published scores: testes
# (verb.exc) and offer (adj.exc) stay unchanged, and best and better become good (adj.exc).
_LISTS = ("adv.exc", "noun.exc", "verb.exc", "adj.exc")
_TO_TOKENS = bytes(
    ord(chr(byte).lower()) if byte < 128 and chr(byte).isalnum() else 32 for byte in range(256)
)
"""A table for `bytes.translate` that lowercases ASCII letters, keeps digits and turns all other bytes into spaces.

The text is translated as bytes because the Perl script reads bytes.
"""
_TO_SENTENCES = {
    separator: _TO_TOKENS[: ord(separator)] + separator.encode() + _TO_TOKENS[ord(separator) + 1 :]
    for separator in ".\n"
}
"""For each character that can end a sentence, a copy of `_TO_TOKENS` that keeps this character."""


@cache
def _irregular_forms() -> dict[str, str]:
    forms: dict[str, str] = {}
    for name in _LISTS:
        lines = (_WORDNET / name).read_text("ascii").splitlines()
        forms.update((words[0], words[1]) for words in map(str.split, lines))
    return forms


_MOST_WORDS = 200_000
"""The maximum number of cached words, a few times the size of CNN/DailyMail's vocabulary.

The cache needs a limit because answers may contain millions of distinct words.
"""


_LONGEST_WORD = 64
"""The maximum length of cached words. Longer words can take a megabyte each and rarely occur again."""


class _BaseForms(dict[str, str]):
    """A cache that maps words to the normalized forms that ROUGE compares.

    Irregular words are reduced to their listed base form, and other words to their stem. Words of up to
    three characters are not changed.
    """

    def __missing__(self, word: str) -> str:
        form = word if len(word) <= 3 else _irregular_forms().get(word) or stem(word)
        if len(word) <= _LONGEST_WORD:
            if len(self) >= _MOST_WORDS:
                self.clear()
            self[word] = form
        return form


_base_form = _BaseForms().__getitem__


def sentence_tokens(text: str, separator: str) -> Sentences:
    r"""Split a text into sentences at "." or "\n", and each sentence into normalized words.

    Words are runs of ASCII letters and digits, lowercased and reduced to their base form or stem. Empty
    sentences are left out.
    """
    plain = text.encode("utf-8", "surrogatepass").translate(_TO_SENTENCES[separator]).decode("ascii")
    return [list(map(_base_form, words)) for part in plain.split(separator) if (words := part.split())]


def precision_recall_f1(hits: int, candidate: int, reference: int) -> tuple[float, float, float]:
    """Compute precision, recall and F1, 0-1, rounded to five decimal places.

    F1 is computed from the rounded precision and recall, as in the Perl script.
    """
    precision = round(hits / candidate, 5) if candidate else 0.0
    recall = round(hits / reference, 5) if reference else 0.0
    if precision + recall == 0:
        return (precision, recall, 0.0)
    return (precision, recall, round(precision * recall / (0.5 * precision + 0.5 * recall), 5))


Counts = tuple[int, int, int]
"""The number of hits, the number of units in the candidate, and the number of units in the reference."""


def count(candidate: str, references: Sequence[str], separator: str) -> list[tuple[Counts, Counts, Counts]]:
    r"""Count matching unigrams, bigrams and LCS tokens for each reference. Sentences end with "." or "\n"."""
    left = sentence_tokens(candidate, separator)
    count_pair = count_rouge if _compiled else count_in_python
    return [count_pair(left, sentence_tokens(reference, separator)) for reference in references]


def count_in_python(candidate: Sentences, reference: Sentences) -> tuple[Counts, Counts, Counts]:
    """Count matching unigrams, bigrams and LCS tokens, like the compiled `count_rouge`."""
    words, pairs = overlap(candidate, reference, 1), overlap(candidate, reference, 2)
    return words, pairs, (lcs_hits(candidate, reference), *words[1:])


def overlap(candidate: Sentences, reference: Sentences, order: int) -> tuple[int, int, int]:
    """Count clipped hits, candidate n-grams and reference n-grams, for unigrams or bigrams."""
    left: Sequence[object] = list(chain(*candidate))
    right: Sequence[object] = list(chain(*reference))
    if order == 2:
        left, right = list(pairwise(left)), list(pairwise(right))
    counts = Counter(right)
    hits = sum(min(count, counts[gram]) for gram, count in Counter(left).items() if gram in counts)
    return (hits, len(left), len(right))


def lcs_hits(candidate: Sentences, reference: Sentences) -> int:
    """Count the tokens in each reference sentence that are on its LCS with any candidate sentence.

    Hits are clipped, so that each token in either text counts only once.
    """
    left, right = Counter(chain(*candidate)), Counter(chain(*reference))
    others = [(other, _find_places(other, right)) for other in candidate]
    hits = 0
    for sentence in reference:
        marked = set[int]().union(*(_mark(sentence, other, places) for other, places in others))
        for position in sorted(marked):
            token = sentence[position]
            if left[token] > 0 and right[token] > 0:
                hits += 1
                left[token] -= 1
                right[token] -= 1
    return hits


def _mark(reference: Sequence[str], candidate: Sequence[str], places: Mapping[str, int]) -> list[int]:
    """Return the positions of the reference's tokens on its LCS with the candidate, last first.

    If several common subsequences are equally long, this function chooses the same one as the Perl script. In the table
    of LCS lengths, rows are the reference's tokens and columns the candidate's, and the traceback moves up if there is
    a tie.

    A row is stored as an integer (Hyyrö 2004) in which bit j is clear if the length in column j + 1 is one more than in
    column j. A length can therefore be read by counting bits, and computing a row takes a single addition. `places`
    must contain the result of `_find_places` for the candidate and all tokens in the reference.
    """
    rows = _lcs_rows(reference, places, len(candidate))
    marked = []
    i, j = len(reference), len(candidate)
    below = (1 << j) - 1  # a mask for the columns up to j
    length = j - rows[i].bit_count()
    while length:
        if reference[i - 1] == candidate[j - 1]:
            i, j, below, length = i - 1, j - 1, below >> 1, length - 1
            marked.append(i)
        elif not rows[i] >> (j - 1) & 1 or j - (rows[i - 1] & below).bit_count() == length:
            i -= 1
        else:
            j, below = j - 1, below >> 1
    return marked


def _find_places(sentence: Sequence[str], wanted: Container[str]) -> dict[str, int]:
    """Return a mapping from each wanted token in a sentence to a bit mask of its positions."""
    places: dict[str, int] = {}
    for column, token in enumerate(sentence):
        if token in wanted:
            places[token] = places.get(token, 0) | 1 << column
    return places


def _lcs_rows(reference: Sequence[str], places: Mapping[str, int], columns: int) -> list[int]:
    """Return the rows of the table of LCS lengths, encoded as integers."""
    row = full = (1 << columns) - 1
    rows = [row]
    for token in reference:
        if token in places:
            matches = row & places[token]
            row = (row + matches | row - matches) & full
        rows.append(row)
    return rows
