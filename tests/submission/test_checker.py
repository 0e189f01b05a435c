import codecs
import gzip
import json

import pytest
import zstandard

from decabench.errors import DataError
from decabench.submission import answers
from decabench.submission.checker import IdList, check_submission, read_id_list, write_id_list
from decabench.submission.faults import KEPT, WARNINGS
from decabench.submission.folder import SubmissionInfo, write_submission

TASKS = {"squad": ..., "iwslt.en.de": ..., "woz.en": ..., "multinli.in.out": ...}
EXPECTED = {("squad", "validation"): ["a", "b"], ("iwslt.en.de", "test"): frozenset({"0"})}
GOOD_TOML = b'format = "decabench.submission/1"\nname = "n"\n'
GOOD_LINES = b'{"id": "a", "answer": "1"}\n{"id": "b", "answer": "2"}\n'
SQUAD = "predictions/squad.validation.jsonl"


def submission(folder, files):
    """Write a valid submission, except for `files`. None removes a file."""
    for name, data in ({"submission.toml": GOOD_TOML, SQUAD: GOOD_LINES} | files).items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        if data is not None:
            (folder / name).write_bytes(data)
    return folder


def found(report):
    return [(fault.code, fault.file, fault.line) for fault in (*report.faults, *report.warnings)]


def toml(*lines):
    return GOOD_TOML + "\n".join(lines).encode() + b"\n"


A, B = GOOD_LINES.splitlines(keepends=True)
TOML = "submission.toml"
OTHER_LINE = {
    "bad json": (b"{'id': 'b'}", ["bad-json"]),
    "a key twice": (b'{"id": "b", "answer": "2", "answer": "3"}', ["bad-json"]),
    "lone surrogate in the answer": (b'{"id": "b", "answer": "\\ud800"}', ["bad-encoding"]),
    "Latin-1": (b'{"id": "b", "answer": "\xfc"}', ["bad-encoding"]),
    "a list": (b'["b", "2"]', ["not-an-object"]),
    "no answer": (b'{"id": "b"}', ["missing-field"]),
    "no id": (b'{"answer": "2"}', ["missing-field"]),
    "number": (b'{"id": "b", "answer": 2}', ["non-string-answer"]),
    "number for an id": (b'{"id": 1, "answer": "2"}', ["non-string-id"]),
    "unknown id": (b'{"id": "c", "answer": "2"}', ["unknown-id"]),
    "id again": (b'{"id": "a", "answer": "2"}', ["duplicate-id"]),
    "raw that is no text": (b'{"id": "b", "answer": "2", "raw": 2}', ["bad-record"]),
    "another finish": (b'{"id": "b", "answer": "2", "finish": "stopped"}', ["bad-record"]),
    "span backwards": (b'{"id": "b", "answer": "2", "context_kept": [3, 2]}', ["bad-record"]),
    "all of it wrong": (
        b'{"id": "b", "answer": "2", "raw": 1, "rule": 1, "finish": 1, "context_kept": 1}',
        ["bad-record"] * 4,
    ),
    "very long line": (b'{"id": "b", "answer": "' + b"x" * (1 << 20) + b'"}', ["too-large"]),
}

ANSWER_IS_READ = {"raw that is no text", "another finish", "span backwards", "all of it wrong"}

ID_IS_READ = {*ANSWER_IS_READ, "lone surrogate in the answer", "no answer", "number"}


@pytest.mark.parametrize("case", OTHER_LINE)
def test_faults_of_a_line_have_its_number_and_the_rest_is_still_read(tmp_path, case):
    line, codes = OTHER_LINE[case]
    folder = submission(tmp_path, {SQUAD: A + line + b"\r\n\n{\n"})
    report = check_submission(folder, EXPECTED, TASKS)
    faults = [*((code, SQUAD, 2) for code in codes), ("bad-json", SQUAD, 4)]
    if case not in ID_IS_READ:
        faults.append(("missing-id", SQUAD, None))
    assert found(report) == faults
    assert report.files[0].answers == (2 if case in ANSWER_IS_READ else 1)
    assert report.exit_code == 1


