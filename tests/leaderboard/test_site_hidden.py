"""Hidden labels: a keeper's board ranks by them, but nothing that it publishes or prints contains one.

The site, the files of `evaluate` and the output of commands are searched for gold answers, also in the encodings of
JSON, HTML, URLs and gzip.
"""

from __future__ import annotations

import gzip
import hashlib
import html
import json
import re
import shutil
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from json.encoder import encode_basestring
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest
from click.testing import CliRunner, Result

from decabench.cli import cli
from decabench.errors import DataError
from decabench.files import canonical_json
from decabench.scoring import evaluate
from decabench.submission import SubmissionInfo, write_id_list, write_submission
from decabench.tasks import Store
from decabench.tasks.store import _fingerprint_line

Command = Callable[..., Result]

COUNT = 24
PIECES = (
    '«Gäld» & <b>"q',
    "\\u0041'½",
    "naïve—\U0001d54f",
    "%41&amp;",
    "\t`$(x)`",
    "-1e",
    "=SUM",
    "\u202eevil",
)
"""Parts of gold answers: HTML, escapes, characters outside the BMP, formulas and direction marks."""


def golds(task: str) -> list[str]:
    """Return unique gold answers for a task. Labels and tags repeat, as in real data."""
    match task:
        case "own.text":
            return [f"txt{number}q {PIECES[number % len(PIECES)]} zq{number}e" for number in range(COUNT)]
        case "own.label":
            return [f"lbl-{'kxw'[number % 3]}q7" for number in range(COUNT)]
        case "own.tags":
            return [f"tg-{'uv'[number % 2]}q9 tg-{'uvw'[number % 3]}q9" for number in range(COUNT)]
        case "own.number":
            return [f"{number + 0.7}319{number:02}" for number in range(COUNT)]
        case _:
            return [f"slot{number % 5}: val{number}q5; " for number in range(COUNT)]


TASKS = {
    "own.text": 'metric = "nf1"\nsecondary = ["em", "rouge"]',
    "own.label": 'metric = "macro_f1"\noutput = "label"',
    "own.tags": 'metric = "tag_macro_f1"\noutput = "tags"',
    "own.number": 'metric = "mse"\nsecondary = ["pearson"]',
    "own.dialogue": 'metric = "joint_goal_em"\nsecondary = ["dialogue_f1"]',
}
META = """
from pathlib import Path
from decabench.tasks import Example, RemoteFile, Source, Task

def read(files, split):
    for line in files.path("meta.txt").read_text().splitlines():
        number, gold = line.split()
        yield Example(f"m-{number}", "Which?", f"Number {number}.", (gold,), (gold,), {"gold": gold})

HERE = Path(__file__).parent
TASK = Task("own.meta", "Meta", "Meta", metric="em", hidden=("test",), folder=HERE, origin="user",
            sources=(Source("text", {"test": (RemoteFile("meta.txt"),)}, read),))
"""


