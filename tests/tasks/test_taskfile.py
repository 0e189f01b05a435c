from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from decabench.errors import DataError, UnknownNameError
from decabench.metrics.base import DecabenchError
from decabench.scoring import prove_task
from decabench.tasks.example import Example
from decabench.tasks.outputs import Label, Number, Output, Tags, Text, Tree
from decabench.tasks.preparation import Request, prepare_task
from decabench.tasks.registry import load_included
from decabench.tasks.store import Store
from decabench.tasks.task import Task
from tests.tasks.fixtures import is_prepared, write_csv, write_jsonl, write_lines, write_parquet

ROWS = [
    {"country": "Norway", "capital": "Oslo", "note": 'North, "cold"\nand long', "key": "no"},
    {"country": "Côte d'Ivoire", "capital": "Yamoussoukro", "note": "", "key": "ci"},
]
FIELDS = {
    "format": '"decabench.taskfile/1"',
    "name": '"capitals"',
    "metric": '"em"',
    "question": '"What is the capital of {country}?"',
    "context": '"Note: {note}"',
    "answer": '"capital"',
    "files": '{ validation = "data.jsonl" }',
}
Requests = Callable[..., Request]


def write_toml(folder: Path, **changes: str | None) -> Path:
    """Write a task file. A change replaces a value with TOML text, and None removes it."""
    fields = {key: value for key, value in {**FIELDS, **changes}.items() if value is not None}
    return write_lines(folder / "task.toml", [f"{key} = {value}" for key, value in fields.items()])


def load_task(path: Path) -> Task:
    (task,) = load_included(path)
    assert isinstance(task, Task)
    return task


def prepared(path: Path, request: Request) -> list[Example]:
    task = load_task(path)
    prepare_task(task, request)
    return list(Store(request.home).examples(task.name, "validation"))


def write_table(path: Path) -> None:
    table = [tuple(ROWS[0]), *(tuple(row.values()) for row in ROWS)]
    match path.suffix:
        case ".csv":
            write_csv(path, table)
        case ".tsv":
            write_csv(path, table, delimiter="\t")
        case ".jsonl":
            write_jsonl(path, ROWS)
        case ".parquet":
            write_parquet(path, ROWS)


@pytest.mark.parametrize("suffix", ["csv", "tsv", "jsonl", "parquet"])
def test_tables(request_for: Requests, tmp_path: Path, suffix: str) -> None:
    write_table(tmp_path / f"data.{suffix}")
    path = write_toml(tmp_path, files=f'{{ validation = "data.{suffix}" }}')
    norway, ivory_coast = prepared(path, request_for())
    assert norway == Example(
        "capitals.validation.0",
        "What is the capital of Norway?",
        'Note: North, "cold"\nand long',
        ("Oslo",),
        ("capitals.validation.0",),
    )
    assert (ivory_coast.question, ivory_coast.context) == ("What is the capital of Côte d'Ivoire?", "Note: ")


@pytest.mark.parametrize(
    ("answer", "answers"),
    [("Oslo", ("Oslo",)), (["Oslo", "Kristiania"], ("Oslo", "Kristiania")), (7, ("7",)), (2.5, ("2.5",))],
)
def test_answers(request_for: Requests, tmp_path: Path, answer: Any, answers: tuple[str, ...]) -> None:
    write_jsonl(tmp_path / "data.jsonl", [{**ROWS[0], "capital": answer}])
    assert prepared(write_toml(tmp_path), request_for())[0].answers == answers


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"format": None}, r"has no format. Write format = 'decabench\.taskfile/1' for a task"),
        (
            {"name": '"My Task"'},
            "A name must consist of lowercase letters, digits, dots, hyphens and underscores, .*, but got 'My Task'",
        ),
        (
            {"metric": None},
            "'metric' is missing. Name a metric, or specify the type of the answers with 'output'",
        ),
        ({"metric": '"nf2"'}, "There is no metric 'nf2'. Did you mean nf1"),
        (
            {"languages": '["German"]'},
            "'languages' must be a list of one or more language codes, such as en, de or pt-BR, but got 'German'",
        ),
        (
            {"files": '{ dev = "data.jsonl" }'},
            r"\[files\]: There is no key 'dev'. Known: train, validation, test",
        ),
        (
            {"files": '{ test = "data.xlsx" }'},
            r"a file name must end in \.jsonl, \.csv, \.tsv or \.parquet, not 'data\.xlsx'",
        ),
        ({"name": "no quotes"}, "task.toml is not valid TOML"),
    ],
    ids=lambda value: (
        "-".join(f"{key}={text}" for key, text in value.items()) if isinstance(value, dict) else ""
    ),
)
def test_mistakes(tmp_path: Path, changes: dict[str, str | None], sentence: str) -> None:
    with pytest.raises(DecabenchError, match=sentence) as caught:
        load_task(write_toml(tmp_path, **changes))
    assert isinstance(caught.value, DataError | UnknownNameError)
    assert "\n" not in str(caught.value)


