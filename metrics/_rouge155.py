"""ROUGE-1.5.5 of one summary, without Perl: stems, tokens, n-gram overlap and summary-level LCS.

The stemmer is Porter's (1980) with the script's deviations.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Container, Mapping, Sequence
from functools import cache, lru_cache
from itertools import chain, pairwise
from pathlib import Path

try:
    from ._speedups import rouge_counts
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
    """Stem a lower-case word; words of fewer than three letters are returned unchanged."""
    if len(word) < 3:
        return word
    initial_y = word.startswith("y")
    if initial_y:  # a consonant, which the patterns treat as such if it is upper-case
        word = "Y" + word[1:]
    word = _cut_past_and_gerund(_cut_plural(word))
    if word.endswith("y") and _HAS_VOWEL.match(word[:-1]):
        word = word[:-1] + "i"
    word = _map_suffix(word, _SUFFIX_2, _STEP_2)
    word = _map_suffix(word, _SUFFIX_3, _STEP_3)
    word = _cut_final_e(_cut_long_suffixes(word))
    return "y" + word[1:] if initial_y else word


def _cut_plural(word: str) -> str:
    """Step 1a."""
    if word.endswith(("sses", "ies")):
        return word[:-2]
    return word[:-1] if word.endswith("s") and not word.endswith("ss") else word


def _cut_past_and_gerund(word: str) -> str:
    """Step 1b."""
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
    """Steps 2 and 3."""
    found = pattern.search(word)
    if found and _MEASURE_OVER_0.match(word[: found.start()]):
        return word[: found.start()] + mapping[found[1]]
    return word


def _cut_long_suffixes(word: str) -> str:
    """Step 4."""
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
    """Step 5."""
    if word.endswith("e"):
        left = word[:-1]
        if _MEASURE_OVER_1.match(left) or (_MEASURE_IS_1.match(left) and not _SHORT.match(left)):
            word = left
    return word[:-1] if word.endswith("ll") and _MEASURE_OVER_1.match(word) else word


Sentences = list[list[str]]
"""Sentences of stemmed tokens."""

_WORDNET = Path(__file__).parent / "data" / "wordnet-2.0"
# Later lists override earlier ones, and later lines earlier ones: testes stays testes (verb), offer stays
# offer, best and better become good (adj), as in the scorer of the published figures.
_LISTS = ("adv.exc", "noun.exc", "verb.exc", "adj.exc")
_TO_TOKENS = bytes(
    ord(chr(byte).lower()) if byte < 128 and chr(byte).isalnum() else 32 for byte in range(256)
)
"""Lower-case ASCII letters and digits stay; every other byte becomes a space, because Perl saw bytes."""
_TO_SENTENCES = {
    separator: _TO_TOKENS[: ord(separator)] + separator.encode() + _TO_TOKENS[ord(separator) + 1 :]
    for separator in ".\n"
}
"""The same, except for the marks that end a sentence."""


@cache
def _irregular_forms() -> dict[str, str]:
    forms: dict[str, str] = {}
    for name in _LISTS:
        lines = (_WORDNET / name).read_text("ascii").splitlines()
        forms.update((words[0], words[1]) for words in map(str.split, lines))
    return forms


_MOST_WORDS = 200_000
"""How many words to cache, a few times the vocabulary of CNN/DailyMail: an answer may contain millions of other
words."""


_LONGEST_WORD = 64
"""Longer words are not cached, because they may take a megabyte each and don't occur again."""


def base_form(token: str) -> str:
    """Return a token as ROUGE compares it: short ones unchanged, irregular forms by list, others by stem."""
    return _known_form(token) if len(token) <= _LONGEST_WORD else stem(token)


@lru_cache(maxsize=_MOST_WORDS)
def _known_form(token: str) -> str:
    if len(token) <= 3:
        return token
    return _irregular_forms().get(token) or stem(token)


def tokens(text: str) -> list[str]:
    """Split a text into stemmed tokens: runs of ASCII letters and digits, in lower case."""
    words = text.encode("utf-8", "surrogatepass").translate(_TO_TOKENS).decode("ascii").split()
    return [base_form(word) for word in words]


def sentence_tokens(text: str, separator: str) -> Sentences:
    """Split a text at "." or "\\n" into sentences of stemmed tokens, leaving out empty ones."""
    plain = text.encode("utf-8", "surrogatepass").translate(_TO_SENTENCES[separator]).decode("ascii")
    return [[base_form(word) for word in words] for part in plain.split(separator) if (words := part.split())]


