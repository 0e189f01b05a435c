"""Writing a submission, and opening it as a folder or an archive."""

import io
import tarfile
import tempfile
import zipfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from decabench.errors import SubmissionError
from decabench.submission.folder import SubmissionInfo, open_submission, render_metadata, write_submission

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
)
ANSWERS = {
    ("squad", "validation"): [("b", "Denver"), ("a", "")],
    ("iwslt.en.de", "test"): [("0", "Über\u2028\u0085\x00\r\n\t\"'\\ 🎉")],
}
COMPRESSIONS = [None, "gz", "zst"]
from tests.folders import contents
from tests.submission.reading import read_answers


@pytest.mark.parametrize("compress", COMPRESSIONS)
def test_what_is_written_is_read(tmp_path, compress):
    written = write_submission(tmp_path / "new" / "s", INFO, ANSWERS, compress)
    with open_submission(tmp_path / "new" / "s") as submission:
        assert submission.info == INFO == written.info
        assert submission.files == written.files
        assert {pair: list(read_answers(file).items()) for pair, file in submission.files.items()} == ANSWERS
        assert [file.task for file in submission.files.values()] == ["iwslt.en.de", "squad"]


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    answers=st.dictionaries(st.text(), st.text(), max_size=8),
    info=st.builds(
        SubmissionInfo,
        name=st.just("n"),
        description=st.text(),
        training_data=st.text(),
        authors=st.lists(st.text()).map(tuple),
        model_size=st.none() | st.integers(0, 2**63 - 1),
        date=st.just("") | st.dates().map(str),
        predictor=st.dictionaries(
            st.text(), st.text() | st.integers(-(2**63), 2**63 - 1) | st.booleans() | st.lists(st.text())
        ),
    ),
    compress=st.sampled_from(COMPRESSIONS),
)
def test_any_text_survives(tmp_path, answers, info, compress):
    submission = write_submission(tmp_path / "s", info, {("squad", "test"): answers.items()}, compress)
    with open_submission(tmp_path / "s") as read:
        assert read.info == info
    assert read_answers(submission.files["squad", "test"]) == answers
    assert list(read_answers(submission.files["squad", "test"])) == list(answers)


def test_writing_again_replaces_the_same_split_in_any_packing_and_leaves_others(tmp_path):
    write_submission(tmp_path, INFO, ANSWERS, "gz")
    submission = write_submission(tmp_path, INFO, {("squad", "validation"): [("a", "new")]}, "zst")
    names = sorted(path.name for path in (tmp_path / "predictions").iterdir())
    assert names == ["iwslt.en.de.test.jsonl.gz", "squad.validation.jsonl.zst"]
    assert read_answers(submission.files["squad", "validation"]) == {"a": "new"}


def test_a_failure_while_writing_leaves_the_old_file_whole(tmp_path):
    write_submission(tmp_path, INFO, ANSWERS)
    before = contents(tmp_path)

    def answers():
        yield "a", "one"
        raise RuntimeError("the model broke")

    with pytest.raises(RuntimeError, match="the model broke"):
        write_submission(tmp_path, INFO, {("squad", "validation"): answers()})
    assert contents(tmp_path) == before


@pytest.mark.parametrize(
    ("pair", "answers", "message"),
    [
        (("squad", "dev"), [], "'dev' is not a split. Use one of train, validation, test"),
        (("../squad", "test"), [], "is not a valid task name"),
        (("squad", "test"), [("a", "1"), ("a", "2")], "duplicate-id: the id 'a' is used more than once"),
        (("squad", "test"), [("a", "\ud800")], r"bad-encoding: half of a surrogate pair \(\\ud800\)"),
        (("squad", "test"), [("a", None)], "must both be strings"),
        (("squad", "test"), [("a", "x" * (1 << 20))], "too-large"),
    ],
)
def test_what_could_not_be_read_is_not_written(tmp_path, pair, answers, message):
    with pytest.raises(SubmissionError, match=message):
        write_submission(tmp_path / "s", INFO, {pair: answers})
    assert not (tmp_path / "s").exists() or not contents(tmp_path / "s")


@pytest.mark.parametrize("kind", ["zip", "tar.gz", "tgz"])
@pytest.mark.parametrize("top", ["", "inner/"])
def test_archives_open_like_folders_and_leave_nothing(tmp_path, monkeypatch, kind, top):
    write_submission(tmp_path / "s", INFO, ANSWERS, "zst")
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    files = {top + name: data for name, data in contents(tmp_path / "s").items()}
    files["__MACOSX/._x"] = files[".DS_Store"] = b"noise"
    path = tmp_path / f"x.{kind}"
    if kind == "zip":
        with zipfile.ZipFile(path, "w") as archive:
            for name, data in files.items():
                archive.writestr(name, data)
    else:
        with tarfile.open(path, "w:gz") as archive:
            for name, data in files.items():
                info = tarfile.TarInfo(name)
                info.size = len(data)
                archive.addfile(info, io.BytesIO(data))
    with open_submission(path) as submission:
        assert submission.info == INFO
        assert dict(read_answers(submission.files["squad", "validation"])) == {"b": "Denver", "a": ""}
        assert list(temporary.iterdir())
    assert not list(temporary.iterdir())