def test_languages(tmp_path: Path) -> None:
    assert load_task(write_toml(tmp_path)).languages == ("en",)
    assert load_task(write_toml(tmp_path, languages='["en", "pt-BR"]')).languages == ("en", "pt-BR")


def test_all_mistakes_are_reported_together(tmp_path: Path) -> None:
    path = write_toml(
        tmp_path,
        name='"My Task"',
        metric='"nf2"',
        question="3",
        titel='"Capitals"',
        output='{ kind = "label", names = ["a", "a"], scheme = "IOB2" }',
        prompt='{ input = "{context}", stop = "x" }',
    )
    with pytest.raises(DataError) as caught:
        load_task(with_variants(path, 'name = "a"'))
    lines = str(caught.value).splitlines()
    assert lines[0] == f"{path} has 9 faults:"
    for fault in (
        "There is no key 'titel'. Did you mean title?",
        "A name must consist of lowercase letters",
        "'question' must be a string, not 3.",
        "[output]: There is no key 'scheme'.",
        "[output]: Each label must be listed only once, but a is listed more than once.",
        "There is no metric 'nf2'.",
        "[prompt]: 'stop' must be a list of strings",
        "[prompt]: 'input' must contain {question}.",
        "[[variants]] 1: 'question' is missing",
    ):
        assert sum(fault in line for line in lines[1:]) == 1, fault


@pytest.mark.parametrize(
    ("row", "sentence"),
    [
        (
            {"country": "Norway", "note": ""},
            r"data\.jsonl, line 2: The row has no value for 'capital'.* country, note",
        ),
        ({**ROWS[0], "capital": None}, "line 2: The row has no value for 'capital'"),
        ({"capital": "Oslo", "note": ""}, "line 2: The row has no value for 'country'"),
        (
            ["Norway", "Oslo"],
            r'line 2: The row must be a JSON object with a value for each column, not \["Norway", "Oslo"\]',
        ),
        ({**ROWS[0], "capital": []}, r"data\.jsonl, line 2: The row has no answer in the column 'capital'"),
    ],
    ids=["no answer", "null", "no question", "list", "no answers"],
)
def test_rows_that_do_not_fit(request_for: Requests, tmp_path: Path, row: Any, sentence: str) -> None:
    write_jsonl(tmp_path / "data.jsonl", [ROWS[0], row])
    with pytest.raises(DataError, match=sentence):
        prepared(write_toml(tmp_path), request_for())


@pytest.mark.parametrize(
    ("name", "text", "sentence"),
    [
        ("data.jsonl", json.dumps(ROWS), "Write each object of the list on its own line."),
        ("data.csv", "country;capital\nPeru;Lima\n", "Separate columns with commas, not semicolons."),
    ],
)
def test_tables_in_another_form(
    request_for: Requests, tmp_path: Path, name: str, text: str, sentence: str
) -> None:
    write_lines(tmp_path / name, text.splitlines())
    with pytest.raises(DataError, match=re.escape(sentence)):
        prepared(write_toml(tmp_path, files=f'{{ validation = "{name}" }}'), request_for())


@pytest.mark.parametrize(
    "template",
    ["{country.__class__}", "{country[0]}", "{country!r}", "{country:>9}", "{0}", "{ }", "{capital.real}"],
)
def test_templates_reach_columns_only(request_for: Requests, tmp_path: Path, template: str) -> None:
    write_jsonl(tmp_path / "data.jsonl", ROWS)
    with pytest.raises(
        DataError, match=r"line 1: The row has no value for '.*'.* country, capital, note, key"
    ):
        prepared(write_toml(tmp_path, question=f'"{template}"'), request_for())


