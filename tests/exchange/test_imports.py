"""Imports match rows by id and never guess. If a file has faults, all are reported and nothing is changed."""

from __future__ import annotations

import csv
import json
import os
import tomllib
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from decabench import evaluate, import_answers, prepare
from decabench.errors import DecabenchError, SubmissionError
from decabench.exchange import RefusedImportError
from decabench.tasks import TASKS, Request, Store
from decabench.tasks.preparation import prepare_task
from tests.sources import SHARED

FILES = Path(__file__).with_name("files")
from tests.submission.reading import read_answers


def answers(folder: Path, task: str) -> dict[str, str]:
    return read_answers(folder / "predictions" / f"{task}.validation.jsonl")


def entry(folder: Path, key: str) -> dict[str, Any]:
    """Return the submission's record of an import."""
    return tomllib.loads((folder / "submission.toml").read_text())["predictor"]["imports"][key]


def write_csv(path: Path, rows: dict[str, str], **settings: Any) -> Path:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, **settings)
        writer.writerow(["id", "answer"])
        writer.writerows(rows.items())
    return path


# The formats


def test_predictions_of_squad(bring, golds, home, tmp_path):
    gold = golds("squad")
    path = tmp_path / "predictions.json"
    path.write_text(json.dumps(dict(reversed(gold.items()))))
    done = bring(path, "squad", "squad", note="from the leaderboard")
    assert (done.imported, done.examples, done.check.exit_code) == (len(gold), len(gold), 0)
    assert answers(done.folder, "squad") == gold
    assert list(answers(done.folder, "squad")) == list(gold)  # in the order of the data
    assert evaluate(done.folder, tasks="squad", home=home).tasks["squad"].score == 100.0
    about = entry(done.folder, "squad.validation")
    assert about["file"]["sha256"].startswith("sha256:")
    assert (about["file"]["name"], about["note"]) == ("predictions.json", "from the leaderboard")
    assert about["words"] == "32 of 32 examples matched by id; answers used as given."


def test_predictions_of_squad_2_have_upstreams_ids(bring, home, tmp_path):
    """Our ids are numbers, because upstream's ids reveal which questions have an answer."""
    examples = list(Store(home).examples("squad2", "validation"))
    gold = {row.meta["id"]: row.answers[0].replace("unanswerable", "") for row in examples}
    path = tmp_path / "predictions.json"
    path.write_text(json.dumps(gold))
    done = bring(path, "squad2", "squad")
    assert evaluate(done.folder, tasks="squad2", home=home).tasks["squad2"].score == 100.0
    path.write_text(json.dumps({**gold, examples[0].id: "x"}))
    with pytest.raises(
        RefusedImportError, match=r"'squad2.validation.0' is repeated with a different answer"
    ):
        bring(path, "squad2", "squad", force=True)
    hidden = replace(TASKS["squad2"], hidden=("validation",))  # then an id that is accepted would tell
    with pytest.raises(RefusedImportError, match="32 rows don't answer exactly one example"):
        bring(path, hidden, "squad", force=True)


def test_a_table_with_commas_quotes_and_line_ends(bring, golds, tmp_path):
    gold = {id_: f'{text}, "so"\nit is' for id_, text in golds("squad").items()}
    done = bring(write_csv(tmp_path / "answers.csv", gold), "squad", "csv")
    assert answers(done.folder, "squad") == gold


@pytest.mark.parametrize("kind", ["mapping", "pandas", "datasets"])
def test_tables_in_memory(bring, golds, kind):
    gold = golds("sst")
    table: Any = {"id": list(gold), "answer": list(gold.values())}
    if kind == "pandas":
        table = pytest.importorskip("pandas").DataFrame(table)
    if kind == "datasets":
        table = pytest.importorskip("datasets").Dataset.from_dict(table)
    assert answers(bring(table, "sst").folder, "sst") == gold


