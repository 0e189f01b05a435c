"""Answers and references of every metric, at random and as odd as they come: what rows of statistics may hold."""

from __future__ import annotations

import random
from collections.abc import Sequence

from decabench.metrics import METRICS, Item, find_loss

WORDS = (
    *"the cat sat on a mat with two dogs and one old hat Hat HAT geese was running U.S. 1,5 3.14 1-".split(),
    *(
        "unanswerable",
        "Unanswerable.",
        "and",
        "an",
        "t.h.e",
        "_",
        "&quot;",
        "&AMP;",
        "<skipped>",
        "<SKIPPED>",
    ),
    *(
        "ΑΣ",
        "Ας.",
        "İ",
        "\N{LATIN SMALL LETTER DOTLESS I}",
        "ß",
        "\N{KELVIN SIGN}",
        "k",
        "ﬁ",
        "文字",
        "é",
        "e\u0301",
        "\u00a0",
        "\u2028",
        "\n",
        "\t",
    ),
    *(".", ",", "...", "--", "!", "''", "\u200b", "🙂", "\x00", "\x1c"),
)
TAGS = (
    "B-NP",
    "I-NP",
    "O",
    "o",
    "S-NP",
    "E-NP",
    "NP",
    "X-NP",
    "B-",
    "-NP",
    "[",
    "]",
    ".",
    "_",
    "b-vp",
    "İ-NP",
)
READABLE_TAGS = tuple(tag for tag in TAGS if tag not in ("NP", "X-NP", "-NP", "_", "İ-NP"))
SLOTS = ("food: thai", "area: north", "food: dontcare", "Food : Thai", "area", "a: b: c", "", " ", ":")
REQUESTS = ("phone", "address", "", "Phone", "phone ")
NUMBERS = ("1", "2.5", "5", "-3", "1e3", "1e99", "1e-300", " 4 ", "nan", "1e200", "two", "", "3_5", "0")
RELATIONS = ("nsubj", "nmod:poss", "root", "punct", "det", "conj", "", "NSUBJ", "_")
COLUMNS = ("name", "year", "Name of place", "where", "col1")
REGRESSIONS = ("pearson", "spearman", "mse", "relatedness")


def odd_text(source: random.Random, most: int = 9) -> str:
    """A text of a few of the words."""
    return source.choice((" ", " ", " ", "", "  ", "\n")).join(
        source.choices(WORDS, k=source.randint(0, most))
    )


def odd_answers(name: str, source: random.Random, count: int) -> tuple[list[str], Sequence[Item]]:
    """Make `count` answers, right, nearly right, of another example or nonsense, and their references."""
    items = [_item(name, source, number) for number in range(count)]
    return [_answer(name, source, item, items) for item in items], items


def _item(name: str, source: random.Random, number: int) -> Item:
    place = f"en_{number // 4}_{number % 4}"
    if name in REGRESSIONS:
        return Item([source.choice(("1", "2.5", "5", "-3", "1e3", " 4 ", "0"))])
    if name in ("joint_goal_em", "dialogue_f1"):
        turns = (_turn(source) for _ in range(99))
        return Item([next(turn for turn in turns if not find_loss(turn))], place)
    if name in ("parsing", "parsing_ud"):
        tags = {"upos": []} if source.random() < 0.5 else None
        gold = [f"{source.randint(0, 6)}:{source.choice(RELATIONS[:6])}" for _ in range(source.randint(0, 6))]
        if tags is not None:
            tags["upos"] = source.choices(("NOUN", "PUNCT", ",", "VERB"), k=len(gold))
        return Item([" ".join(gold)], meta=tags or {})
    if name.startswith("lfem"):
        return _query(source)
    if name in ("sequence_f1", "tag_accuracy", "tag_macro_f1"):
        tags = READABLE_TAGS if name == "sequence_f1" else TAGS
        return Item([" ".join(source.choices(tags, k=source.randint(0, 8)))])
    if name in ("macro_f1", "mcc"):
        return Item(
            source.choices(("a", "A", "b c", "b  c", "", "gold:a", "a + b", "_"), k=source.randint(1, 2))
        )
    return Item([odd_text(source) for _ in range(source.choice((1, 1, 2, 3)))])


def _turn(source: random.Random) -> str:
    goal, requests = (
        source.choices(SLOTS, k=source.randint(0, 3)),
        source.choices(REQUESTS, k=source.randint(0, 2)),
    )
    return source.choice((f"{', '.join(goal)}; {', '.join(requests)}", "none", ";", "a; b; c", ""))


def _query(source: random.Random) -> Item:
    header = source.sample(COLUMNS, 3)
    sql = {
        "sel": source.randrange(3),
        "agg": source.randrange(6),
        "conds": [
            [
                source.randrange(3),
                source.randrange(3),
                source.choice(("x", "1", "1.5", "where", "a and b", 2)),
            ]
            for _ in range(source.randint(0, 3))
        ],
    }
    rows = [[source.choice(("x", "1", 1, 1.5, "a and b", "")) for _ in header] for _ in range(3)]
    meta = {"sql": sql, "header": header, **({"rows": rows} if source.random() < 0.7 else {})}
    if source.random() < 0.5:
        meta["types"] = source.choices(("text", "real"), k=3)
    return Item([_query_text(sql, header, source)], meta=meta)


def _query_text(sql: dict[str, object], header: Sequence[str], source: random.Random) -> str:
    """The text of a query, with its conditions in any order."""
    conditions = [
        f"{header[column]} {('=', '>', '<')[operator]} {value}"
        for column, operator, value in source.sample(sql["conds"], len(sql["conds"]))  # type: ignore[call-overload, arg-type]
    ]
    aggregator = ("", "MAX ", "min ", "count ", "sum ", "avg ")[sql["agg"]]  # type: ignore[call-overload]
    where = f" where {' and '.join(conditions)}" if conditions else ""
    return f"select {aggregator}{header[sql['sel']]} from table{where}"  # type: ignore[index]


def _answer(name: str, source: random.Random, item: Item, items: Sequence[Item]) -> str:
    drawn = source.random()
    if drawn < 0.3:
        return source.choice(item.answers)
    if name.startswith("lfem") and drawn < 0.6:
        return _query_text(item.meta["sql"], item.meta["header"], source)
    if drawn < 0.5:  # nearly right
        words = source.choice(item.answers).split()
        source.shuffle(words)
        return (
            source.choice(("", " ", ".", "the ", "; ")) + " ".join(words[: source.randint(0, 9)]).swapcase()
        )
    if drawn < 0.7:
        return source.choice(source.choice(items).answers)
    if name in REGRESSIONS:
        return source.choice(NUMBERS)
    if name in ("joint_goal_em", "dialogue_f1"):
        return _turn(source)
    if name in ("parsing", "parsing_ud"):
        return " ".join(
            f"{source.randint(0, 9)}:{source.choice(RELATIONS)}" for _ in range(source.randint(0, 8))
        )
    if name in ("sequence_f1", "tag_accuracy", "tag_macro_f1"):
        return " ".join(source.choices(TAGS, k=source.randint(0, 12)))
    return odd_text(source)


assert set(REGRESSIONS) <= set(METRICS)