def test_another_task_file_of_the_same_name_is_not_taken_for_it(
    request_for: Requests, tmp_path: Path
) -> None:
    write_lines(tmp_path / "data.csv", ["country,capital", "Kenya,Nairobi"])
    write_lines(tmp_path / "other.csv", ["country,capital", "Peru,Lima"])
    first = write_toml(tmp_path, context=None, files='{ validation = "data.csv" }')
    assert prepared(first, request_for())[0].answers == ("Nairobi",)
    second = tmp_path / "second.toml"
    second.write_text(first.read_text().replace("data.csv", "other.csv"))
    store = Store(request_for().home)
    with pytest.raises(
        DataError, match=r"the files of another task with the same name \(data\.csv, task\.toml\)"
    ):
        store.require_current(load_task(second), "validation")
    assert prepared(second, request_for())[0].answers == ("Lima",)
    store.require_current(load_task(second), "validation")


def test_a_changed_template_prepares_again(request_for: Requests, tmp_path: Path) -> None:
    write_jsonl(tmp_path / "data.jsonl", ROWS)
    path = write_toml(tmp_path)
    prepared(path, request_for())
    assert is_prepared(load_task(path), request_for())
    write_toml(tmp_path, question='"Capital of {country}?"')
    assert not is_prepared(load_task(path), request_for())
    assert prepared(path, request_for())[0].question == "Capital of Norway?"


def with_variants(path: Path, *tables: str) -> Path:
    with path.open("a") as file:
        file.writelines(f"\n[[variants]]\n{table}\n" for table in tables)
    return path


@pytest.mark.parametrize(
    ("text", "output", "metric"),
    [
        ('"text"', Text(), "nf1"),
        ('{ kind = "text", extractive = true, max_tokens = 9 }', Text(True, 9), "nf1"),
        ('"label"', Label(), "accuracy"),
        ('{ kind = "label", names = ["a", "b"] }', Label(("a", "b")), "accuracy"),
        ('"tags"', Tags(), "tag_accuracy"),
        ('{ kind = "tags", scheme = "IOB2" }', Tags("IOB2"), "sequence_f1"),
        ('{ kind = "tree", names = ["nsubj"] }', Tree(("nsubj",)), "parsing"),
        ('{ kind = "number", low = 0, high = 5.5, max_tokens = 4 }', Number(0, 5.5, 4), "mse"),
    ],
)
def test_outputs(tmp_path: Path, text: str, output: Output, metric: str) -> None:
    task = load_task(write_toml(tmp_path, output=text, metric=None))
    assert (task.output, task.metric) == (output, metric)
    assert load_task(write_toml(tmp_path, output=text)).metric == "em"


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ('"lable"', "[output]: There is no kind 'lable'. Did you mean label? Known: text, label, tags"),
        ("{ names = ['a'] }", "[output]: 'kind' is missing"),
        ("3", "'output' must be a table, not 3"),
        ('"number"', "[output]: 'low' is missing"),
        ('{ kind = "label", names = "a" }', "[output]: 'names' must be a list of strings"),
        ('{ kind = "text", extractiv = true }', "There is no key 'extractiv'. Did you mean extractive?"),
    ],
)
def test_mistakes_in_an_output(tmp_path: Path, text: str, sentence: str) -> None:
    with pytest.raises(DataError) as caught:
        load_task(write_toml(tmp_path, output=text))
    assert sentence in str(caught.value)


def table_of(tmp_path: Path, name: str, text: str | bytes, **fields: str) -> Path:
    (tmp_path / name).write_bytes(text if isinstance(text, bytes) else text.encode())
    own = {"question": '"{q}"', "context": '"{c}"', "answer": '"a"', **fields}
    return write_toml(tmp_path, files=f'{{ validation = "{name}" }}', **own)


