"""submission.toml: invalid values, and different ways to write valid ones."""

from dataclasses import replace

import pytest

from decabench.errors import SubmissionError
from decabench.submission.answers import Marks
from decabench.submission.folder import SubmissionInfo, parse_metadata, render_metadata

INFO = SubmissionInfo(
    name='MQAN "large"',
    authors=("A. Author", "Ünï Cödé"),
    description="Two\nlines, a \\ and a tab\t.",
    url="https://example.org/a?b=c",
    model_size=29_000_000,
    training_data="the ten tasks",
    date="2018-06-20",
    predictor={"name": "mqan", "seed": 1, "rate": 0.5, "greedy": True, "layers": [1, 2], "more": {"b": 1}},
    data={"squad.validation": "sha256:" + "0" * 64, "iwslt.en.de.test": "sha256:" + "1" * 64},
    partial={"sst.validation": {"answered": 5, "of": 9, "chosen": "limit 5"}},
    incomplete={"sst.validation": {"failed": 1, "of": 9, "error": "no"}},
)


def test_what_is_rendered_is_parsed():
    assert parse_metadata(render_metadata(INFO)) == (INFO, [])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"name": ""}, "'name' must be one line of text in quotes, but is missing"),
        ({"name": "two\nlines"}, "'name' must be .*, but is 'two"),
        ({"url": "javascript:alert(1)"}, "'url' must be .*, but is 'javascript"),
        ({"date": "20 June"}, "'date' must be a date in the form YYYY-MM-DD, but is '20 June'"),
        ({"model_size": -1}, "'model_size' must be .*, but is the number -1"),
        ({"predictor": {"a": object()}}, "can't be stored in submission.toml"),
        ({"predictor": {"a": float("nan")}}, "'predictor' must contain only finite numbers"),
        ({"data": {"squad.test": "md5:1"}}, 'must be "sha256:" followed by 64 hex digits'),
        ({"description": "\ud800"}, "can't be stored in submission.toml"),
    ],
)
def test_information_that_would_be_faulty_is_not_rendered(changes, message):
    with pytest.raises(SubmissionError, match=message):
        render_metadata(replace(INFO, **changes))


def test_a_missing_name_is_not_placed_in_another_table():
    _, faults = parse_metadata(b'format = "decabench.submission/1"\n[predictor]\nname = "n"\n')
    assert [fault.line for fault in faults] == [None] and "'name' must be" in faults[0].message


def test_unquoted_data_keys_and_toml_dates_are_understood():
    fingerprint = "sha256:" + "a" * 64
    info, faults = parse_metadata(
        'format = "decabench.submission/1"\nname = "n"\ndate = 2018-06-20\n'
        "[predictor]\nstarted = 2018-06-19T12:00:00\n"
        f'[data]\niwslt.en.de.test = "{fingerprint}"\n'.encode()
    )
    assert faults == []
    assert info.date == "2018-06-20"
    assert info.predictor == {"started": "2018-06-19T12:00:00"}
    assert info.data == {"iwslt.en.de.test": fingerprint}


def test_faults_say_what_is_wrong_what_was_given_and_what_to_do():
    raw = b'format = "decabench.submission/2"\nname = ["n"]\nauthors = "A"\nurl = 3\ndate = true\ndata = {}\n[x]\n'
    info, faults = parse_metadata(raw)
    assert info is None
    assert [str(fault) for fault in faults] == [
        "submission.toml:1: bad-metadata: 'format' must be \"decabench.submission/1\" for this version, "
        "but is 'decabench.submission/2'",
        "submission.toml:2: bad-metadata: 'name' must be one line of text in quotes, but is a list",
        "submission.toml:3: bad-metadata: 'authors' must be a list of strings, such as [\"A. Author\"], but is 'A'",
        "submission.toml:4: bad-metadata: 'url' must be an address that begins with https:// or http://, "
        "but is the number 3",
        "submission.toml:5: bad-metadata: 'date' must be a date in the form YYYY-MM-DD, but is true",
        "submission.toml:7: unknown-key: the field 'x' is unknown and was ignored",
    ]


def test_marks_of_a_file():
    assert INFO.marks("squad", "validation") == Marks()
    assert INFO.marks("sst", "validation") == Marks(
        INFO.partial["sst.validation"], INFO.incomplete["sst.validation"]
    )


def test_a_variant_has_the_limit_of_all_and_failures_of_its_own():
    other = replace(INFO, incomplete={**INFO.incomplete, "sst.validation.variant2": {"failed": 2, "of": 6}})
    assert other.marks("sst", "validation", 1) == Marks({"answered": 6, "of": 9, "chosen": "limit 5"}, None)
    assert other.marks("sst", "validation", 2).incomplete == {"failed": 2, "of": 6}