BOMB = {"gz": gzip.compress(bytes(30_000_000)), "zst": zstandard.compress(bytes(30_000_000))}
NEWLINES = {"gz": gzip.compress(b"\n" * 300_000), "zst": zstandard.compress(b"\n" * 300_000)}
GZ, ZST = SQUAD + ".gz", SQUAD + ".zst"
FILES = {
    "no toml": ({TOML: None}, [("no-submission-toml", "", None)]),
    "bad toml": ({TOML: GOOD_TOML + b"name = \n"}, [("bad-toml", TOML, 3)]),
    "deep toml": ({TOML: GOOD_TOML + b"x = " + b"[" * 50_000}, [("bad-toml", TOML, 3)]),
    "huge toml": ({TOML: GOOD_TOML + b"#" * (1 << 16)}, [("too-large", TOML, None)]),
    "Latin-1 toml": ({TOML: GOOD_TOML + b'description = "\xfc"'}, [("bad-encoding", TOML, 3)]),
    "every field of another kind": (
        {
            TOML: toml(
                'authors = "A. Author"',
                "description = 1",
                "url = []",
                'model_size = "29M"',
                "training_data = ['squad']",
                "date = 2018-06-20T00:00:00",
                "predictor = 'mqan'",
                "data = 1.5",
            )
        },
        [("bad-metadata", TOML, line) for line in (3, 4, 5, 6, 7, 8, 9, 10)],
    ),
    "wrong values": (
        {
            TOML: toml(
                "authors = [1]",
                "url = 'ftp://x'",
                "model_size = -1",
                "date = '2018-6-20'",
                "predictor.x = inf",
                "[data]",
                '"squad.validation" = "sha256:abc"',
                '"woz.en.test" = 5',
            )
        },
        [("bad-metadata", TOML, line) for line in (3, 4, 5, 6, 7, 9, 10)],
    ),
    "unknown fields": (
        {TOML: toml("unheard_of = true", "[extra]", "a = 1")},
        [("unknown-key", TOML, 3), ("unknown-key", TOML, 4)],
    ),
    "marks without numbers": (
        {
            TOML: toml(
                "[partial.squad.validation]", "x = 1", "[incomplete.squad.test]", "failed = true", "of = 0"
            )
        },
        [*[("bad-metadata", TOML, 3)] * 2, *[("bad-metadata", TOML, 5)] * 2, ("unknown-key", TOML, 4)],
    ),
    "a limited run of all": (
        {TOML: toml("[partial.squad.validation]", "answered = 2", "of = 2")},
        [("bad-metadata", TOML, 3)],
    ),
    "marks that say it in numbers": (
        {TOML: toml("[partial.squad.validation]", "answered = 1", "of = 2", "chosen = 1", "extra = 1")},
        [("bad-metadata", TOML, 3), ("unknown-key", TOML, 7)],
    ),
    "a limited run": (
        {TOML: toml("[partial.squad.validation]", "answered = 1", "of = 2"), SQUAD: A},
        [("partial", SQUAD, None)],
    ),
    "a limited run that answers all": (
        {TOML: toml("[partial.squad.validation]", "answered = 1", "of = 2")},
        [("wrong-count", SQUAD, None), ("partial", SQUAD, None)],
    ),
    "examples that failed": (
        {TOML: toml("[incomplete.squad.validation]", "failed = 1", "of = 2"), SQUAD: A},
        [("incomplete", SQUAD, None)],
    ),
    "examples that failed and are there": (
        {TOML: toml("[incomplete.squad.validation]", "failed = 1", "of = 2")},
        [("incomplete", SQUAD, None), ("wrong-count", SQUAD, None)],
    ),
    "a limited run in which all failed": (
        {
            TOML: toml(
                "[partial.squad.validation]",
                "answered = 0",
                "of = 2",
                "[incomplete.squad.validation]",
                "failed = 1",
                "of = 1",
            ),
            SQUAD: b"",
        },
        [("incomplete", SQUAD, None), ("partial", SQUAD, None)],
    ),
    "a limited run below nought": (
        {TOML: toml("[partial.squad.validation]", "answered = -1", "of = 2"), SQUAD: b""},
        [("bad-metadata", TOML, 3), ("missing-id", SQUAD, None)],
    ),
    "a good variant": ({"variants/1/predictions/squad.validation.jsonl": GOOD_LINES}, []),
    "a variant without an answer": (
        {"variants/2/predictions/squad.validation.jsonl": A},
        [("missing-id", "variants/2/predictions/squad.validation.jsonl", None)],
    ),
    "a variant in which an example failed": (
        {
            TOML: toml('[incomplete."squad.validation.variant1"]', "failed = 1", "of = 2"),
            "variants/1/predictions/squad.validation.jsonl": A,
        },
        [("incomplete", "variants/1/predictions/squad.validation.jsonl", None)],
    ),
    "folders that are no variant": (
        {
            "variants/0/predictions/squad.validation.jsonl": GOOD_LINES,
            "variants/one/predictions/squad.validation.jsonl": GOOD_LINES,
            "variants/1.jsonl": GOOD_LINES,
            "variants/.DS_Store": b"",
        },
        [
            ("unknown-file", "variants/0", None),
            ("unknown-file", "variants/1.jsonl", None),
            ("unknown-file", "variants/one", None),
        ],
    ),
    "no predictions": ({SQUAD: None}, [("no-predictions", "", None)]),
    "near task": (
        {"predictions/squda.test.jsonl": b""},
        [("unknown-task", "predictions/squda.test.jsonl", None)],
    ),
    "other split": (
        {"predictions/squad.dev.jsonl": b""},
        [("unknown-split", "predictions/squad.dev.jsonl", None)],
    ),
    "no split": (
        {"predictions/iwslt.en.de.jsonl": b""},
        [("unknown-split", "predictions/iwslt.en.de.jsonl", None)],
    ),
    "other suffix": (
        {"predictions/squad.test.json": b""},
        [("unknown-file", "predictions/squad.test.json", None)],
    ),
    "folder": ({"predictions/sub/x.jsonl": b""}, [("unknown-file", "predictions/sub", None)]),
    "control characters in a name": (
        {"predictions/\x1b[2J": b""},
        [("unknown-file", "predictions/\\x1b[2J", None)],
    ),
    "twice": ({GZ: gzip.compress(GOOD_LINES)}, [("duplicate-file", GZ, None)]),
    "no gzip": ({SQUAD: None, GZ: GOOD_LINES}, [("bad-compression", GZ, 1)]),
    "cut gzip": ({SQUAD: None, GZ: gzip.compress(GOOD_LINES)[:-4]}, [("bad-compression", GZ, 3)]),
    "after zstd": ({SQUAD: None, ZST: zstandard.compress(GOOD_LINES) + b"x"}, [("bad-compression", ZST, 3)]),
    "bomb of one line, gzip": ({SQUAD: None, GZ: BOMB["gz"]}, [("too-large", GZ, 1)]),
    "bomb of blank lines, zstd": ({SQUAD: None, ZST: NEWLINES["zst"]}, [("too-large", ZST, 100_021)]),
    "UTF-16": ({SQUAD: GOOD_LINES.decode().encode("utf-16")}, [("bad-encoding", SQUAD, 1)]),
    "empty answer": ({SQUAD: A + b'{"id": "b", "answer": " \\n"}'}, [("empty-answer", SQUAD, 2)]),
    "byte order mark": ({SQUAD: codecs.BOM_UTF8 + GOOD_LINES}, [("byte-order-mark", SQUAD, 1)]),
    "missing": ({SQUAD: B}, [("missing-id", SQUAD, None)]),
    "no data": (
        {"predictions/woz.en.test.jsonl": GOOD_LINES},
        [("no-data", "predictions/woz.en.test.jsonl", None)],
    ),
}