@pytest.mark.parametrize(
    ("name", "text", "sentence"),
    [
        (
            "d.tsv",
            'q\tc\ta\nq1\t"c1\ta1\nq2\tc2\ta2\nq3\tc3"\ta3\nq4\tc4\ta4\n',
            r"line 2: A quotation mark .* to line 4",
        ),
        (
            "d.csv",
            "q,c,a\nq1,Paris, France,a1\n",
            "line 2: The row must have 3 cells, like the header, but has 4",
        ),
        ("d.csv", "q,c,a,a\nq1,c1,a1,b1\n", "line 1: the column 'a' occurs more than once"),
        ("d.csv", '"q"x,c,a\nq1,c1,a1\n', "line 1: From here on, the file is not valid CSV"),
        ("d.csv", 'q,c,a\nq1,"c1"x,a1\n', "line 2: From here on, the file is not valid CSV"),
        # pandas and datasets write lists so
        (
            "d.csv",
            "q,c,a\nq1,c1,a1\nq2,c2,\"['a1', 'a2']\"\n",
            r"line 3: The column 'a' has a list .* written as text",
        ),
        (
            "d.tsv",
            "q\tc\ta\nq1\tc1\t{'text': ['a1'], 'answer_start': [1]}\n",
            "line 2: The column 'a' has a list",
        ),
        ("d.csv", b"q,c,a\nq1,caf\xe9,a1\n", r"d\.csv, line 2, is not valid UTF-8"),
    ],
)
def test_tables_that_could_be_misread(
    request_for: Requests, tmp_path: Path, name: str, text: str | bytes, sentence: str
) -> None:
    with pytest.raises(DataError, match=sentence):
        prepared(table_of(tmp_path, name, text), request_for())


@pytest.mark.parametrize(
    ("fields", "row", "sentence"),
    [
        (
            {"output": '{ kind = "label", names = ["yes", "no"] }'},
            {"a": "maybe"},
            "'maybe' is not one of the labels yes, no",
        ),
        (
            {"output": '"tags"'},
            {"c": "x y z", "a": "N V"},
            "The answer must have one tag for each word, but has 2 instead of 3",
        ),
        (
            {"output": '{ kind = "tags", names = ["N"] }'},
            {"c": "x", "a": "V"},
            "The tag 'V' in the answer is not one of N",
        ),
        ({"output": '{ kind = "number", low = 1, high = 5 }'}, {"a": "7"}, "'7' is not a number from 1 to 5"),
        (
            {"output": '"tree"'},
            {"c": "x y", "a": "9:root 1:obj"},
            "'9:root' in the answer is not `head:relation` with a head from 0 to 2",
        ),
        ({"secondary": '["dialogue_f1"]'}, {"a": "name: a, b;"}, "has a comma in a value"),
        ({"metric": '"lfem"'}, {}, "lfem requires meta"),
        ({"output": '"tags"'}, {"c": "x", "a": "_"}, "contains the tag '_', which stands for a missing tag"),
        (
            {"metric": '"sequence_f1"', "output": '"tags"'},
            {"c": "x y z", "a": "B-PER O S-PER"},
            "The tags don't follow any of the schemes that sequence_f1 supports: IOB1, IOB2, IOBES, IOE1, IOE2",
        ),
        (
            {"output": '{ kind = "tags", scheme = "IOB2" }'},
            {"c": "x y z", "a": "O I-Per I-Per"},
            "Tag 2 in the answer is 'I-Per', but IOB2 requires 'B-Per'",
        ),
        (
            {"output": '"tree"'},
            {"c": "x y", "a": "2:nsubj 1:obj"},
            "Word 1 in the answer never reaches the root (0)",
        ),
        *(
            (
                {"output": '{ kind = "number", low = 0, high = 2000 }'},
                {"a": text},
                "is not a number from 0 to 2000",
            )
            for text in ("1,000", "50%", "nan", "inf", "1_0", "\u0663", "2e3x", "2001", "")
        ),
        (
            {"output": '{ kind = "label", names = ["New York", "Rome"] }', "metric": '"em"'},
            {"a": "New  York"},
            "'New  York' differs from the label 'New York' only in case or spacing, so em would score",
        ),
        (
            {"output": '"tags"'},
            {"c": "x", "a": ["N", "V"]},
            "2 answers, but tag_accuracy reads only the first",
        ),
        ({}, {"a": True}, "'a' must be text, a number or a date, not true"),
    ],
)
def test_answers_have_the_type_that_the_task_declares(
    request_for: Requests, tmp_path: Path, fields: dict[str, str], row: dict[str, Any], sentence: str
) -> None:
    text = json.dumps({"q": "q1", "c": "c1", "a": "a1", **row})
    metric = {} if "metric" in fields or "output" not in fields else {"metric": None}
    with pytest.raises(DataError) as told:
        prepared(table_of(tmp_path, "d.jsonl", text, **metric, **fields), request_for())  # type: ignore[arg-type]
    assert sentence in str(told.value)


