"""Only results on the same data and metrics share a table."""

from __future__ import annotations

from dataclasses import replace

from decabench.leaderboard.entries import Entry
from decabench.leaderboard.ranking import rank_suite
from decabench.tasks import DECATHLON, TASKS
from tests.leaderboard.small import entry, ranking, results, tables, without

SAMPLE = {"origin": "sample"}
MIRROR = {"origin": "mirror", "verified": False}


def test_results_on_other_data_have_their_own_table() -> None:
    real, sample = tables(results("sample", 99.0, data="s", of_data=SAMPLE), results("real", 1.0))
    assert (real.heading, ranking(real)) == ("Upstream files: published checksums match", [(1, "real")])
    assert (sample.heading, ranking(sample)) == ("Bundled sample", [(1, "sample")])


def test_one_task_on_other_data_is_enough() -> None:
    other = results("other", 60.0)
    other["tasks"]["sst"]["data"]["fingerprint"] = "sha256:elsewhere"
    assert [ranking(table) for table in tables(results("one", 50.0), results("two", 55.0), other)] == [
        [(1, "two"), (2, "one")],
        [(1, "other")],
    ]


def test_other_metrics_are_not_compared() -> None:
    assert len(tables(results("old", 50.0), results("new", 60.0, signature="v:2"))) == 2


def test_the_same_bytes_from_a_mirror_are_the_same_data_and_count_as_unverified() -> None:
    (table,) = tables(results("upstream", 50.0), results("mirror", 60.0, of_data=MIRROR))
    assert table.heading == "Mirror or upstream files: no published checksums"


def test_partial_results_join_the_data_they_agree_with() -> None:
    partial = results("partial", without("schema"), data="s", of_data=SAMPLE)
    real, sample = tables(results("real", 1.0), results("sample", 2.0, data="s", of_data=SAMPLE), partial)
    assert ranking(real) == [(1, "real")]
    assert ranking(sample) == [(1, "sample"), (None, "partial")]


def test_failed_tasks_tell_which_data_was_meant() -> None:
    failed = results("failed", {}, {"sst": "no file"})
    failed["tasks"]["sst"]["data"] |= {"fingerprint": "sha256:s-sst", "origin": "sample"}
    real, sample = tables(results("real", 1.0), results("sample", 2.0, data="s", of_data=SAMPLE), failed)
    assert ranking(real) == [(1, "real")]
    assert ranking(sample) == [(1, "sample"), (None, "failed")]


def test_partial_results_alone_share_a_table_where_nothing_speaks_against_it() -> None:
    (table,) = tables(results("a", {"sst": 1.0}), results("b", {"srl": 1.0}))
    assert ranking(table) == [(None, "a"), (None, "b")]
    assert len(tables(results("a", {"sst": 1.0}), results("b", {"srl": 1.0}, data="s", of_data=SAMPLE))) == 2
    assert len(tables(results("a", {"sst": 1.0}), results("b", {"sst": 1.0}, data="b"))) == 2


def test_mixed_data_says_so() -> None:
    file = results("mixed", 50.0)
    file["tasks"]["sst"]["data"].update(origin="user", verified=False)
    (table,) = tables(file)
    assert table.heading == (
        "Upstream files (9), the submitter's own data (1): published checksums match (9), no published checksums (1)"
    )


def test_the_data_behind_a_table() -> None:
    subset = {**MIRROR, "published_count": 10_570, "note": "the first rows"}
    (table,) = tables(results("one", 50.0, of_data=subset))
    line = table.data[0]
    assert (line.task, line.count, line.is_subset) == ("squad", "100 of 10,570", True)
    assert (line.signature, line.fingerprint) == ("squad|v:1", "sha256:a-squad")
    assert [(note, len(names)) for note, names in table.notes] == [("the first rows", 10)]


def test_a_failed_task_does_not_change_how_many_examples_there_are() -> None:
    failed = results("failed", without("squad"), {"squad": "12 ids missing"})
    failed["tasks"]["squad"] |= {"n": 0}
    failed["tasks"]["squad"]["data"] |= {"fingerprint": "sha256:a-squad", "published_count": 100}
    whole = results("whole", 50.0, of_data={"published_count": 100})
    (table,) = tables(whole, failed)
    assert (table.data[0].count, table.data[0].is_subset) == ("100 of 100", False)
    (alone,) = tables(failed)
    assert alone.data[0].count == "100 of 100"


def test_another_number_of_examples_is_other_data() -> None:
    """Statistics of the easiest examples alone would give a higher score."""
    short = results("short", 99.0, of_data={"rows": 5})
    for task in short["tasks"].values():
        task["n"] = 5
    whole, part = tables(results("whole", 50.0), results("another", 40.0), short)
    assert (ranking(whole), ranking(part)) == ([(1, "whole"), (2, "another")], [(1, "short")])
    assert whole.id != part.id


def test_what_nobody_checked_does_not_describe_the_data_of_the_others() -> None:
    stated = entry(results("stated", 60.0, of_data=MIRROR), "b", "self-reported")
    (table,) = rank_suite(DECATHLON, [entry(results("checked", 50.0), "a"), stated], TASKS).tables
    assert table.heading == "Upstream files: published checksums match"


def test_a_table_of_stated_scores_comes_after_those_that_were_checked() -> None:
    stated = entry(results("stated", 99.0, data="b"), "b", "self-reported")
    sample = entry(results("checked", 50.0, of_data=SAMPLE), "a")
    first, second = rank_suite(DECATHLON, [stated, sample], TASKS).tables
    assert (ranking(first), [row.entry.name for row in second.apart]) == ([(1, "checked")], ["stated"])


def unknown(made: Entry) -> Entry:
    """The entry, on data that is not at hand."""
    return replace(made, tasks={name: replace(task, at_hand=False) for name, task in made.tasks.items()})


def test_invented_data_comes_last_and_is_only_stated() -> None:
    """A file can state any fingerprint, and that it matched published checksums."""
    honest = entry(results("honest", 50.0, data="s", of_data=SAMPLE), "a")
    invented = [unknown(entry(results(f"x{n}", 100.0, data="b"), f"x{n}")) for n in range(3)]
    other = unknown(entry(results("y", 100.0, data="c"), "y"))
    found = rank_suite(DECATHLON, [*invented, other, honest], TASKS).tables
    assert [table.rows[0].entry.name for table in found] == ["honest", "x0", "y"]
    stated = "Upstream files: as stated by the submitters"
    assert [table.heading for table in found] == ["Bundled sample", stated, stated]


def test_one_invented_task_is_enough_to_come_last() -> None:
    partly = entry(results("partly", 100.0), "b")
    tasks = {**partly.tasks, "sst": replace(partly.tasks["sst"], fingerprint="sha256:0", at_hand=False)}
    found = rank_suite(
        DECATHLON, [replace(partly, tasks=tasks), entry(results("a", 50.0), "a")], TASKS
    ).tables
    assert [table.rows[0].entry.name for table in found] == ["a", "partly"]
    assert found[1].heading.endswith("published checksums match (9), as stated by the submitters (1)")


def test_a_submitter_writes_no_note_and_no_origin_for_a_table() -> None:
    said = {"note": "All others were trained on the test data.", "origin": "my private server"}
    (table,) = rank_suite(DECATHLON, [unknown(entry(results("a", 50.0, of_data=said), "a"))], TASKS).tables
    assert table.notes == () and table.heading == "Unknown origin: as stated by the submitters"


def test_ids_of_tables_differ() -> None:
    files = [results("a", 1.0), results("b", 1.0, data="b"), results("c", 1.0, split="test")]
    assert len({table.id for table in tables(*files)}) == 3