@pytest.mark.parametrize("case", FILES)
def test_faults_of_files_have_their_place(tmp_path, case):
    files, expected = FILES[case]
    report = check_submission(submission(tmp_path, files), EXPECTED, TASKS)
    assert found(report) == expected
    assert report.ok == all(code in WARNINGS for code, _, _ in expected)


HARMLESS = {
    "nothing odd": {},
    "CRLF and blank lines": {SQUAD: b"\r\n" + GOOD_LINES.replace(b"\n", b"\r\n \r\n") + b"\r\n"},
    "other order": {SQUAD: B + A},
    "line separators in an answer": {SQUAD: A + '{"id": "b", "answer": "2\u2028\x85"}'.encode()},
    "a pair of surrogates": {SQUAD: A + b'{"id": "b", "answer": "\\ud83c\\udf89"}'},
    "gzip": {SQUAD: None, GZ: gzip.compress(GOOD_LINES)},
    "zstd": {SQUAD: None, ZST: zstandard.compress(GOOD_LINES)},
    "hidden files": {"predictions/.DS_Store": b"x", "predictions/.squad.test.jsonl.1.tmp": b"x"},
    "further files": {"README.md": b"x", "results.json": b"{}", "notes/x.txt": b""},
    "a second task": {"predictions/iwslt.en.de.test.jsonl": b'{"id": "0", "answer": "x"}'},
}