@pytest.mark.parametrize(
    ("fields", "row"),
    [
        ({"metric": '"joint_goal_em"', "units": '["q"]'}, {"a": "Food: thai, area: b; phone"}),
        ({"output": '{ kind = "tags", scheme = "IOBES" }'}, {"c": "x y z", "a": "b-x-y e-x-y O"}),
        ({"output": '{ kind = "tags", scheme = "IOB1" }'}, {"c": "x y z", "a": "I-B B-B I-I"}),
        ({"output": '"tree"'}, {"c": "x y z", "a": "2:nsubj:pass 0:root 0:root"}),
        ({"output": '{ kind = "number", low = -1, high = 2000 }'}, {"a": "1e3"}),
        ({"output": '{ kind = "number", low = -1, high = 2000 }'}, {"a": 0.00001}),
        ({"output": '{ kind = "label", names = ["New York", "Rome"] }'}, {"a": " new  york "}),
    ],
)
def test_answers_that_are_themselves_when_they_are_written_again(
    request_for: Requests, tmp_path: Path, fields: dict[str, str], row: dict[str, Any]
) -> None:
    metric = {"metric": None} if "output" in fields else {}
    text = json.dumps({"q": "q1", "c": "c1", **row})
    (example,) = prepared(table_of(tmp_path, "d.jsonl", text, **metric, **fields), request_for())  # type: ignore[arg-type]
    assert example.answers == (str(row["a"]),)


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"metric": '"joint_goal_em"'}, "'units' is missing.* joint_goal_em scores whole dialogues"),
        (
            {"output": '{ kind = "tags", scheme = "IOB2", names = ["O", "B-X", "U-X"] }'},
            "IOB2 allows only the tags O, B-kind and I-kind, but got 'U-X'",
        ),
        (
            {"output": '{ kind = "label", names = ["US", "us"] }', "metric": '"accuracy"'},
            "accuracy does not distinguish 'US' from 'us'. Rename one",
        ),
        (
            {"question": '"Is it?"', "variants": '[{ name = "b", question = "Is {c}?" }]'},
            "contains the column 'c'",
        ),
        (
            {
                "question": '"Is it?"',
                "output": '{ kind = "label", names = ["yes", "no"] }',
                "variants": '[{ name = "b", question = "Ist es?", labels = { ja = "yess" } }]',
            },
            "'ja' stands for 'yess', which is not one of the labels yes, no",
        ),
    ],
)
def test_task_files_that_contradict_themselves(tmp_path: Path, fields: dict[str, str], sentence: str) -> None:
    with pytest.raises(DataError, match=sentence):
        load_task(write_toml(tmp_path, **fields))


def test_data_of_changed_files_is_not_used(request_for: Requests, tmp_path: Path) -> None:
    request = request_for()
    task = load_task(table_of(tmp_path, "d.jsonl", '{"q": "q1", "c": "c1", "a": "a1"}'))
    store = Store(request.home)
    store.require_current(task, "validation")  # nothing is prepared yet
    prepare_task(task, request)
    (tmp_path / "task.toml").touch()
    store.require_current(task, "validation")
    with (tmp_path / "task.toml").open("a") as file:
        file.write('title = "Other"\n')
    with pytest.raises(DataError, match=r"task\.toml has changed since .* prepare capitals --include .*toml"):
        store.require_current(task, "validation")
    prepare_task(load_task(tmp_path / "task.toml"), request)
    store.require_current(task, "validation")
    (tmp_path / "task.toml").unlink()  # no record is kept of deleted files
    store.require_current(task, "validation")