def precision_recall_f1(hits: int, candidate: int, reference: int) -> tuple[float, float, float]:
    """Compute (P, R, F), each rounded to five decimals before the next step, as in the Perl script."""
    precision = round(hits / candidate, 5) if candidate else 0.0
    recall = round(hits / reference, 5) if reference else 0.0
    if precision + recall == 0:
        return (precision, recall, 0.0)
    return (precision, recall, round(precision * recall / (0.5 * precision + 0.5 * recall), 5))


Counts = tuple[int, int, int]
"""Hits, units of the candidate, units of the reference."""


class _BaseNumbers(dict[str, int]):
    """The number of each word's base form: equal forms have equal numbers. Missing words are added."""

    def __init__(self) -> None:
        self._forms: dict[str, int] = {}

    def __missing__(self, word: str) -> int:
        form = base_form(word)
        if len(form) > _LONGEST_WORD:
            from hashlib import sha256  # rarely needed, and slow to import

            # Equal forms need equal numbers, so their digests are stored; no word contains a colon.
            form = f"sha256:{sha256(form.encode()).hexdigest()}"
        number = self._forms.setdefault(form, len(self._forms))
        if len(word) <= _LONGEST_WORD:
            self[word] = number
        return number

    @property
    def size(self) -> int:
        return max(len(self), len(self._forms))


_numbers = _BaseNumbers()


def count(candidate: str, references: Sequence[str], separator: str) -> list[tuple[Counts, Counts, Counts]]:
    """Count words, word pairs and words on the LCS, for each reference; sentences end at "." or "\\n"."""
    global _numbers
    if not _compiled:
        return count_in_python(candidate, references, separator)
    if _numbers.size > _MOST_WORDS:
        _numbers = _BaseNumbers()
    text, *texts = (text.encode("utf-8", "surrogatepass") for text in (candidate, *references))
    return rouge_counts(text, texts, separator.encode(), _numbers)


def count_in_python(
    candidate: str, references: Sequence[str], separator: str
) -> list[tuple[Counts, Counts, Counts]]:
    """Count like `count`, but without compiled code."""
    left, found = sentence_tokens(candidate, separator), []
    for reference in references:
        right = sentence_tokens(reference, separator)
        words, pairs = overlap(left, right, 1), overlap(left, right, 2)
        found.append((words, pairs, (lcs_hits(left, right), *words[1:])))
    return found


def overlap(candidate: Sentences, reference: Sentences, order: int) -> tuple[int, int, int]:
    """Count (clipped hits, candidate's n-grams, reference's n-grams) over the whole texts, for order 1 or 2."""
    left: Sequence[object] = list(chain(*candidate))
    right: Sequence[object] = list(chain(*reference))
    if order == 2:
        left, right = list(pairwise(left)), list(pairwise(right))
    counts = Counter(right)
    hits = sum(min(count, counts[gram]) for gram, count in Counter(left).items() if gram in counts)
    return (hits, len(left), len(right))


def lcs_hits(candidate: Sentences, reference: Sentences) -> int:
    """Count the tokens of a reference sentence that are on its LCS with any candidate sentence, each once."""
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
    """Find the reference's positions on its longest common subsequence with the candidate, last first.

    If there are several such subsequences, it is the one that the Perl script finds: the table's rows are the
    reference, and ties are traced back upwards. A row is one integer (Hyyrö 2004): bit j is clear where the
    length in column j + 1 is one more than in column j, so a cell is a count of bits and a row takes one
    addition. `places` has the candidate's positions of at least all tokens in the reference.
    """
    rows = _lcs_rows(reference, places, len(candidate))
    marked = []
    i, j = len(reference), len(candidate)
    below = (1 << j) - 1  # the bits of the columns up to j
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
    """Return, as bits, the columns of each token that is in the reference; other tokens match nothing."""
    places: dict[str, int] = {}
    for column, token in enumerate(sentence):
        if token in wanted:
            places[token] = places.get(token, 0) | 1 << column
    return places


def _lcs_rows(reference: Sequence[str], places: Mapping[str, int], columns: int) -> list[int]:
    """Compute the table of LCS lengths; each row is an integer that encodes its steps."""
    row = full = (1 << columns) - 1
    rows = [row]
    for token in reference:
        if token in places:
            matches = row & places[token]
            row = (row + matches | row - matches) & full
        rows.append(row)
    return rows