def test_lines_in_the_order_of_the_data(bring, golds, tmp_path):
    gold = golds("iwslt.en.de")
    path = tmp_path / "out.de"
    text = "\n".join(f"{line}\u2028\x0c" for line in gold.values())  # what str.splitlines would cut
    path.write_bytes(text.encode() + b"\r\n")
    done = bring(path, "iwslt.en.de", "text")
    assert list(answers(done.folder, "iwslt.en.de").values()) == [
        f"{line}\u2028\x0c" for line in gold.values()
    ]
    assert "matched by order" in done.words


def test_samples_of_lm_eval(bring, home):
    """Written by lm-eval 0.4.13, with its dummy model."""
    done = bring(FILES / "samples_squad.jsonl", "squad", "lm-eval", partial=True)
    assert set(answers(done.folder, "squad").values()) == {"lol"}
    assert (done.imported, done.check.exit_code) == (6, 0)
    assert "answers extracted from the model's text" in done.words
    assert evaluate(done.folder, tasks="squad", home=home).tasks["squad"].answers["not_in_context"] == 6


@pytest.mark.parametrize("is_array", [False, True])
@pytest.mark.parametrize("name", ["samples_sst_choice.jsonl", "samples_sst_mutual_info.jsonl"])
def test_choices_of_lm_eval(bring, tmp_path, name, is_array):
    """Written by lm-eval 0.4.13. Version 0.4.2 writes an array."""
    samples = list(map(json.loads, (FILES / name).read_text().splitlines()))
    path = tmp_path / name
    path.write_text(json.dumps(samples, indent=4) if is_array else (FILES / name).read_text())
    done = bring(path, "sst", "lm-eval", partial=True)
    found = answers(done.folder, "sst")
    assert (
        "by id, and their texts agree; answers are the likeliest choices, as in lm-eval's acc" in done.words
    )
    for sample in samples:
        right = found[sample["doc"]["id"]] == sample["doc"]["answers"][0]
        assert right == bool(sample["acc"])  # lm-eval's own reading of the same choices
    assert len(found) == len(samples) >= 6


def test_letters_are_the_options_that_they_stand_for(bring, golds, home, tmp_path):
    """The model chose A or B, as in MMLU. If a task's gold answers are letters, letters are kept."""
    lines = []
    for at, example in enumerate(Store(home).examples("schema", "validation")):
        options = example.question.rpartition("? ")[2].rstrip("?").split(" or ")
        right = options.index(example.answers[0])
        scores = [[str(-float(letter != right)), "False"] for letter in (0, 1)]
        doc = {"id": example.id, "context": example.context, "question": example.question, "choices": options}
        arguments = {f"gen_args_{n}": {"arg_0": example.context, "arg_1": f" {'AB'[n]}"} for n in (0, 1)}
        line = {
            "doc_id": at,
            "doc": doc,
            "target": str(right),
            "arguments": arguments,
            "filtered_resps": scores,
        }
        lines.append(json.dumps({**line, "acc": 1.0}))
    path = tmp_path / "samples.jsonl"
    path.write_text("\n".join(lines))
    assert answers(bring(path, "schema", "lm-eval").folder, "schema") == golds("schema")
    rows = [
        {"text": json.loads(line)["doc"]["context"], "answer": "AB"[int(json.loads(line)["target"])]}
        for line in lines
    ]
    (tmp_path / "rows.jsonl").write_text(
        "".join(json.dumps({"id": f"schema.validation.{at}", **row}) + "\n" for at, row in enumerate(rows))
    )
    (tmp_path / "own.toml").write_text(
        'format = "decabench.taskfile/1"\nname = "own"\nmetric = "em"\nid = "id"\nanswer = "answer"\n'
        'question = "Who?"\ncontext = "{text}"\noutput = "label"\n[files]\nvalidation = "rows.jsonl"\n'
    )
    prepare(["own"], home=tmp_path / "home", include=[tmp_path / "own.toml"])
    done = import_answers(
        path,
        "own",
        tmp_path / "letters",
        "x",
        format="lm-eval",
        home=tmp_path / "home",
        include=[tmp_path / "own.toml"],
    )
    assert list(answers(done.folder, "own").values()) == [row["answer"] for row in rows]