@pytest.mark.parametrize("case", HARMLESS)
def test_what_is_tolerated(tmp_path, case):
    report = check_submission(submission(tmp_path, HARMLESS[case]), EXPECTED, TASKS)
    assert found(report) == []
    assert report.ok and report.exit_code == 0
    assert report.text().endswith(": valid\n")
    squad = report.files[-1]
    assert (squad.task, squad.split, squad.lines, squad.answers, squad.expected) == (
        "squad",
        "validation",
        2,
        2,
        2,
    )


def test_all_faults_are_told_at_once(tmp_path):
    files = {TOML: b"", SQUAD: b"{x\n" + A, "predictions/squad.dev.jsonl": b"", "predictions/x": b""}
    report = check_submission(submission(tmp_path, files), EXPECTED, TASKS)
    codes = {fault.code for fault in report.faults}
    assert codes == {"bad-metadata", "bad-json", "missing-id", "unknown-split", "unknown-file"}


def test_messages_say_what_to_do(tmp_path):
    files = {
        "predictions/squda.test.jsonl": b"",
        "predictions/squad.dev.jsonl": b"",
        "predictions/zzz.test.jsonl": b"",
        "predictions/iwslt.en.de.jsonl": b"",
        SQUAD: b'{"id": "a", "pred": "1"}\n' + A + B,
    }
    text = check_submission(submission(tmp_path, files), EXPECTED, TASKS).text()
    assert "There is no task 'squda'. Did you mean squad?" in text
    assert "There is no split 'dev'. Did you mean validation?" in text
    assert "There is no task 'zzz'. Known: squad, iwslt.en.de, woz.en, multinli.in.out." in text
    assert "as in 'iwslt.en.de.validation.jsonl'" in text
    assert f"{SQUAD}:1: missing-field: the line has no 'answer', only these keys: 'id', 'pred'" in text
    assert f"{SQUAD}:2: duplicate-id: the id 'a' is also on line 1" in text


def test_a_flood_is_cut_and_counted(tmp_path):
    ids = [f"id-{i:05}" for i in range(10_570)]
    report = check_submission(
        submission(tmp_path, {SQUAD: b"{x\n" * 25 + B}), {("squad", "validation"): ids}, TASKS
    )
    kept = [fault for fault in report.faults if fault.code == "missing-id"]
    assert len(kept) == KEPT == 20
    assert "'id-00000'" in kept[0].message and "'id-00019'" in kept[-1].message
    assert [fault.line for fault in report.faults if fault.code == "bad-json"] == list(range(1, 21))
    assert (
        f"{SQUAD}: missing-id: the example 'id-00000' has no answer; add a line for this example (10,569 more"
        in report.text()
    )
    assert f"{SQUAD}: bad-json: lines 1, 2, 3 and 22 more: the line is not JSON" in report.text()
    assert report.text().endswith(": 10,596 faults\n")
    record = json.loads(report.to_json())
    assert {"file": SQUAD, "code": "missing-id", "count": 10_570} in record["totals"]
    assert record["fault_count"] == report.fault_count == 10_596
    assert len(record["faults"]) == 41


def test_the_check_narrows_to_tasks_and_splits(tmp_path):
    files = {
        "predictions/woz.en.test.jsonl": b"{",
        "predictions/squad.test.jsonl": b"{",
        "predictions/other.validation.jsonl": b"",
        "predictions/other.dev.jsonl": b"",
        "predictions/woz.en.jsonl": b"",
    }
    folder = submission(tmp_path, files)
    report = check_submission(folder, EXPECTED, TASKS, tasks=["squad"], splits=["validation"])
    assert found(report) == []
    assert [count.file for count in report.files] == [SQUAD]
    assert {fault.code for fault in check_submission(folder, EXPECTED, TASKS).faults} == {
        "bad-json",
        "no-data",
        "unknown-task",
        "unknown-split",
    }


