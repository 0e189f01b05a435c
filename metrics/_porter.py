"""Porter's stemmer as ROUGE-1.5.5 carries it.

Porter 1980 with the author's two later rules (bli, logi) and ROUGE's own step 4, which tries -ement, then
-ment, then -ent, each on what the one before has left.
"""

from __future__ import annotations

import re

__all__ = ["stem"]

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
    """The stem of a lower-case word; words of fewer than three letters stay."""
    if len(word) < 3:
        return word
    initial_y = word.startswith("y")
    if initial_y:  # a first y is a consonant; the capital keeps the patterns from reading it as a vowel
        word = "Y" + word[1:]
    word = _past_and_gerund(_plural(word))
    if word.endswith("y") and _HAS_VOWEL.match(word[:-1]):
        word = word[:-1] + "i"
    word = _map_suffix(word, _SUFFIX_2, _STEP_2)
    word = _map_suffix(word, _SUFFIX_3, _STEP_3)
    word = _final_e(_long_suffixes(word))
    return "y" + word[1:] if initial_y else word


def _plural(word: str) -> str:
    """Step 1a."""
    if word.endswith(("sses", "ies")):
        return word[:-2]
    return word[:-1] if word.endswith("s") and not word.endswith("ss") else word


def _past_and_gerund(word: str) -> str:
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


def _long_suffixes(word: str) -> str:
    """Step 4."""
    found = _SUFFIX_4.search(word)
    if found and _MEASURE_OVER_1.match(word[: found.start()]):
        word = word[: found.start()]
    word = _cut(word, "ment")
    if word.endswith("ent"):
        return _cut(word, "ent")
    return _cut(word, "ion") if word.endswith(("sion", "tion")) else word


def _cut(word: str, suffix: str) -> str:
    left = word[: -len(suffix)]
    return left if word.endswith(suffix) and _MEASURE_OVER_1.match(left) else word


def _final_e(word: str) -> str:
    """Step 5."""
    if word.endswith("e"):
        left = word[:-1]
        if _MEASURE_OVER_1.match(left) or (_MEASURE_IS_1.match(left) and not _SHORT.match(left)):
            word = left
    return word[:-1] if word.endswith("ll") and _MEASURE_OVER_1.match(word) else word