def write_tasks(folder: Path, hidden: bool) -> list[Path]:
    """Write tasks with a test split each. Their ids occur nowhere else."""
    folder.mkdir()
    files = []
    for name, settings in TASKS.items():
        answers = golds(name)
        rows = [
            {
                "id": f"d{number // 6}-{name}_{number}",
                "text": f"word{number} more",
                "gold": gold,
                # The name of a unit may contain the label.
                "unit": f"unit {answers[number // 6]}",
            }
            for number, gold in enumerate(answers)
        ]
        (folder / f"{name}.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
        mark = 'hidden = ["test"]\n' if hidden else ""
        (folder / f"{name}.toml").write_text(
            f'format = "decabench.taskfile/1"\nname = "{name}"\n{settings}\n{mark}'
            'question = "Which?"\ncontext = "{text}"\nanswer = "gold"\nid = "id"\nunits = ["unit"]\n'
            f'[files]\ntest = "{name}.jsonl"\n'
        )
        files.append(folder / f"{name}.toml")
    lines = "".join(f"{number} mta{number}q3\n" for number in range(COUNT))
    (folder / "meta.txt").write_text(lines)
    (folder / "meta.py").write_text(META if hidden else META.replace('("test",)', "()"))
    (folder / "suite.toml").write_text(
        'format = "decabench.suite/1"\nname = "own"\ntitle = "Own"\ntotal = "mean"\ntotal_name = "mean score"\n'
        f"tasks = {[name for name in (*TASKS, 'own.meta') if name != 'own.number']}\n"
    )
    (folder / "numbers.toml").write_text(
        'format = "decabench.suite/1"\nname = "numbers"\ntitle = "Numbers"\ntotal = "mean"\ntasks = ["own.number"]\n'
    )
    return [*files, folder / "meta.py", folder / "suite.toml", folder / "numbers.toml"]


def needles() -> set[str]:
    """Return the unique words in gold answers."""
    found = {gold.strip() for name in ("own.label", "own.number") for gold in golds(name)}
    found |= {f"mta{number}q3" for number in range(COUNT)}
    others = " ".join(text for name in ("own.text", "own.tags", "own.dialogue") for text in golds(name))
    return found | set(re.findall(r"\w*q\d+e|txt\d+q|tg-\wq9|val\d+q5", others))


def readings(raw: bytes) -> Iterator[str]:
    """Yield a file's text, and the text decoded from its escapes, which may be nested, such as JSON in a script."""
    if raw.startswith(b"\x1f\x8b"):
        raw = gzip.decompress(raw)
    text = raw.decode("utf-8", "replace")
    yield text
    for _ in range(3):
        plain = re.sub(r"\\u([0-9a-fA-F]{4})", lambda each: chr(int(each[1], 16)), text)
        plain = plain.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        plain = re.sub(r"\\(.)", lambda each: {"n": "\n", "t": "\t"}.get(each[1], each[1]), plain)
        yield plain
        text = unquote(html.unescape(plain))
        yield text


def searched(texts: Iterable[str]) -> set[str]:
    """Return the gold answers that occur in the texts, ignoring case."""
    within = "\n".join(texts).casefold()
    return {gold for gold in needles() if gold.casefold() in within}


def files_below(folder: Path, *but: str) -> dict[str, bytes]:
    paths = (path for path in sorted(folder.rglob("*")) if path.is_file())
    named = {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths}
    return {name: content for name, content in named.items() if not any(part in name for part in but)}


class Keeper:
    """A board with hidden labels, and the output of all commands that made it."""

    def __init__(self, folder: Path, hidden: bool) -> None:
        self.folder, self.home, self.submissions = folder, folder / "home", folder / "submissions"
        self.printed: list[str] = []
        folder.mkdir()
        self.include = write_tasks(folder / "private", hidden)
        self.tasks = [*TASKS, "own.meta"]

    def run(self, *arguments: object, code: int | None = 0) -> Result:
        data = ["--home", self.home, *(part for path in self.include for part in ("--include", path))]
        done = CliRunner().invoke(cli, [str(each) for each in (*arguments, *data)])
        self.printed += [done.stdout, done.stderr]
        assert code is None or done.exit_code == code, done.output
        return done

    def submit(self, name: str, right: Callable[[int], bool]) -> Path:
        """Write answers to all tasks. Right answers equal gold."""
        store = Store(self.home)
        lines: dict[tuple[str, str], list[Any]] = {}
        for task in self.tasks:
            examples = enumerate(store.examples(task, "test"))
            lines[task, "test"] = [
                (each.id, each.answers[0] if right(number) else "7" if task == "own.number" else "no idea")
                for number, each in examples
            ]
        return write_submission(self.submissions / name, name, lines)

    def evaluate(self, *names: str) -> None:
        for name in names:
            self.run("check", self.submissions / name)
            for suite in ("own", "numbers"):
                self.run("evaluate", self.submissions / name, "--split", "test", "--suite", suite)

    def board(self, *options: str) -> Path:
        site = self.folder / "-".join(("site", *options))
        options = ("--suite", "numbers", "--suite", "own", "--no-baselines", *options)
        self.run("leaderboard", "--submissions", self.submissions, "--output", site, *options)
        return site


@cache
def shared_board(keeper: Keeper, *options: str) -> Path:
    """A board that no test changes, built once."""
    return keeper.board(*options)


RIGHT: dict[str, Callable[[int], bool]] = {
    "knows": lambda number: True,
    "half": lambda number: number % 2 == 0,
    "third": lambda number: number % 3 == 0,
    "one": lambda number: number == 5,
    "none": lambda number: False,
}


def make_keeper(folder: Path, hidden: bool) -> Keeper:
    keeper = Keeper(folder, hidden)
    keeper.run("prepare", *keeper.tasks)
    for name, right in RIGHT.items():
        keeper.submit(name, right)
    keeper.evaluate(*RIGHT)
    shared_board(keeper)
    return keeper


@pytest.fixture(autouse=True)
def own_debug(monkeypatch: pytest.MonkeyPatch) -> None:
    """Undo the effects of --debug after the test."""
    monkeypatch.setenv("DECABENCH_DEBUG", "")


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Keeper:
    return make_keeper(tmp_path_factory.mktemp("hidden") / "board", hidden=True)


@pytest.fixture(scope="module")
def public(tmp_path_factory: pytest.TempPathFactory) -> Keeper:
    """The same board with public labels."""
    return make_keeper(tmp_path_factory.mktemp("public") / "board", hidden=False)


def test_the_search_finds_what_leaks(public: Keeper) -> None:
    """The same search finds nearly every gold answer in a board with public labels, so the search works."""
    texts = [text for raw in files_below(shared_board(public)).values() for text in readings(raw)]
    assert len(searched(texts)) == len(needles())


@pytest.mark.parametrize("policy", ["free", "all"])
def test_no_byte_of_the_site_holds_gold(kept: Keeper, policy: str) -> None:
    files = files_below(shared_board(kept, "--examples", policy), "static/")
    assert {"index.html", "board.json", "board.csv", "compare.html", "data/boards/board.js"} <= files.keys()
    assert sum(name.startswith("data/answers/") for name in files) == len(RIGHT) * len(kept.tasks)
    assert not any(name.startswith("data/texts/") for name in files)
    assert all(b'units\\":{}' in raw for name, raw in files.items() if name.startswith("data/units/"))
    texts = [text for raw in files.values() for text in readings(raw)]
    assert searched(texts) == set()
    assert searched(unquote(name) for name in files) == set()
    # No data about single examples is published either, because it would tell submitters which answers are right.
    ids = [row["id"] for task in kept.tasks for row in Store(kept.home).read(task, "test", ("id",))]
    assert not [id_ for id_ in ids if any(id_ in text for text in texts)]
    assert "The labels of this split are hidden" in files["submissions/half-test-own.html"].decode()


def test_data_that_was_prepared_as_hidden_is_hidden_whatever_its_file_says_now(
    kept: Keeper, tmp_path: Path
) -> None:
    """Only the record of the prepared data says `hidden`."""
    write_tasks(tmp_path / "private", hidden=False)
    include = [part for path in kept.include for part in ("--include", tmp_path / "private" / path.name)]
    line = (
        "leaderboard",
        "--submissions",
        kept.submissions,
        "--output",
        tmp_path / "site",
        "--home",
        kept.home,
    )
    given = (*line, *include, "--suite", "own", "--examples", "all", "--no-baselines")
    done = CliRunner().invoke(cli, [*map(str, given)])
    assert done.exit_code == 0 and "verified" in done.output
    texts = [text for raw in files_below(tmp_path / "site", "static/").values() for text in readings(raw)]
    assert searched([*texts, done.output]) == set()


def test_what_evaluate_writes_holds_no_gold(kept: Keeper) -> None:
    files = files_below(kept.submissions, "/predictions/")
    assert {name.rpartition("/")[2] for name in files} == {
        "submission.toml", "results.json", "run.json",
    }  # fmt: skip
    assert searched(text for raw in files.values() for text in readings(raw)) == set()


def test_the_board_ranks_as_one_of_public_labels(kept: Keeper, public: Keeper) -> None:
    """Ranks, groups and tests are the same, and scores differ only in digits that no page shows."""
    for name in ("board.json", "suite-own.json"):
        boards = [json.loads((shared_board(each) / name).read_text()) for each in (kept, public)]
        rows, wanted = (each["submissions"] for each in boards)
        assert [row["name"] for row in rows] == [row["name"] for row in wanted]
        for row, other in zip(rows, wanted, strict=True):
            for key in ("kind", "rank", "rank_best", "rank_worst", "rank_group", "evidence"):
                assert row[key] == other[key], (name, row["name"], key)
            assert row["total"] == pytest.approx(other["total"], abs=0.05)
            for task, score in row["tasks"].items():
                exact = other["tasks"][task]
                assert score["score"] == pytest.approx(exact["score"], abs=0.05), task
                assert len(f"{score['score']}".partition(".")[2]) <= 3
                assert (score["interval"] is None) == (exact["interval"] is None)
                assert score["units"] == exact["units"] or not exact["units"]
    assert len({row["rank"] for row in rows}) > 1  # some systems differ significantly
    assert all(row["evidence"] == "verified" for row in rows)


def test_no_command_prints_gold(kept: Keeper, tmp_path: Path) -> None:
    knows, half = kept.submissions / "knows", kept.submissions / "half"
    kept.printed.clear()
    for json_ in ((), ("--json",)):
        test = ("--split", "test", *json_)
        kept.run("prepare", *kept.tasks, "--force", *json_)
        kept.run("prepare", *kept.tasks, "--export-ids", tmp_path / "ids.json", *json_)
        kept.run("check", half, *json_)
        kept.run("check", half, "--ids", tmp_path / "ids.json", *json_)
        for suite in ("own", "numbers"):
            more = ("--suite", suite, "--confusion", "--all-scores")
            kept.run("evaluate", half, *test, *more, "--output", tmp_path / f"results-{suite}")
            html_page = ("--suite", suite, "--html", tmp_path / f"{suite}{len(json_)}.html", "--flips", "50")
            kept.run("compare", knows, half, *test, *html_page)
        kept.run("verify", half, *json_)
        kept.run("leaderboard", "--submissions", half, "--output", tmp_path / "site", *json_)
        kept.run("tasks", *json_)
        kept.run("tasks", "overlap", "--against", "test", *test)
        for task in kept.tasks:
            kept.run("tasks", "show", task, "--examples", "50", *test)
            kept.run("tasks", "validate", task, *test, code=None)
            done = kept.run("show", half, "--task", task, *test, code=3)
            assert f"The test labels of {task} are hidden" in done.stderr
            copied = ("--predictor", "copy-context", "--output", tmp_path / f"c-{task}", "--force", *test)
            kept.run("predict", "--tasks", task, *copied)
        for task in kept.tasks[:1] if json_ else kept.tasks:
            kept.run("show", half, "--task", task, "--output", tmp_path / "page", *test, code=3)
            for harness in ("lm-eval", "inspect"):
                line = ("export", "tasks", task, "--for", harness, "--output", tmp_path / harness, *test)
                assert "are hidden" in kept.run(*line, code=3).stderr
            line = ("predict", "--predictor", "oracle", "--tasks", task, "--output", tmp_path / "o", *test)
            assert "oracle would write the hidden" in kept.run(*line, code=2).stderr
        for form in ("markdown", "latex", "model-index"):
            runner = CliRunner().invoke(
                cli,
                ["export", "results", str(tmp_path / "results-own/results.json"), "--format", form, *json_],
            )
            kept.printed += [runner.output]
            assert runner.exit_code == 0, runner.output
        (tmp_path / "answers.csv").write_text("id,answer\nnobody,guess\n")
        line = ("import", "csv", tmp_path / "answers.csv", "--task", "own.text", *test)
        kept.run(*line, "--output", tmp_path / "imported", "--name", "i", code=None)
    written = files_below(tmp_path).values()
    texts = [text for raw in (*written, *(each.encode() for each in kept.printed)) for text in readings(raw)]
    assert searched(texts) == set()
    assert not list(tmp_path.rglob("*.parquet")) and not list(tmp_path.rglob("*.jsonl.gz"))
    assert not (tmp_path / "o").exists() and not (tmp_path / "page").exists()


def test_the_keeper_sees_examples_on_request(kept: Keeper) -> None:
    done = kept.run("show", kept.submissions / "half", "--task", "own.text", "--split", "test", "--hidden")
    del kept.printed[-2:]
    assert {f"txt{number}q" for number in range(COUNT) if number < 20} <= searched([done.stdout])


def test_no_digest_lets_a_guess_be_checked(kept: Keeper) -> None:
    """Someone who knows the questions and a few labels could test guesses at the rest against a digest."""
    public = [*files_below(shared_board(kept), "static/").values(), *files_below(kept.submissions).values()]
    public += [text.encode() for text in kept.printed]
    for task in kept.tasks:
        examples = list(Store(kept.home).examples(task, "test"))
        lines = "".join(
            _fingerprint_line(each, encode_basestring(each.context), canonical_json(dict(each.meta))).decode()
            for each in examples
        )
        record = Store(kept.home).record(task, "test")
        assert record.fingerprint == f"sha256:{hashlib.sha256((record.salt + lines).encode()).hexdigest()}"
        digest = hashlib.sha256(lines.encode())
        guessed = [digest.hexdigest(), *(str(file["sha256"]) for file in record.files)]
        secret = [record.salt, record.units_digest.removeprefix("sha256:")]
        for known in (*guessed, *secret):
            assert not [raw for raw in public if known[:12].encode() in raw], task
        assert record.fingerprint != f"sha256:{digest.hexdigest()}"


def test_the_site_has_no_digest_of_the_answers_of_a_good_system(kept: Keeper) -> None:
    site = b"".join(files_below(shared_board(kept), "static/").values())
    digests = re.findall(rb'"predictions": "sha256:(\w+)"', b"".join(files_below(kept.submissions).values()))
    assert len(set(digests)) >= 10 and not [each for each in digests if each[:12] in site]


def test_no_command_prints_the_digest_of_the_answers_of_a_good_system(kept: Keeper, tmp_path: Path) -> None:
    """The digest of perfect answers equals the labels', and with few examples, all guesses could be tried."""
    sent = shutil.copytree(kept.submissions / "knows", tmp_path / "knows")
    path = sent / "results" / "test-own" / "results.json"
    pattern = r'"predictions": "(sha256:\w+)"'
    digests = set(re.findall(pattern, path.read_text()))
    test = ("--split", "test", "--suite", "own")
    said = kept.run("evaluate", sent, *test, "--json").stdout
    said += kept.run("evaluate", sent, *test, "--tasks", "own.label", "--json").stdout
    path.write_text(re.sub(pattern, f'"predictions": "sha256:{"0" * 64}"', path.read_text()))
    for json_ in ((), ("--json",)):
        found = kept.run("verify", sent, "--results", path, *json_, code=1).stdout
        assert "the answers have changed" in found
        said += found
    assert len(digests) == 5 and not [each for each in digests if each[:19] in said]


def test_python_shows_no_example_either(kept: Keeper) -> None:
    found = evaluate(
        kept.submissions / "half", "test", ["own.text"], kept.home, include=kept.include, suite="own"
    )
    with pytest.raises(DataError, match=r"The test labels of own\.text are hidden"):
        found.examples("own.text")


def test_few_examples_have_no_score(kept: Keeper, tmp_path: Path) -> None:
    """A score on one example reveals whether the answer is right, and how far off a number is."""
    examples = list(Store(kept.home).examples("own.text", "test"))
    limited = {"own.text.test": {"answered": 1, "of": COUNT, "chosen": "limit 1"}}
    info = SubmissionInfo("few", partial=limited)
    lines = {("own.text", "test"): [(examples[0].id, examples[0].answers[0])]}
    write_submission(tmp_path / "few", info, lines)
    done = kept.run("evaluate", tmp_path / "few", "--split", "test", "--tasks", "own.text", code=1)
    assert "its labels are hidden, and the score of a limited run would reveal some" in " ".join(
        done.stdout.split()
    )
    assert "100.00" not in done.stdout


def test_a_results_file_does_not_choose_what_is_scored(kept: Keeper, tmp_path: Path) -> None:
    """If a submitted file could choose the ids to leave out, a score on a single id would reveal its label."""
    lines: dict[tuple[str, str], list[Any]] = {
        (task, "test"): [(id_, "0") for id_ in Store(kept.home).ids(task, "test")]
        for task in ("own.text", "own.label", "own.number")
    }
    write_submission(tmp_path / "s", "s", lines)
    for suite in ("own", "numbers"):
        kept.run("evaluate", tmp_path / "s", "--split", "test", "--suite", suite)
    for suite, task in (("own", "own.text"), ("numbers", "own.number")):
        path = tmp_path / "s" / "results" / f"test-{suite}" / "results.json"
        stated = json.loads(path.read_text())
        ids = [id_ for id_, _ in lines[task, "test"]]
        result = stated["tasks"][task]
        result |= {"status": "partial", "partial": {"answered": 1, "of": len(ids), "without": ids[1:]}}
        path.write_text(json.dumps(stated))
    path = tmp_path / "s" / "results" / "test-numbers" / "results.json"
    said = kept.run("verify", tmp_path / "s", "--results", path, code=3).stdout
    error = float(golds("own.number")[0]) ** 2
    assert "are hidden" in said and f"{error:.4f}" not in said
    line = ("evaluate", tmp_path / "s", "--split", "test", "--suite", "own", "--tasks", "own.label")
    kept.run(*line)
    path = tmp_path / "s" / "results" / "test-own" / "results.json"
    assert "without" not in path.read_text()


def test_nothing_is_scored_without_some_examples(kept: Keeper, tmp_path: Path) -> None:
    ids = Store(kept.home).ids("own.text", "test")
    written = {("own.text", "test"): list(ids)[1:]}
    write_id_list(tmp_path / "ids.json", written, {})
    line = (
        "evaluate",
        kept.submissions / "half",
        "--split",
        "test",
        "--suite",
        "own",
        "--output",
        tmp_path / "r",
    )
    said = kept.run(*line, "--without", tmp_path / "ids.json", code=3).stderr
    assert "The test labels of own.text are hidden" in " ".join(said.split())
    assert not (tmp_path / "r").exists()


def long_numbers(texts: Iterable[str]) -> set[str]:
    """Return numbers above a million with more than five significant digits."""
    found = {
        number
        for text in texts
        for number in re.findall(r"(?<![\w.])\d[\d,]*(?:\.\d+)?(?:e\+\d+)?(?!\w)", text)
    }
    plain = {number: number.replace(",", "") for number in found}
    return {
        number
        for number, each in plain.items()
        if float(each) >= 1e6 and len(each.partition("e")[0].replace(".", "").lstrip("0").rstrip("0")) > 5
    }


def test_a_large_answer_does_not_carry_a_label(kept: Keeper, tmp_path: Path) -> None:
    """Before, a squared error of an answer of 1e9 was shown to three decimals, which reveal the label."""
    ids = list(Store(kept.home).ids("own.number", "test"))
    for name, first in (("large", "1e9"), ("small", "0"), ("other", "1")):
        lines = [(id_, "0" if number else first) for number, id_ in enumerate(ids)]
        write_submission(tmp_path / "in" / name, name, {("own.number", "test"): lines})
    kept.printed.clear()
    test = ("--split", "test", "--suite", "numbers")
    for other in ("small", "other"):
        kept.run("evaluate", tmp_path / "in" / other, *test)
    for options in ((), ("--json",), ("--all-scores",)):
        kept.run("evaluate", tmp_path / "in" / "large", *test, *options)
    for options in ((), ("--json",)):
        for other in ("small", "other"):
            kept.run("compare", tmp_path / "in" / other, tmp_path / "in" / "large", *test, *options)
    path = tmp_path / "in" / "large" / "results" / "test-numbers" / "results.json"
    kept.printed.append(path.read_text())
    kept.run("leaderboard", "--submissions", tmp_path / "in", "--output", tmp_path / "site")
    stated = json.loads(path.read_text())
    stated["tasks"]["own.number"]["score"] = stated["tasks"]["own.number"]["scores"]["mse"] = 7.0
    path.write_text(json.dumps(stated))
    kept.run("verify", tmp_path / "in" / "large", code=1)
    kept.run("leaderboard", "--submissions", tmp_path / "in", "--output", tmp_path / "refused")
    texts = [
        text
        for folder in ("site", "refused")
        for raw in files_below(tmp_path / folder, "static/").values()
        for text in readings(raw)
    ]
    whole = "".join(texts)
    assert "4.167e+16" in whole
    board = re.search(
        "numbers-test-([0-9a-f]{8})", whole
    )  # a digest of salted data, which may consist of digits only
    assert board is not None
    assert long_numbers(text.replace(board[1], "") for text in (*texts, *kept.printed)) == set()


@pytest.mark.parametrize("hidden", [True, False])
def test_no_advice_on_the_form_of_answers_rests_on_gold(tmp_path: Path, hidden: bool) -> None:
    """Before, warnings compared numbers in words and unknown tags with the gold answers."""
    keeper = Keeper(tmp_path / "keeper", hidden)
    private = keeper.folder / "private"
    number = private / "own.number.toml"
    number.write_text(
        number.read_text().replace('metric = "mse"', 'output = { kind = "number", low = 0, high = 9 }')
    )
    rows = [
        {**json.loads(line), "gold": "3.00"}
        for line in (private / "own.number.jsonl").read_text().splitlines()
    ]
    (private / "own.number.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    keeper.run("prepare", "own.number", "own.tags")
    texts = {"own.number": "3 points", "own.tags": "tg-uq9 other"}
    lines: dict[tuple[str, str], list[Any]] = {
        (task, "test"): [(id_, text) for id_ in Store(keeper.home).ids(task, "test")]
        for task, text in texts.items()
    }
    write_submission(keeper.submissions / "s", "s", lines)
    done = " ".join(keeper.run("evaluate", keeper.submissions / "s", "--split", "test").stdout.split())
    assert f"has '3 points' instead of {'3' if hidden else '3.00'!r}" in done
    assert ("24 unknown" in done) == ("unknown" in done) == (not hidden)


@pytest.mark.parametrize("hidden", [True, False])
def test_no_remark_on_the_format_of_answers_rests_on_gold(tmp_path: Path, hidden: bool) -> None:
    """Warnings about formats use gold answers, so on hidden labels they would be an oracle."""
    keeper = Keeper(tmp_path / "keeper", hidden)
    keeper.run("prepare", "own.text")
    ids, texts = Store(keeper.home).ids("own.text", "test"), golds("own.text")
    for name, answers in {
        "pieces": ["\u2581" + " \u2581".join(text.split()) for text in texts],
        "shifted": [*texts[1:], texts[0]],
        "cased": [text.upper() for text in texts],
    }.items():
        lines: dict[tuple[str, str], list[Any]] = {("own.text", "test"): list(zip(ids, answers, strict=True))}
        folder = keeper.submissions / name
        write_submission(folder, name, lines)
        for command in (["check"], ["evaluate"], ["evaluate", "--json"]):
            done = " ".join(keeper.run(command[0], folder, "--split", "test", *command[1:]).stdout.split())
            assert ("are pieces of words" in done) == (name == "pieces")
            assert ("of these score 100.00" in done) == (name == "pieces" and not hidden)
            assert ("to the next example" in done) == (name == "shifted" and not hidden)


@pytest.mark.parametrize("hidden", [True, False])
def test_where_gold_is_in_a_context_is_not_counted(tmp_path: Path, hidden: bool) -> None:
    """Authors state how much of the context a model saw. Whether gold is in that part would reveal its position."""
    keeper = Keeper(tmp_path / "keeper", hidden)
    path = keeper.folder / "private" / "own.text.toml"
    spans = 'output = { kind = "text", extractive = true }\ncontext = "{text}"'
    path.write_text(
        path.read_text().replace('context = "{text}"', spans).replace('answer = "gold"', 'answer = "text"')
    )
    keeper.run("prepare", "own.text")
    lines = [
        {"id": each.id, "answer": "", **({"context_kept": [0, 2]} if number == 3 else {})}
        for number, each in enumerate(Store(keeper.home).examples("own.text", "test"))
    ]
    write_submission(keeper.submissions / "s", "s", {("own.text", "test"): lines})
    done = keeper.run("evaluate", keeper.submissions / "s", "--split", "test")
    assert "1 context was truncated" in done.stdout and ("(ceiling)" in done.stdout) == (not hidden)


def said_unquoted(keeper: Keeper) -> None:
    """Check that no gold answer was printed or written."""
    files = files_below(keeper.folder, "private/", "home/", "static/", "/predictions/").values()
    texts = [text for raw in files for text in readings(raw)] + keeper.printed
    assert searched(texts) == set() and "True" not in "".join(keeper.printed)


@pytest.mark.parametrize(
    ("task", "gold", "quoted"),
    [
        ("own.label", "mta0q3", "mta0q3"),
        ("own.label", True, "not true"),
        ("own.label", {"gold": "mta1q3"}, "not an object"),
        ("own.tags", "mta2q3", "has 1 instead of 2"),
        ("own.number", "mta3q3", "line 1"),
        ("own.dialogue", "slot1: a:val1q5;", "a colon in a value"),
    ],
)
@pytest.mark.parametrize("debug", [(), ("--debug",)])
def test_a_table_is_refused_without_a_quotation(
    tmp_path: Path, task: str, gold: Any, quoted: str, debug: tuple[str, ...]
) -> None:
    keeper = Keeper(tmp_path / "keeper", hidden=True)
    path = keeper.folder / "private" / f"{task}.toml"
    path.write_text(path.read_text().replace('"label"', '{ kind = "label", names = ["a", "b"] }'))
    rows = keeper.folder / "private" / f"{task}.jsonl"
    first, *rest = map(json.loads, rows.read_text().splitlines())
    rows.write_text("".join(f"{json.dumps(row)}\n" for row in ({**first, "gold": gold}, *rest)))
    assert "To see it, add --hidden" in keeper.run("prepare", task, *debug, code=3).stderr
    assert quoted in keeper.run("prepare", task, "--hidden", code=3).stderr
    del keeper.printed[-2:]
    said_unquoted(keeper)


METRIC = """
from dataclasses import replace
from decabench.metrics import MetricError, accuracy

def statistics(predictions, references):
    raise KIND(f"cannot score {references[3].answers[0]}")

METRIC = replace(accuracy, name="odd", signature="odd|v:1", statistics=statistics)
"""


@pytest.mark.parametrize(
    ("kind", "debug"), [("MetricError", ()), ("ValueError", ()), ("ValueError", ("--debug",))]
)
def test_a_metric_fails_without_a_quotation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, debug: tuple[str, ...]
) -> None:
    """The error is published as the reason of a failed task, so it must not quote gold answers."""
    (tmp_path / f"odd_{kind.lower()}.py").write_text(METRIC.replace("KIND", kind))
    monkeypatch.syspath_prepend(tmp_path)
    keeper = Keeper(tmp_path / "keeper", hidden=True)
    path = keeper.folder / "private" / "own.number.toml"
    path.write_text(path.read_text().replace('"mse"', f'"odd_{kind.lower()}:METRIC"'))
    keeper.run("prepare", "own.number")
    answers = [(id_, "7") for id_ in Store(keeper.home).ids("own.number", "test")]
    write_submission(keeper.submissions / "one", "one", {("own.number", "test"): answers})
    line = ("evaluate", keeper.submissions / "one", "--split", "test", "--suite", "numbers")
    said = keeper.run(*line, *debug, code=1).stdout
    assert "run decabench tasks validate own.number --split test --hidden" in said
    assert "failed" in (keeper.board() / "index.html").read_text()
    validate = ("tasks", "validate", "own.number", "--split", "test")
    keeper.run(*validate, *debug, code=2)
    assert golds("own.number")[3] in keeper.run(*validate, "--hidden", code=None).stderr
    del keeper.printed[-2:]
    said_unquoted(keeper)


def test_a_split_that_is_marked_later_is_prepared_again(public: Keeper, tmp_path: Path) -> None:
    """The old fingerprint has no secret, so nothing is scored until the split is prepared again."""
    keeper = Keeper(tmp_path / "later", hidden=False)
    for name in ("home", "submissions"):
        shutil.copytree(public.folder / name, keeper.folder / name)
    keeper.run("prepare", *keeper.tasks)
    before = Store(keeper.home).record("own.text", "test")
    path, code = keeper.folder / "private" / "own.text.toml", keeper.folder / "private" / "meta.py"
    path.write_text(f'hidden = ["test"]\n{path.read_text()}')
    code.write_text(META)
    done = keeper.run("evaluate", keeper.submissions / "half", "--split", "test", code=3)
    assert "was prepared before its labels were hidden. Run decabench prepare own." in done.stderr

    def is_published(fingerprint: str) -> bool:
        files = files_below(keeper.board("--examples", "all"), "static/").values()
        return any(fingerprint.encode() in raw for raw in files)

    assert not is_published(before.fingerprint)  # the fingerprint in results from before the mark
    keeper.run("prepare", "own.text", "own.meta")
    assert Store(keeper.home).record("own.meta", "test").salt
    after = Store(keeper.home).record("own.text", "test")
    assert after.salt and after.fingerprint != before.fingerprint
    assert not is_published(before.fingerprint)
    keeper.run("prepare", "own.text", "--force")
    assert Store(keeper.home).record("own.text", "test") == after  # the secret and the results stay
    keeper.evaluate("half")
    assert is_published(after.fingerprint)
    statistics = keeper.submissions / "half" / "results" / "test-own"
    assert not (statistics / "statistics" / "own.text.parquet").exists()
    assert not (statistics / "examples" / "own.text.jsonl.gz").exists()
    assert (statistics / "statistics" / "own.label.parquet").exists()


def test_elsewhere_the_split_has_no_labels(kept: Keeper, tmp_path: Path) -> None:
    """With the same task file but without the file of labels, the split has no public labels."""
    author = Keeper(tmp_path / "author", hidden=True)
    shutil.copytree(kept.submissions, author.submissions)
    for path in (author.folder / "private").glob("*.jsonl"):
        path.unlink()
    said = author.run("prepare", "own.text", code=3).stderr
    assert "own.text has no public test split, because its labels are hidden" in said
    assert "does not contain own.text.jsonl" in said
    author.run("evaluate", author.submissions / "half", "--tasks", "own.text", "--split", "test", code=3)
    assert "labels not public" in (author.board() / "suite-own.html").read_text()


def test_an_author_gets_questions_without_labels(kept: Keeper, tmp_path: Path) -> None:
    """The same task file and tables without the column of answers allow answering and checking, but not scoring."""
    author = Keeper(tmp_path / "author", hidden=True)
    author.tasks = [*TASKS]
    for name in TASKS:
        path = author.folder / "private" / f"{name}.jsonl"
        rows = [json.loads(line) for line in path.read_text().splitlines()]
        path.write_text(
            "".join(f"{json.dumps({k: v for k, v in row.items() if k != 'gold'})}\n" for row in rows)
        )
    assert "own.text: test has questions but no labels" in author.run("prepare", *author.tasks).stdout
    tasks = ",".join(author.tasks)
    for predictor in ("copy-context", "oracle"):
        line = ("predict", "--predictor", predictor, "--tasks", tasks, "--split", "test")
        author.run(*line, "--output", tmp_path / "sent" / predictor, code=2 if predictor == "oracle" else 0)
    sent = tmp_path / "sent" / "copy-context"
    author.run("check", sent)
    lacking = (
        "The test labels of own.text are hidden and not available here. "
        "Only someone who has the labels can score this split."
    )
    for line in (
        ("evaluate", sent),
        ("show", sent, "--task", "own.text", "--hidden"),
        ("compare", sent, sent),
    ):
        assert "are hidden and not available here" in author.run(*line, "--split", "test", code=3).stderr
    for task in author.tasks:
        assert "(hidden)" in author.run("tasks", "show", task, "--split", "test").stdout
    assert lacking in author.run("tasks", "validate", "own.text", "--split", "test", code=3).stderr
    # The keeper recognizes the same questions.
    kept.run("check", sent)
    kept.run("evaluate", sent, "--split", "test", "--suite", "numbers")
    author.run("leaderboard", "--submissions", tmp_path / "sent", "--output", tmp_path / "site")
    assert "labels not public" in (tmp_path / "site" / "index.html").read_text()


@pytest.mark.parametrize("without", [[0], [5], [*range(1, COUNT)]])
def test_labels_are_present_for_all_examples_or_none(tmp_path: Path, without: list[int]) -> None:
    keeper = Keeper(tmp_path / "keeper", hidden=True)
    path = keeper.folder / "private" / "own.text.jsonl"
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    for number in without:
        del rows[number]["gold"]
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    assert "can't be prepared" in keeper.run("prepare", "own.text", code=3).stderr
    told = keeper.run("prepare", "own.text", "--hidden", code=3).stderr
    assert "answer" in told and "own.text, test, example" in told


@pytest.mark.parametrize("options", [(), ("--rank-reported",)])
def test_statistics_that_come_along_do_not_count(
    kept: Keeper, public: Keeper, tmp_path: Path, options: tuple[str, ...]
) -> None:
    """Only the keeper can score hidden labels, so a row that was not verified here is not ranked."""
    shutil.copytree(kept.submissions / "half", tmp_path / "in" / "half")
    for name in ("own", "numbers"):
        place = tmp_path / "in" / "half" / "results" / f"test-{name}"
        shutil.copytree(
            public.submissions / "half" / "results" / f"test-{name}" / "statistics", place / "statistics"
        )
    shutil.rmtree(tmp_path / "in" / "half" / "predictions")
    line = ("leaderboard", "--submissions", tmp_path / "in", "--output", tmp_path / "site", "--suite", "own")
    kept.run(*line, *options)
    rows = json.loads((tmp_path / "site" / "board.json").read_text())["submissions"]
    (row,) = [row for row in rows if row["name"] == "half"]
    assert (row["evidence"], row["rank"], row["kind"]) == ("reported", None, "apart")


def test_the_statement_of_a_submission_is_of_its_questions(kept: Keeper, tmp_path: Path) -> None:
    """A submission records the same data fingerprint on every machine, and different questions are noticed."""
    record = Store(kept.home).record("own.text", "test")
    asked = hashlib.sha256()
    for each in Store(kept.home).examples("own.text", "test"):
        line = json.dumps([each.id, each.question, each.context], ensure_ascii=False, separators=(",", ":"))
        asked.update(f"{line}\n".encode())
    assert record.stated == f"sha256:{asked.hexdigest()}"
    line = ("predict", "--predictor", "copy-context", "--tasks", "own.text", "--split", "test")
    kept.run(*line, "--output", tmp_path / "p")
    assert record.stated in (tmp_path / "p" / "submission.toml").read_text()
    kept.run("evaluate", tmp_path / "p", "--split", "test", "--tasks", "own.text")
    kept.run("prepare", "own.text", "--export-ids", tmp_path / "ids.json")
    assert json.loads((tmp_path / "ids.json").read_text())["splits"][0]["fingerprint"] == record.stated
    rows = "".join(f"{id_},x\n" for id_ in Store(kept.home).ids("own.text", "test"))
    (tmp_path / "answers.csv").write_text(f"id,answer\n{rows}")
    line = ("import", "csv", tmp_path / "answers.csv", "--task", "own.text", "--split", "test")
    kept.run(*line, "--output", tmp_path / "i", "--name", "i")
    assert record.stated in (tmp_path / "i" / "submission.toml").read_text()
    changed = (tmp_path / "p" / "submission.toml").read_text().replace(record.stated, "sha256:" + "0" * 64)
    (tmp_path / "p" / "submission.toml").write_text(changed)
    done = kept.run("evaluate", tmp_path / "p", "--split", "test", code=3)
    assert "was not made for the prepared data" in done.stderr
