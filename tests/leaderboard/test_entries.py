"""Finding results files; nothing that looks like one is dropped."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from decabench.leaderboard.entries import LeaderboardError, printable_line, read_submissions, submissions_root
from decabench.tasks import SUITES
from tests.leaderboard.small import results, suite_results, write


def put(path: Path, content: str | bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)


@pytest.mark.parametrize(
    "place",
    [
        "results.json",
        "one/results.json",
        "one/results-2026.json",
        "one/validation.results.json",
        "one/results/validation.json",
        "results/one.json",
        "one/results/validation/results.json",
        "group/one/results/validation/results.json",
    ],
)
def test_places(tmp_path: Path, place: str) -> None:
    put(tmp_path / place, json.dumps(results()))
    (found,) = read_submissions(tmp_path).entries
    assert found.path == place


@pytest.mark.parametrize("place", ["one/other.json", ".hidden/results.json", "a/b/c/d/e/results.json"])
def test_other_places(tmp_path: Path, place: str) -> None:
    put(tmp_path / place, json.dumps(results()))
    assert read_submissions(tmp_path).entries == ()


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("", "it is not JSON: Expecting value at column 1"),
        (b"\xff\xfe", "it is not UTF-8"),
        ("[]", "its JSON is not an object"),
        ("{}", "its format is None"),
        ('{"a": NaN}', "it is not JSON: NaN"),
        ('{"a": 1, "a": 2}', "it is not JSON: the key 'a'"),
        ('{"a": ' + "9" * 5000 + "}", "it is not JSON"),
        ("[" * 200_000, "it is not JSON: its brackets are nested too deeply"),
        ('{"format": "decabench.results/0"}', "its format is 'decabench.results/0'"),
        (
            json.dumps(results(split="train", scores={"sst": 1.0})),
            "its split is train; only validation and test are ranked",
        ),
        (
            json.dumps({**results(), "decascore": 999.0}),
            "its decaScore is 999.00, but its task scores give 500.00",
        ),
        (json.dumps({**results(), "decascore": None}), "it states no decaScore, although 10 of 10 tasks"),
    ],
)
def test_refused_files_are_listed(tmp_path: Path, content: str | bytes, reason: str) -> None:
    put(tmp_path / "bad" / "results.json", content)
    write(tmp_path, [results("good")])
    found = read_submissions(tmp_path)
    assert [entry.name for entry in found.entries] == ["good"]
    ((path, given),) = [(refusal.path, refusal.reason) for refusal in found.refused]
    assert path == "bad/results.json"
    assert given.startswith(reason)


def test_a_dangling_link_is_listed(tmp_path: Path) -> None:
    (tmp_path / "results.json").symlink_to("nowhere")
    (refusal,) = read_submissions(tmp_path).refused
    assert refusal.reason == "it cannot be read (No such file or directory)"


def test_a_copy_beside_it_and_a_link_to_it_count_once(tmp_path: Path) -> None:
    text = json.dumps(results())
    put(tmp_path / "one" / "results.json", text)
    put(tmp_path / "one" / "results" / "validation.json", text)
    (tmp_path / "again").symlink_to("one")
    (tmp_path / "one" / "loop").symlink_to("..")
    assert len(read_submissions(tmp_path).entries) == 1


def test_other_files_of_decabench_are_not_results(tmp_path: Path) -> None:
    put(tmp_path / "one" / "results" / "validation.times.json", '{"format": "decabench.times/1"}')
    found = read_submissions(tmp_path)
    assert (found.entries, found.refused) == ((), ())


def test_submissions_that_are_not_evaluated_are_named(tmp_path: Path) -> None:
    put(tmp_path / "waiting" / "submission.toml", "")
    put(tmp_path / "done" / "submission.toml", "")
    put(tmp_path / "done" / "results" / "validation" / "results.json", json.dumps(results()))
    assert read_submissions(tmp_path).not_evaluated == ("waiting",)


def test_results_that_lie_too_deep_are_named(tmp_path: Path) -> None:
    put(tmp_path / "x" / "y" / "one" / "submission.toml", "")
    put(tmp_path / "x" / "y" / "one" / "results" / "validation" / "results.json", json.dumps(results()))
    put(tmp_path / "group" / "two" / "results" / "validation" / "results.json", json.dumps(results()))
    (tmp_path / "group" / "two" / "results" / "validation" / "round").symlink_to(".")
    found = read_submissions(tmp_path)
    assert [entry.path for entry in found.entries] == ["group/two/results/validation/results.json"]
    assert (found.too_deep, found.not_evaluated) == (("x/y/one",), ())


def test_a_submission_may_be_read_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("one", "two"):
        put(tmp_path / name / "submission.toml", "")
        put(tmp_path / name / "results" / "validation" / "results.json", json.dumps(results(name)))
    assert submissions_root(tmp_path) == (tmp_path, "")
    assert submissions_root(tmp_path / "one") == (tmp_path, "one")
    monkeypatch.chdir(tmp_path / "one")
    assert submissions_root(Path()) == (tmp_path.resolve(), "one")
    found = read_submissions(*submissions_root(Path())[:1], only="one")
    assert [entry.path for entry in found.entries] == ["one/results/validation/results.json"]


@pytest.mark.parametrize("mark", ["\u200b", "\u202e", "\u3164", "\n", "\U000e0061"])
def test_a_path_that_is_not_all_seen_is_refused(tmp_path: Path, mark: str) -> None:
    """Shown without the mark, it was the path of another submission, whose statistics and answers stood for its own."""
    write(tmp_path, [results("alpha", 50.0)])
    (tmp_path / "submission-0").rename(tmp_path / "alpha")
    shutil.copytree(tmp_path / "alpha", tmp_path / f"alpha{mark}")
    found = read_submissions(tmp_path)
    assert [entry.path for entry in found.entries] == ["alpha/results/validation.json"]
    (refusal,) = found.refused
    assert refusal.reason == f"its path has the character U+{ord(mark):04X}, which is not seen: rename it"


@pytest.mark.parametrize(
    "name",
    [
        "a  b",
        "\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645",
        "\u2764\ufe0f",
        "日本\u3000語",
        "a\u00a0b",
        "👩\u200d🔬",
    ],
)
def test_other_scripts_are_seen(tmp_path: Path, name: str) -> None:
    write(tmp_path, [results(name, 50.0)])
    (tmp_path / "submission-0").rename(tmp_path / name)
    (entry,) = read_submissions(tmp_path).entries
    assert entry.path == f"{name}/results/validation.json"
    assert "\u200c" not in name or entry.name == name


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("al\u00adpha\u200b", "alpha"),
        ("alpha\u3164\U000e0061", "alpha"),
        ("al\u200dpha\ufe0f", "alpha"),
        ("\u3164", "unnamed"),
        ("Z" + "\u0301" * 40, "Z" + "\u0301" * 4),
        ("Systém  Ω", "Systém Ω"),
    ],
)
def test_names_that_look_alike_for_what_is_not_seen_are_the_same(
    tmp_path: Path, name: str, shown: str
) -> None:
    write(tmp_path, [results(name, 50.0)])
    assert [entry.name for entry in read_submissions(tmp_path).entries] == [shown]


@pytest.mark.parametrize(
    ("title", "total", "shown"),
    [
        ("The Natural Language Dec\u0430thlon", "decaScore", ("mine", "total")),
        ("My ten tasks", "DECASCORE", ("My ten tasks", "total")),
        ("My ten tasks", "my \u0455core", ("My ten tasks", "total")),
        ("Мой набор", "сумма", ("Мой набор", "сумма")),
        ("My ten tasks", "mean", ("My ten tasks", "mean")),
        ("β-VAE reviews: ΔF1 and π", "mean", ("β-VAE reviews: ΔF1 and π", "mean")),
        ("Russian SuperGLUE (Русский набор)", "mean", ("Russian SuperGLUE (Русский набор)", "mean")),
        ("\u0422\u041d\u0415 tasks", "mean", ("mine", "mean")),
    ],
)
def test_a_file_s_own_suite_looks_like_no_known_one(
    tmp_path: Path, title: str, total: str, shown: tuple[str, str]
) -> None:
    suite = replace(SUITES["tagging"], name="mine", title=title, total_name=total, total="sum")
    scores = dict.fromkeys(suite.tasks, 50.0)
    write(tmp_path, [suite_results("alpha", suite, scores, dict.fromkeys(scores, "em"))], False)
    (entry,) = read_submissions(tmp_path).entries
    assert (entry.suite.title, entry.suite.total_name) == shown


def test_no_such_folder(tmp_path: Path) -> None:
    with pytest.raises(LeaderboardError, match=r"The folder .* does not exist: give the folder"):
        read_submissions(tmp_path / "nowhere")


def test_a_submission_may_be_linked_into_the_folder(tmp_path: Path) -> None:
    put(tmp_path / "elsewhere" / "results.json", json.dumps(results("linked")))
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "mine").symlink_to(tmp_path / "elsewhere")
    (found,) = read_submissions(tmp_path / "in").entries
    assert (found.name, found.path) == ("linked", "mine/results.json")


@pytest.mark.parametrize("link", ["results", "results/validation", "results/validation/results.json"])
def test_links_inside_a_submission_that_leave_it_are_refused(tmp_path: Path, link: str) -> None:
    put(tmp_path / "elsewhere" / "results" / "validation" / "results.json", json.dumps(results("taken")))
    place = tmp_path / "in" / "mine" / link
    place.parent.mkdir(parents=True)
    place.symlink_to(tmp_path / "elsewhere" / link)
    found = read_submissions(tmp_path / "in")
    assert found.entries == ()
    assert [(refusal.path, refusal.reason) for refusal in found.refused] == [
        (
            f"mine/{link}",
            "it is a link that leads out of its submission: put a copy there, or link the whole submission",
        )
    ]


def test_links_between_submissions_are_refused_too(tmp_path: Path) -> None:
    put(tmp_path / "one" / "results" / "validation" / "results.json", json.dumps(results("one")))
    (tmp_path / "two").mkdir()
    (tmp_path / "two" / "results").symlink_to("../one/results")
    found = read_submissions(tmp_path)
    assert [entry.path for entry in found.entries] == ["one/results/validation/results.json"]
    assert [refusal.path for refusal in found.refused] == ["two/results"]


def test_links_that_stay_in_a_submission_are_followed(tmp_path: Path) -> None:
    put(tmp_path / "one" / "kept" / "results.json", json.dumps(results("one")))
    (tmp_path / "one" / "results").symlink_to("kept")
    found = read_submissions(tmp_path)
    assert (len(found.entries), found.refused) == (1, ())


@pytest.mark.parametrize(
    "text", ["plain text", " two  spaces ", "x" * 300, "tab\there", "caf\u00e9", "a\u202eb", "\u2028"]
)
def test_a_line_is_short_and_printable(text: str) -> None:
    assert printable_line(text, 50) == printable_line(f"{text}\u200e", 50)  # looked at character by character
    assert printable_line(text, 50).isprintable() and len(printable_line(text, 50)) <= 50
