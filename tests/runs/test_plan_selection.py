"""Which examples are run."""

import hashlib

import pytest

from decabench.errors import DecabenchError
from decabench.runs.plan import Selection, read_ids
from decabench.submission.checker import write_id_list
from decabench.tasks.registry import TASKS
from decabench.tasks.store import Store


@pytest.fixture
def store(home):
    return Store(home)


def ids(selection, store, task="sst"):
    return [question.id for question in selection.questions(store, task, "validation")]


def test_the_first_few(store):
    assert ids(Selection(5), store) == store.ids("sst", "validation")[:5]
    assert str(Selection(5)) == "limit 5"


def test_a_sample_is_of_whole_units_and_the_same_every_time(store):
    units = {row["id"]: row["units"] for row in store.read("squad", "validation", ("id", "units"))}
    drawn = ids(Selection(sample=12), store, "squad")
    sizes = {tuple(units[id_]): sum(units[other] == units[id_] for other in units) for id_ in drawn}
    assert len(drawn) == sum(sizes.values()) and len(sizes) > 1
    assert len(drawn) - max(sizes.values()) < 12 <= len(drawn) < len(units)
    assert (
        drawn
        == ids(Selection(sample=12), store, "squad")
        != ids(Selection(sample=12, sample_seed=1), store, "squad")
    )
    assert {*ids(Selection(sample=5), store)} < {*ids(Selection(sample=9), store)}  # more of the same
    assert str(Selection(sample=12, sample_seed=1)) == "sample 12, seed 1"


def test_a_sample_within_a_list(store):
    known = frozenset(store.ids("sst", "validation")[:8])
    assert {*ids(Selection(ids=known, sample=5), store)} < known
    for wrong in ({"sample_seed": 1}, {"sample": 3, "limit": 3}):
        with pytest.raises(DecabenchError, match="--sample"):
            Selection(**wrong)


def test_a_list_in_the_order_of_the_data(store):
    known = store.ids("sst", "validation")
    chosen = frozenset([known[7], known[2], known[4]])
    assert ids(Selection(ids=chosen), store) == [known[2], known[4], known[7]]
    assert ids(Selection(2, chosen), store) == [known[2], known[4]]
    digest = hashlib.sha256("\n".join(sorted(chosen)).encode()).hexdigest()
    assert str(Selection(2, chosen)) == f"3 ids, sha256:{digest}, limit 2"


def test_ids_that_no_task_has_are_all_named(store):
    known = store.ids("sst", "validation")[0]
    selection = Selection(ids=frozenset([known, "nobody", "noone"]))
    with pytest.raises(
        DecabenchError, match=r"schema, sst \(validation\) do not have: 'nobody', 'noone'; decabench prepare"
    ):
        selection.tasks(store, [TASKS["schema"], TASKS["sst"]], "validation")


def test_tasks_without_a_chosen_example_are_not_asked(store):
    selection = Selection(ids=frozenset(store.ids("sst", "validation")[:2]))
    assert selection.tasks(store, [TASKS["schema"], TASKS["sst"]], "validation") == [TASKS["sst"]]
    assert Selection(3).tasks(store, [TASKS["schema"]], "validation") == [TASKS["schema"]]


def test_a_file_of_ids(tmp_path):
    (tmp_path / "ids").write_text("\ufeffa\n\n  b c \r\nd", encoding="utf-8")
    assert read_ids(tmp_path / "ids") == {"a", "b c", "d"}


@pytest.mark.parametrize("name", ["ids.json", "ids.json.gz"])
def test_a_list_as_prepare_exports_it(tmp_path, name):
    write_id_list(tmp_path / name, {("sst", "validation"): ["a", "b"], ("schema", "validation"): ["c"]})
    assert read_ids(tmp_path / name) == {"a", "b", "c"}


@pytest.mark.parametrize(
    ("content", "sentence"), [(b"\n \n", "contains no ids"), (b"\xff\xfe", "cannot be read as")]
)
def test_what_is_no_file_of_ids(tmp_path, content, sentence):
    (tmp_path / "ids").write_bytes(content)
    with pytest.raises(DecabenchError, match=sentence):
        read_ids(tmp_path / "ids")