# Faults: all of them, and nothing is written


def test_every_faulty_row_is_told_and_nothing_is_written(bring, golds, tmp_path):
    (first, one), (second, two), *rest = golds("sst").items()
    rows = [
        (first, one),
        (second, two),
        *rest,
        (first, one),
        (second, "other"),
        ("sst.test.7", one),
        ("", one),
    ]
    path = tmp_path / "answers.csv"
    path.write_text("id,answer\n" + "".join(f"{id_},{text}\n" for id_, text in rows) + "a,b,c\n")
    with pytest.raises(RefusedImportError) as caught:
        bring(path, "sst", "csv")
    told = [(fault.code, fault.line) for fault in caught.value.faults]
    assert told == [
        ("duplicate-id", 34),
        ("duplicate-id", 35),
        ("unknown-id", 36),
        ("unknown-id", 37),
        ("bad-record", 38),
    ]
    assert "with the same answer (first on line 2)" in str(caught.value)
    assert "with a different answer (first on line 3)" in str(caught.value)
    assert not (tmp_path / "out").exists()


def test_ids_of_which_none_fits_are_shown_beside_one_that_would(bring, golds, tmp_path):
    rows = {str(number): text for number, text in enumerate(golds("sst").values())}
    with pytest.raises(
        RefusedImportError, match=f"none of the {len(rows)} rows has the id of an example"
    ) as caught:
        bring(write_csv(tmp_path / "numbered.csv", rows), "sst", "csv")
    said = str(caught.value)
    assert "(ids look like 'sst.validation.0')" in said and "--in-order" in said
    assert said.count("no example has the id") == 3 and "--ignore-unknown" not in said
    assert answers(bring(tmp_path / "numbered.csv", "sst", "csv", in_order=True).folder, "sst") == golds(
        "sst"
    )


def test_a_limited_run_says_so_and_is_scored_on_its_part(bring, golds, home, tmp_path):
    rows = dict(list(golds("sst").items())[3:])
    done = bring(write_csv(tmp_path / "fewer.csv", rows), "sst", "csv", partial=True)
    assert done.check.exit_code == 0
    task = evaluate(done.folder, tasks="sst", home=home).tasks["sst"]
    assert (task.status, task.n, task.score) == ("partial", 29, 100.0)


@pytest.mark.parametrize(
    ("format", "content", "says"),
    [
        ("squad", b"[1, 2]", "not a SQuAD predictions file"),
        ("squad", b'{"a": ', "is not JSON: there is no valid JSON value at column 7"),
        ("squad", b'{"a": "b"\n"c": "d"}', "a comma or a closing bracket is missing at line 2, column 1"),
        ("squad", b"[" * 200_000, "nested too deeply"),
        ("squad", b'{"56beb7fd3aeaaa14008c92b5": [{"text": "x"}]}', "not the n-best list"),
        ("squad", b'{"56beb7fd3aeaaa14008c92b5": "x", "56beb7fd3aeaaa14008c92b5": "y"}', "is repeated with"),
        ("csv", b"id,text\n", "no column 'answer' .--answer.. The columns are 'id', 'text'. Specify"),
        ("csv", b"", "is empty. The first line must list the columns"),
        ("csv", b"id;answer\na;b\n", "add --delimiter ';'"),
        (
            "csv",
            b"yes\nno\n",
            "If each line is an answer, in the same order as the data, use the format text",
        ),
        ("csv", b'id,answer\n"a,b\n', "CSV with"),
        ("csv", b"id,answer\n", "no answers to the 32 "),
        ("text", b"caf\xe9\n", "byte 4 is not valid UTF-8"),
        ("text", b"x" * (1 << 24) + b"xx", "limit of 16,777,216 bytes"),
        ("lm-eval", b'{"a": 1}\n', "is not an lm-eval sample"),
        (
            "lm-eval",
            b'{"doc": {"id": "56beb7fd3aeaaa14008c92b5"}, "filtered_resps": [-3.5]}',
            "the response is the number -3.5",
        ),
    ],
)
def test_files_that_are_not_what_they_should_be(bring, tmp_path, format, content, says):
    path = tmp_path / "given"
    path.write_bytes(content)
    with pytest.raises(SubmissionError, match=says):
        bring(path, "squad", format)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        ("\\ud800", "was not written: bad-encoding: half of a surrogate pair"),
        ("x" * (1 << 20), "was not written: too-large"),
    ],
)
def test_answers_that_no_submission_can_hold_are_refused_before_anything_changes(
    bring, golds, tmp_path, answer, says
):
    done = bring(write_csv(tmp_path / "good.csv", golds("squad")), "squad", "csv")
    before = {path: path.read_bytes() for path in done.folder.rglob("*") if path.is_file()}
    first = next(iter(golds("squad")))
    path = tmp_path / "bad.json"
    path.write_text(f'{{"{first}": "{answer}"}}')
    with pytest.raises(SubmissionError, match=says):
        bring(path, "squad", "squad", force=True)
    assert {path: path.read_bytes() for path in done.folder.rglob("*") if path.is_file()} == before


