"""Numbers and lists in a form that scores as wrong, compared with the values that the metrics read."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from decabench.metrics import METRICS, Item, evaluate
from decabench.prompts import GivenAnswers
from decabench.prompts.forms import FormCounts, count_forms, find_number_form
from decabench.tasks import Number, Output, Scheme, Tags, Text, Tree

SCALE = Number(1, 5)
TAGS = ("DET", "NOUN", "VERB")


def counted(output: Output, metric: str, texts: list[str], golds: list[str] | None = None) -> FormCounts:
    references = golds and [Item((gold,)) for gold in golds]
    places = [f"line {number}" for number in range(1, len(texts) + 1)]
    counts = count_forms(GivenAnswers(output, METRICS[metric], places, texts, references or None))
    assert counts is not None
    return counts


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("three", None),
        ("3,5", ("3.5", "a decimal comma")),
        ("1,234", ("1234", "commas between thousands")),
        (".5", (".5", "another notation")),
        ("50%", ("50", "text around the number")),
        ("nan", None),
        ("3 out of 5", ("3", "text around the number")),
        ("Score: 4.2", ("4.2", "text around the number")),
        ("3.", ("3", "another notation")),
        ("", None),
        ("one or two", None),
    ],
)
def test_numbers_in_other_forms(text: str, found: tuple[str, str] | None) -> None:
    assert find_number_form(text) == found


@pytest.mark.parametrize("metric", ["relatedness", "pearson", "mse", "em"])
@pytest.mark.parametrize("text", ["3", "3.0", "three", "3,0", "3 points", " 3 ", "3.", "3e0", "٣"])
def test_a_number_is_reported_only_if_it_scores_worse(metric: str, text: str) -> None:
    """An answer is counted only if the metric scores it differently from the number."""
    gold = ["3", "1", "5", "2"]
    references = [Item((answer,)) for answer in gold]
    forms = counted(SCALE, metric, [text], ["3"])
    right = evaluate(METRICS[metric], ["3", "1", "5", "2"], references).details
    given = evaluate(METRICS[metric], [text, "1", "5", "2"], references).details
    if forms.forms:
        assert given != right
    elif find_number_form(text) is not None:
        assert given == right


def test_the_sentence_about_numbers() -> None:
    assert counted(SCALE, "relatedness", ["3.5", "4"]).describe() == ""
    said = counted(SCALE, "relatedness", ["3,5", "4.0", "2 out of 5", "?"]).describe()
    assert said.startswith("2 of 4 answers are numbers in a form that scores as wrong: a decimal comma (1), ")
    assert "line 1 has '3,5' instead of '3.5'. Write only the number" in said
    assert said.endswith("Write only the number. 1 of 4 answers gives no number. For example, line 4 has '?'")
    assert (
        counted(SCALE, "relatedness", ["3.5", "1e3"]).describe()
        == "1 of 2 answers gives a number outside the scale from 1 to 5. For example, line 2 has '1e3'"
    )


@pytest.mark.parametrize(
    ("text", "form"),
    [
        ("DET NOUN VERB", ""),
        ("DET, NOUN, VERB", "commas"),
        ('["DET", "NOUN", "VERB"]', "JSON"),
        ("DET\nNOUN\nVERB", ""),  # any space separates
        ("1. DET\n2. NOUN\n3. VERB", "one item per line"),
        ("DET XYZ VERB", ""),  # a wrong tag, not another form
        ("no tags here", ""),
        ("", ""),
    ],
)
def test_lists_in_other_forms(text: str, form: str) -> None:
    forms = counted(Tags("plain", TAGS), "tag_accuracy", [text])
    assert list(forms.forms) == ([form] if form else [])
    if form:
        assert "instead of 'DET NOUN VERB'. Write only the items" in forms.describe()
        references = [Item(("DET NOUN VERB",))]
        assert float(evaluate(METRICS["tag_accuracy"], [text], references)) < 100


@pytest.mark.parametrize(
    ("scheme", "tags", "looks"),
    [
        ("IOB2", "B-X L-X O U-X", "BILOU or BMEWO"),
        ("IOBES", "B-X L-X U-Y", "BILOU or BMEWO"),
        ("IOBES", "b-x m-x e-x w-x", "BILOU or BMEWO"),
        ("IOB2", "PER-B PER-I O", "tags with the letter at the end (PER-B)"),
        ("IOB2", "B_PER I_PER O", "tags with a different separator after the letter (B_PER)"),
        ("IOB2", "B-PER 0 0", "tags with a different symbol for O"),
        ("IOB2", "I-PER I-PER O", "IOB1"),
        ("IOB2", "S-PER O", "IOBES"),
        ("IOB2", "B-PER-x I-PER-x o", ""),
        ("IOB2", "B-I I-I B-B", ""),
        ("IOB2", "B-X _ B-X", ""),  # one that is missing
        ("IOB2", "O O", ""),
        ("IOB2", "no tags at all", ""),
    ],
)
def test_tags_of_another_scheme_are_named(scheme: Scheme, tags: str, looks: str) -> None:
    forms = counted(Tags(scheme), "sequence_f1", [tags])
    said = f"1 of 1 answers looks like {looks}, but the task's tags are {scheme}. For example, line 1 has {tags!r}. "
    assert forms.describe().startswith(said) == bool(looks)
    assert bool(forms.describe()) == bool(looks)
    assert counted(Tags(), "tag_accuracy", [tags]).describe() == ""


def test_a_few_answers_in_another_scheme_are_a_model_s_mistakes() -> None:
    texts = ["B-X I-X", "I-X I-X", "O O", "I-X O"]
    assert counted(Tags("IOB2"), "sequence_f1", texts[:3]).describe() == ""
    assert counted(Tags("IOB2"), "sequence_f1", texts).describe().startswith("2 of 3 answers look like IOB1")


@pytest.mark.parametrize(
    ("heads", "is_tree"),
    [
        ("2:nsubj 0:root 2:obj", True),
        ("1:nsubj -1:root 1:obj", False),
        ("1:nsubj 1:root 1:obj", False),  # counted from 0, and the root is its own head
        ("2:nsubj 1:obj 0:root", False),
        ("9:nsubj 0:root", False),
        ("nsubj root", True),  # unreadable, which is counted elsewhere
    ],
)
def test_heads_that_are_no_tree(heads: str, is_tree: bool) -> None:
    forms = counted(Tree(), "parsing", [heads])
    assert forms.describe().startswith("1 of 1 answers looks like heads that are counted from 0") == (
        not is_tree
    )


def test_states_that_are_read_in_part() -> None:
    for metric in ("joint_goal_em", "dialogue_f1"):
        texts = ["None", "food: thai;", "time: 3:30, food: thai;", "no change", ""]
        texts += ["; phone, phone", "food: a, Food : a;", "food: a,;"]  # nothing of which is lost
        forms = counted(Text(), metric, texts)
        assert forms.describe().startswith(
            "2 of 8 answers are states that can be read only in part or not at all: "
            "a colon in a value (1), no semicolon (1). "
            "For example, line 3 has 'time: 3:30, food: thai;', which is read as "
        )


@pytest.mark.parametrize(
    ("write", "said"),
    [
        (lambda gold: gold, ""),
        (
            lambda gold: f"{gold.removesuffix(';')}, area: none;",
            "20 of 20 answers give a slot without a value",
        ),
        (
            lambda gold: gold.replace("food", "cuisine"),
            "20 of 20 answers give a slot that no gold answer has",
        ),
        (lambda gold: gold.replace("yes", "none"), "20 of 20 answers give a slot without a value"),
        (lambda gold: gold.replace("yes", "no"), ""),
    ],
)
def test_slots_that_no_gold_answer_has(write: Callable[[str], str], said: str) -> None:
    golds = ["food: thai, parking: yes;"] * 20
    described = counted(Text(), "joint_goal_em", list(map(write, golds)), golds).describe()
    assert described.startswith(said) and bool(described) == bool(said)


def test_values_that_no_gold_answer_has() -> None:
    golds = [f"food: thai, area: {area};" for area in ("centre", "south", "dontcare")] * 10
    texts = [gold.replace("centre", "center").replace("dontcare", "don't care") for gold in golds]
    said = counted(Text(), "joint_goal_em", texts, golds).describe()
    assert (
        "10 of 30 answers have 'area: center', a value that no gold answer has. The first is line 1" in said
    )
    assert '"area: don\'t care"' in said and "thai" not in said
    assert counted(Text(), "joint_goal_em", [*golds[:28], *texts[28:]], golds).describe() == ""


@pytest.mark.parametrize(
    ("text", "is_other"),
    [
        ("DET NOUN", False),
        ("DET NN", True),
        ("det noun", False),
        ("DT NN", True),
        ("the_DET cat_NOUN", True),
    ],
)
def test_tags_of_another_tag_set(text: str, is_other: bool) -> None:
    said = counted(Tags(names=TAGS), "tag_accuracy", [text] * 3).describe()
    assert ("of 6 items are not tags of the task (DET, NOUN, VERB): " in said) is is_other


def test_a_tag_set_with_a_few_other_names_is_named() -> None:
    tags = Tags("IOB1", ("O", "I-LOC", "I-PER"))
    said = counted(tags, "sequence_f1", ["O O O I-PERSON", "O O I-LOC O"] * 20).describe()
    assert said.startswith("20 of 40 items are not tags of the task (O, I-LOC, I-PER): 'I-PERSON' (20)")
    assert (
        counted(tags, "sequence_f1", ["O I-PERSON", *["O I-LOC"] * 60]).describe() == ""
    )  # a model's mistake


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("0:root 1:obj", ""),
        (
            "root:0 obj:1",
            "6 of 6 items are not a head and a relation of the task, such as 3:nsubj: 'root:0' (3)",
        ),
        ("0:root 1:obj:agent", ""),
        (
            "0:root 1:dobj",
            "3 of 6 items are not a head and a relation of the task, such as 3:nsubj: 'dobj' (3)",
        ),
    ],
)
def test_items_of_trees(text: str, said: str) -> None:
    assert counted(Tree(("root", "obj")), "parsing", [text] * 3).describe().startswith(said)
    assert bool(said) == bool(counted(Tree(("root", "obj")), "parsing", [text] * 3).describe())