JUNK = ("__MACOSX/._submission.toml", ".DS_Store", "Thumbs.db", "desktop.ini", "s/.DS_Store", "s/t/Thumbs.db")


@pytest.mark.parametrize("top", ["s/", "s/t/"])
def test_the_folder_in_an_archive_is_found_beside_what_systems_add(tmp_path, top):
    with zipfile.ZipFile(tmp_path / "x.zip", "w") as archive:
        for name in JUNK[: 5 if top == "s/" else 6]:
            archive.writestr(name, "x")
        archive.writestr(f"{top}submission.toml", render_metadata(INFO))
        archive.writestr(f"{top}predictions/squad.validation.jsonl", '{"id": "a", "answer": "b"}\n')
    with open_submission(tmp_path / "x.zip") as submission:
        assert submission.info == INFO


def test_an_archive_in_an_archive_is_named(tmp_path):
    with zipfile.ZipFile(tmp_path / "x.zip", "w") as archive:
        archive.writestr("folder/submission.zip", "PK")
    said = r"x\.zip contains only another archive\. Unpack x\.zip and specify submission\.zip\."
    with pytest.raises(SubmissionError, match=said), open_submission(tmp_path / "x.zip"):
        pass


@pytest.mark.parametrize(
    ("files", "message"),
    [
        (
            {},
            'write this file, with at least the lines format = "decabench.submission/1" and name = "my model"',
        ),
        ({"submission.toml": "name = "}, "submission.toml:1: bad-toml"),
        ({"submission.toml": "good"}, "no-predictions"),
        ({"submission.toml": "good", "predictions/squad.jsonl": ""}, "unknown-split"),
        (
            {
                "submission.toml": "good",
                "predictions/squad.test.jsonl": "",
                "predictions/squad.test.jsonl.gz": "",
            },
            "duplicate-file",
        ),
    ],
)
def test_opening_what_is_no_submission(tmp_path, files, message):
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        good = 'format = "decabench.submission/1"\nname = "n"\n'
        (tmp_path / name).write_text(good if text == "good" else text)
    with pytest.raises(SubmissionError, match=message) as error, open_submission(tmp_path):
        pass
    assert error.value.exit_code == 1


def test_opening_what_is_not_there_or_another_file(tmp_path):
    with pytest.raises(SubmissionError, match=r"There is no .*nothing\. Specify a folder"):
        with open_submission(tmp_path / "nothing"):
            pass
    (tmp_path / "x.csv").write_text("")
    with pytest.raises(
        SubmissionError, match=r"x\.csv is not a submission\. Specify a folder or an archive \(\.zip"
    ):
        with open_submission(tmp_path / "x.csv"):
            pass
    (tmp_path / "x.jsonl").write_text("")
    with pytest.raises(
        SubmissionError, match=r"x\.jsonl is an answer file, not a submission\. Move the file to DIR/"
    ):
        with open_submission(tmp_path / "x.jsonl"):
            pass


def test_a_path_inside_a_submission_names_the_submission(tmp_path, monkeypatch):
    write_submission(tmp_path / "mine", INFO, ANSWERS)
    monkeypatch.chdir(tmp_path)
    answers = next(Path("mine/predictions").iterdir())
    for inside in (Path("mine/predictions"), answers, Path("mine/submission.toml")):
        with pytest.raises(SubmissionError) as error, open_submission(inside):
            pass
        assert str(error.value) == f"{inside} is inside the submission mine. Specify mine."
    monkeypatch.chdir(tmp_path / "mine" / "predictions")
    with pytest.raises(SubmissionError, match=r"\. is inside the submission /.*mine\. Specify /.*mine\."):
        with open_submission("."):
            pass
    with open_submission("..") as submission:
        assert submission.info == INFO


def test_a_folder_given_as_a_dot_is_named(tmp_path, monkeypatch):
    (tmp_path / "mine").mkdir()
    monkeypatch.chdir(tmp_path / "mine")
    with pytest.raises(SubmissionError, match=r"^mine is not a valid submission:"), open_submission("."):
        pass


def test_warnings_do_not_keep_a_submission_closed(tmp_path):
    write_submission(tmp_path, INFO, ANSWERS)
    path = tmp_path / "submission.toml"
    path.write_bytes(b"\xef\xbb\xbfunheard_of = true\r\n" + path.read_bytes())
    with open_submission(str(tmp_path)) as submission:
        assert submission.info == INFO