@pytest.mark.parametrize(
    ("tasks", "splits", "expected"),
    [
        (["squad"], None, []),
        (["woz.en"], None, [("missing-file", "predictions", None)]),
        (["squad", "woz.en"], ["validation"], [("missing-file", "predictions", None)]),
        (["squad"], ["test"], [("missing-file", "predictions", None)]),
        (None, ["test"], [("no-predictions", "", None)]),
    ],
)
def test_requested_answers_must_exist(tmp_path, tasks, splits, expected):
    report = check_submission(submission(tmp_path, {}), EXPECTED, TASKS, tasks, splits)
    assert found(report) == expected


def test_answers_for_other_data_are_a_warning(tmp_path):
    pair = ("squad", "validation")
    info = SubmissionInfo("n", data={"squad.validation": "sha256:" + "0" * 64})
    write_submission(tmp_path, info, {pair: [("a", "1"), ("b", "2")]})
    same = check_submission(tmp_path, EXPECTED, TASKS, fingerprints={pair: "sha256:" + "0" * 64})
    bare = check_submission(tmp_path, EXPECTED, TASKS, fingerprints={pair: "0" * 64})
    other = check_submission(tmp_path, EXPECTED, TASKS, fingerprints={pair: "sha256:" + "1" * 64})
    assert found(same) == found(bare) == []
    assert found(other) == [("other-data", SQUAD, None)] and other.ok


def test_sampled_answers_are_checked_like_the_first(tmp_path):
    from decabench.tasks import TASKS

    lines = [
        {"id": f"sst.validation.{at}", "answer": label, "samples": [label, f"It's {label}."]}
        for at, label in enumerate(["positive", "negative"] * 3)
    ]
    text = "".join(json.dumps(line) + "\n" for line in lines).encode()
    folder = submission(tmp_path, {SQUAD: None, "predictions/sst.validation.jsonl": text})
    ids = {("sst", "validation"): [line["id"] for line in lines]}
    (warning,) = check_submission(folder, ids, TASKS).warnings
    assert warning.code == "label-form" and 'line 1 has "It\'s positive."' in warning.message


def test_a_prediction_that_is_not_the_answer_is_a_warning(tmp_path):
    a = b'{"id": "a", "answer": "1", "prediction": "The answer is 1"}\n'
    b = b'{"id": "b", "answer": "2", "prediction": "3"}\n'
    report = check_submission(submission(tmp_path, {SQUAD: a + b}), EXPECTED, TASKS, splits=["validation"])
    assert found(report) == [("answer-format", SQUAD, 2)]


def test_links_out_of_the_submission_are_not_followed(tmp_path):
    (tmp_path / "secret").write_text('{"id": "a", "answer": "secret"}')
    folder = submission(tmp_path / "s", {"more/x": b""})
    (folder / "predictions/iwslt.en.de.test.jsonl").symlink_to(tmp_path / "secret")
    (folder / "predictions/woz.en.test.jsonl").symlink_to(tmp_path / "nothing")
    report = check_submission(folder, EXPECTED, TASKS)
    assert found(report) == [
        ("unknown-file", "predictions/iwslt.en.de.test.jsonl", None),
        ("unknown-file", "predictions/woz.en.test.jsonl", None),
    ]
    (folder / TOML).unlink()
    (folder / TOML).symlink_to(tmp_path / "secret")
    assert ("no-submission-toml", "", None) in found(check_submission(folder, EXPECTED, TASKS))


@pytest.mark.parametrize("name", ["s.zip", "s.tar.gz", "s.rar"])
def test_an_archive_that_is_refused_is_a_fault(tmp_path, name):
    (tmp_path / name).write_bytes(b"no archive")
    report = check_submission(tmp_path / name, EXPECTED, TASKS)
    assert found(report) == [("bad-archive", "", None)]
    assert report.text().startswith(f"bad-archive: {name} is ")