@pytest.mark.parametrize(
    ("metric", "answer", "sentence"),
    [
        ("em", " no", "' no' begins or ends with spaces, which em does not ignore"),
        ("em", "\ufeffRome", "begins or ends with spaces"),
        ("nf1", " no", ""),  # it ignores them
        ("em", "['a', 'b']", ""),  # a text of JSON lines is that text
        (
            "em",
            "Zu\u0308rich",
            "contains decomposed Unicode .NFD., which em does not treat as equal to .* NFC",
        ),
        ("nf1", "Zu\u0308rich", "NFC"),
        ("nf1", "Z\u00fcrich", ""),
    ],
)
def test_texts_that_no_model_can_answer_with(
    request_for: Requests, tmp_path: Path, metric: str, answer: Any, sentence: str
) -> None:
    write_jsonl(tmp_path / "data.jsonl", [{**ROWS[0], "capital": answer}])
    path = write_toml(tmp_path, metric=f'"{metric}"')
    if not sentence:
        assert len(prepared(path, request_for())) == 1
        return
    with pytest.raises(DataError, match=sentence):
        prepared(path, request_for())


@pytest.mark.parametrize(
    ("fields", "answers", "is_refused"),
    [
        ({}, [1945.0, 1950.0], True),  # pandas, of a column of whole numbers with a gap
        ({}, ["1945.0", "1950.0"], True),
        ({}, [1945.0, 1950.5], False),
        ({}, ["2.0", "Python"], False),
        ({}, [1945, 1950], False),
        ({"metric": None, "output": '{ kind = "number", low = 0, high = 3000 }'}, [1945.0, 1950.0], False),
    ],
)
def test_whole_numbers_that_pandas_made_floats(
    request_for: Requests, tmp_path: Path, fields: dict[str, Any], answers: list[Any], is_refused: bool
) -> None:
    write_jsonl(
        tmp_path / "data.jsonl",
        [{**ROWS[0], "capital": each, "key": str(at)} for at, each in enumerate(answers)],
    )
    path = write_toml(tmp_path, **fields)
    if not is_refused:
        assert len(prepared(path, request_for())) == 2
        return
    with pytest.raises(DataError, match=r"line 1: Every answer is a whole number that ends in \.0"):
        prepared(path, request_for())


@pytest.mark.parametrize("metric", ["macro_f1", "mcc"])
def test_more_classes_than_a_metric_scores_are_refused_before_anybody_predicts(
    tmp_path: Path, request_for: Requests, metric: str
) -> None:
    write_jsonl(tmp_path / "data.jsonl", [{**ROWS[0], "capital": f"c{number}"} for number in range(1001)])
    path = write_toml(tmp_path, output='{ kind = "label" }', metric=f'"{metric}"')
    with pytest.raises(DataError, match=r"capitals, validation: .* 1,001 different labels, .* at most 1,000"):
        prepared(path, request_for())


WORKING = "Natalia sold 48 / 2 = 24 clips in May, and so 48 + 24 in both months."


@pytest.mark.parametrize(
    ("fields", "answers", "mark"),
    [
        ({}, [f"{WORKING}\n#### 72", f"{WORKING}\n#### 1,000", "5"], "####"),  # GSM8K
        ({"metric": '"nf1"'}, [f"{WORKING} The answer is 72.", f"{WORKING} The answer is: 5"], "answer is"),
        ({}, [f"{WORKING} So it is $\\boxed{{72}}$.", f"{WORKING} $\\boxed{{5}}$"], "\\boxed{"),  # MATH
        ({}, [f"{WORKING} #### 72", "5", "6"], ""),
        ({"metric": '"rouge"'}, [f"{WORKING} #### 72", f"{WORKING} #### 5"], ""),  # of texts
    ],
)
def test_gold_answers_with_their_working_are_told(
    request_for: Requests, tmp_path: Path, fields: dict[str, Any], answers: list[str], mark: str
) -> None:
    write_jsonl(
        tmp_path / "data.jsonl",
        [{**ROWS[0], "capital": each, "key": str(at)} for at, each in enumerate(answers)],
    )
    task = load_task(write_toml(tmp_path, **fields))
    prepare_task(task, request_for())
    store = Store(request_for().home)
    note = store.record(task.name, "validation").note
    steps = {step.name: step for step in prove_task(task, "validation", store)}
    assert steps["gold answers score 100"].passed and note in steps["gold answers score 100"].detail
    assert bool(note) is bool(mark)
    if mark:
        assert note.startswith(f"2 of {len(answers)} gold answers end in `{mark}` and a short answer")