# Folders


def test_a_folder_takes_imports_of_several_tasks_by_one_name(bring, golds, home, tmp_path):
    bring(write_csv(tmp_path / "sst.csv", golds("sst")), "sst", "csv")
    done = bring(write_csv(tmp_path / "schema.csv", golds("schema")), "schema", "csv", name="")
    results = evaluate(done.folder, home=home)
    assert {name: task.score for name, task in results.tasks.items()} == {"sst": 100.0, "schema": 100.0}
    assert results.submission["name"] == "theirs"
    with pytest.raises(SubmissionError, match=r"the submission 'theirs'\. Leave out --name"):
        bring(write_csv(tmp_path / "squad.csv", golds("squad")), "squad", "csv", name="ours")


def test_answers_are_replaced_on_request_alone_and_take_their_results_with_them(
    bring, command, golds, home, tmp_path
):
    path = write_csv(tmp_path / "sst.csv", golds("sst"))
    folder = bring(path, "sst", "csv").folder
    assert command("evaluate", folder, "--tasks", "sst", "--home", home).exit_code == 0
    with pytest.raises(
        SubmissionError, match=r"already has different validation answers for sst\. Add --force"
    ):
        bring(path, "sst", "csv", note="of another origin")
    assert bring(path, "sst", "csv", force=True, note="of another origin").removed == ()  # the same answers
    assert (folder / "results").exists() and entry(folder, "sst.validation")["note"] == "of another origin"
    changed = bring(write_csv(path, dict.fromkeys(golds("sst"), "positive")), "sst", "csv", force=True)
    assert changed.removed == ("results/validation",)
    assert not (folder / "results").exists()  # its statistics, examples and run.json stayed
    assert set(answers(folder, "sst").values()) == {"positive"}


def test_imports_at_once_keep_each_others_answers(golds, home, tmp_path):
    """Before, both succeeded, but one lost its fingerprint and its origin."""
    tasks, out = ("sst", "schema", "squad", "woz.en"), tmp_path / "out"
    files = {task: write_csv(tmp_path / f"{task}.csv", golds(task)) for task in tasks}
    with ThreadPoolExecutor(len(tasks)) as pool:
        works = [
            pool.submit(import_answers, file, task, out, "theirs", "validation", "csv", home=home)
            for task, file in files.items()
        ]
        assert [work.result().check.exit_code for work in works] == [0] * len(tasks)
    stated = tomllib.loads((out / "submission.toml").read_text())
    keys = {f"{task}.validation" for task in tasks}
    assert stated["data"].keys() == stated["predictor"]["imports"].keys() == keys
    assert {name for name in os.listdir(out) if name.startswith(".")} == set()