def test_a_file_far_larger_than_its_answers_is_not_read_on(tmp_path, monkeypatch):
    monkeypatch.setattr(answers, "_ANSWER_BYTES", 100)
    monkeypatch.setattr(answers, "_SLACK_BYTES", 1000)
    data = A + (b'{"id": "x", "answer": "' + b"x" * 60 + b'"}\n') * 5000
    report = check_submission(submission(tmp_path, {SQUAD: None, GZ: gzip.compress(data)}), EXPECTED, TASKS)
    assert report.faults[-1].code == "too-large"
    assert "reading stopped there" in report.faults[-1].message


def test_answers_for_other_data_are_one_fault(tmp_path):
    lines = b"".join(b'{"id": "other-%d", "answer": "2"}\n' % number for number in range(30))
    report = check_submission(submission(tmp_path, {SQUAD: A + lines}), EXPECTED, TASKS)
    assert found(report)[0] == ("other-ids", SQUAD, None)
    assert {code for code, _, _ in found(report)} == {"other-ids"}
    assert report.fault_count == len(report.faults) == report.exit_code == 1
    assert "30 of 31 ids" in report.faults[0].message


def test_failures_of_a_limited_run_are_no_fault_of_its_other_wordings(home, tmp_path, monkeypatch):
    """The limit counts answers, so if a question failed in the original wording, a variant has one more answer."""
    import sys
    from types import ModuleType

    from decabench.runs.plan import ALL_VARIANTS, Selection
    from decabench.runs.write import predict
    from decabench.tasks.registry import TASKS
    from decabench.tasks.store import Store

    class Model:
        def predict(self, questions):
            if any(
                q.id.endswith(".3") and q.question.startswith("Is this review negative") for q in questions
            ):
                raise ValueError("no")
            return ["positive" for _ in questions]

    module = ModuleType("failing_model")
    module.model = Model()
    monkeypatch.setitem(sys.modules, "failing_model", module)
    store = Store(home)
    settings = {"variant": ALL_VARIANTS, "selection": Selection(10)}
    folder = predict("failing_model:model", tmp_path / "s", ("sst",), home=home, **settings)
    report = check_submission(folder, {("sst", "validation"): store.ids("sst", "validation")}, TASKS)
    assert {fault.code for fault in report.faults} == {"incomplete"}


IDS = {("squad", "test"): ["b", "a"], ("iwslt.en.de", "validation"): ("ü", '"'), ("squad", "train"): []}
FINGERPRINTS = {("squad", "test"): "sha256:" + "0" * 64}


@pytest.mark.parametrize("name", ["ids.json", "ids.json.gz"])
def test_what_is_written_is_read(tmp_path, name):
    write_id_list(tmp_path / name, IDS, FINGERPRINTS)
    expected = IdList({pair: tuple(ids) for pair, ids in IDS.items()}, FINGERPRINTS)
    assert read_id_list(tmp_path / name) == expected
    assert list(read_id_list(tmp_path / name).ids) == [
        ("iwslt.en.de", "validation"),
        ("squad", "train"),
        ("squad", "test"),
    ]


def test_the_form_starts_with_its_version(tmp_path):
    write_id_list(tmp_path / "ids.json", IDS, FINGERPRINTS)
    text = (tmp_path / "ids.json").read_text(encoding="utf-8")
    assert text.startswith('{\n"format": "decabench.ids/1"')
    assert json.loads(text)["splits"][2] == {
        "task": "squad",
        "split": "test",
        "fingerprint": FINGERPRINTS["squad", "test"],
        "ids": ["b", "a"],
    }


def split(**changes):
    entry = {"task": "squad", "split": "test", "ids": ["a"]} | changes
    return json.dumps({"format": "decabench.ids/1", "splits": [entry]}).encode()


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", ""),
        (b"[]", "its format is not decabench.ids/1"),
        (b'{"format": "decabench.run/1"}', "its format is not decabench.ids/1. Write the list again with"),
        (b'{"format": "decabench.ids/1", "splits": [], "splits": []}', "occurs more than once"),
        (split(split="dev"), r"Invalid enum value 'dev' - at `\$\.splits\[0\]\.split`"),
        (split(ids=["\ud800"]), "half of a surrogate pair"),
    ],
)
def test_damage_is_told_in_a_sentence(tmp_path, data, message):
    (tmp_path / "ids.json").write_bytes(data)
    with pytest.raises(DataError, match=rf"^ids\.json is not a valid id list: .*{message}") as error:
        read_id_list(tmp_path / "ids.json")
    assert error.value.exit_code == 3