# Labels and extraction


def test_their_words_for_labels_become_the_datasets(bring, golds, tmp_path):
    numbers = {"negative": "0", "positive": "1"}
    path = write_csv(tmp_path / "sst.csv", {id_: numbers[text] for id_, text in golds("sst").items()})
    with pytest.raises(DecabenchError, match=r"sst has no label 'good'\. Choose from negative, positive"):
        bring(path, "sst", "csv", labels={"1": "good"})
    done = bring(path, "sst", "csv", labels={"0": "negative", "1": "positive"})
    assert answers(done.folder, "sst") == golds("sst")
    line = json.loads((done.folder / "predictions" / "sst.validation.jsonl").read_text().splitlines()[0])
    assert line == {"id": "sst.validation.0", "answer": "negative", "raw": "0", "rule": "relabelled"}


@pytest.mark.parametrize("extract", [None, True])
@pytest.mark.parametrize("answer", ["positive", None])
def test_refused_answers_are_empty(bring, golds, home, extract, answer):
    """A filter can stop a text after a word that would be right."""
    ids, labels = list(golds("sst")), list(golds("sst").values())
    reasons = ["content_filter", "SAFETY", "length", *["stop"] * 29]
    table = {"id": ids, "answer": [answer, "positive", *labels[2:]], "finish_reason": reasons}
    done = bring(table, "sst", extract=extract)
    lines = [
        json.loads(line)
        for line in (done.folder / "predictions" / "sst.validation.jsonl").read_text().splitlines()
    ]
    assert [line["answer"] for line in lines] == ["", "", *labels[2:]]
    assert [line.get("finish") for line in lines][:4] == ["refused", "refused", "length", None]
    assert (lines[0].get("raw"), lines[1]["raw"], lines[1]["rule"]) == (answer, "positive", "refused")
    assert evaluate(done.folder, tasks="sst", home=home).tasks["sst"].answers["refused"] == 2


def test_reasoning_in_your_own_tags(bring, golds, tmp_path):
    texts = {id_: f"<plan>negative? positive?</plan>{text}" for id_, text in golds("sst").items()}
    path = write_csv(tmp_path / "sst.csv", texts)
    tags = (("<plan>", "</plan>"),)
    with pytest.raises(DecabenchError, match=r"--reasoning-tags .* extracted answers. Add --extract"):
        bring(path, "sst", "csv", reasoning_tags=tags)
    done = bring(path, "sst", "csv", extract=True, reasoning_tags=tags)
    assert answers(done.folder, "sst") == golds("sst")
    assert entry(done.folder, "sst.validation")["reasoning_tags"] == [["<plan>", "</plan>"]]


# Real predictions on real data


@pytest.fixture(scope="module")
def real_home(tmp_path_factory):
    """The validation split of SQuAD, prepared from the mirror."""
    if not (SHARED / "mirror" / "squad").is_dir() or not (SHARED / "conformance").is_dir():
        pytest.skip("the real data is not next to the project (set DECABENCH_SHARED)")
    home = tmp_path_factory.mktemp("real")
    prepare_task(TASKS["squad"], Request(home, "validation", str(SHARED / "mirror"), progress=False))
    return home


@pytest.mark.mirror
@pytest.mark.slow
def test_published_predictions_of_squad_have_their_official_scores(real_home, tmp_path):
    path = SHARED / "conformance" / "squad.r-net-plus-ensemble.predictions.json"
    official = json.loads(path.with_name("squad.r-net-plus-ensemble.expected.json").read_text())["expected"]
    done = import_answers(path, "squad", tmp_path / "out", "R-NET+", format="squad", home=real_home)
    assert (done.imported, done.check.exit_code) == (10_570, 0)
    scores = evaluate(done.folder, tasks="squad", home=real_home).tasks["squad"].scores
    assert scores["nf1"] == pytest.approx(official["f1"], abs=1e-9)
    assert scores["nem"] == pytest.approx(official["exact_match"], abs=1e-9)
