"""Tasks from TOML files: four kinds of table, and a sentence for every mistake."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from decabench.errors import DataError, MissingDataError, UnknownNameError
from decabench.metrics.base import DecabenchError
from decabench.tasks.example import Example
from decabench.tasks.preparation import Request, is_prepared, prepare_task
from decabench.tasks.store import Store
from decabench.tasks.taskfile import read_toml_task
from tests.tasks.fixtures import write_csv, write_jsonl, write_lines, write_parquet

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
    """A task file; a change replaces a value as TOML has it, None leaves it out."""
    fields = {key: value for key, value in {**FIELDS, **changes}.items() if value is not None}
    return write_lines(folder / "task.toml", [f"{key} = {value}" for key, value in fields.items()])


def prepared(path: Path, request: Request) -> list[Example]:
    task = read_toml_task(path)
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
        "capitals.validation.0",
    )
    assert (ivory_coast.question, ivory_coast.context) == ("What is the capital of Côte d'Ivoire?", "Note: ")


def test_ids_and_groups_of_ones_own(request_for: Requests, tmp_path: Path) -> None:
    write_jsonl(tmp_path / "data.jsonl", [{**row, "number": index} for index, row in enumerate(ROWS)])
    examples = prepared(write_toml(tmp_path, id='"key"', group='"number"'), request_for())
    assert [(example.id, example.group) for example in examples] == [("no", "0"), ("ci", "1")]


@pytest.mark.parametrize(
    ("answer", "answers"),
    [("Oslo", ("Oslo",)), (["Oslo", "Kristiania"], ("Oslo", "Kristiania")), (7, ("7",)), (2.5, ("2.5",))],
)
def test_answers(request_for: Requests, tmp_path: Path, answer: Any, answers: tuple[str, ...]) -> None:
    write_jsonl(tmp_path / "data.jsonl", [{**ROWS[0], "capital": answer}])
    assert prepared(write_toml(tmp_path), request_for())[0].answers == answers


def test_a_csv_with_a_byte_order_mark(request_for: Requests, tmp_path: Path) -> None:
    (tmp_path / "data.csv").write_bytes("\ufeffcountry,capital,note\nNorway,Oslo,\n".encode())
    path = write_toml(tmp_path, files='{ validation = "data.csv" }')
    assert prepared(path, request_for())[0].question == "What is the capital of Norway?"


def test_a_cell_larger_than_pythons_limit(request_for: Requests, tmp_path: Path) -> None:
    write_csv(tmp_path / "data.csv", [("country", "capital", "note"), ("Norway", "Oslo", "x" * 200_000)])
    path = write_toml(tmp_path, files='{ validation = "data.csv" }')
    assert len(prepared(path, request_for())[0].context) == 200_006


def test_what_the_task_says_of_itself(tmp_path: Path) -> None:
    task = read_toml_task(write_toml(tmp_path, title='"Capitals"', licence='"CC0"', notes='"Two rows"'))
    assert (task.name, task.title, task.dataset, task.metric) == ("capitals", "Capitals", "capitals", "em")
    assert (task.licence, task.notes, task.origin) == ("CC0", "Two rows", "user")
    assert task.folder == tmp_path.resolve()


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"format": None}, r"has format None: write format = 'decabench\.taskfile/1'"),
        ({"format": '"decabench.taskfile/2"'}, "has format 'decabench.taskfile/2'"),
        ({"colour": '"red"', "size": "3"}, "has unknown keys colour, size; known: answer, citation, context"),
        ({"name": None}, "'name' must be a text, not null"),
        ({"name": '""'}, "'name' must be a text"),
        ({"name": '"My Task"'}, "a name is lower-case letters, digits, dots, - and _, not 'My Task'"),
        ({"name": '"../up"'}, "a name is lower-case"),
        ({"name": '".."'}, "a name is lower-case"),
        ({"metric": None}, "'metric' must be a text, not null"),
        ({"metric": "3"}, "'metric' must be a text, not 3"),
        ({"metric": '"nf2"'}, "There is no metric 'nf2'. Did you mean nf1"),
        ({"question": None}, "'question' must be a text"),
        ({"question": '["a"]'}, r"'question' must be a text, not \[\"a\"\]"),
        ({"context": "1979-05-27"}, "'context' must be a text"),
        ({"answer": None}, "'answer' must be a text"),
        ({"id": "true"}, "'id' must be a text, not true"),
        ({"group": "0"}, "'group' must be a text"),
        ({"title": "3"}, "'title' must be a text"),
        ({"licence": "3"}, "'licence' must be a text"),
        ({"files": None}, r"\[files\] must name a file for one or more of train, validation, test"),
        ({"files": "{}"}, r"\[files\] must name a file"),
        ({"files": '"data.jsonl"'}, r"\[files\] must name a file"),
        ({"files": '{ dev = "data.jsonl" }'}, r"\[files\] must name a file"),
        (
            {"files": '{ test = "data.xlsx" }'},
            r"a file is \.jsonl, \.csv, \.tsv or \.parquet, not 'data\.xlsx'",
        ),
        ({"files": '{ test = ["data.csv"] }'}, r"a file is \.jsonl"),
        ({"name": "no quotes"}, "task.toml is not TOML"),
    ],
    ids=lambda value: (
        "-".join(f"{key}={text}" for key, text in value.items()) if isinstance(value, dict) else ""
    ),
)
def test_mistakes(tmp_path: Path, changes: dict[str, str | None], sentence: str) -> None:
    with pytest.raises(DecabenchError, match=sentence) as caught:
        read_toml_task(write_toml(tmp_path, **changes))
    assert isinstance(caught.value, DataError | UnknownNameError)
    assert "\n" not in str(caught.value)


def test_text_that_is_not_utf8(tmp_path: Path) -> None:
    (tmp_path / "task.toml").write_bytes(b'name = "\xff"')
    with pytest.raises(DataError, match="is not TOML"):
        read_toml_task(tmp_path / "task.toml")


@pytest.mark.parametrize(
    ("row", "sentence"),
    [
        ({"country": "Norway", "note": ""}, r"data\.jsonl, row 2: It has no 'capital'; it has country, note"),
        ({**ROWS[0], "capital": None}, "row 2: It has no 'capital'"),
        ({"capital": "Oslo", "note": ""}, "row 2: It has no 'country'"),
        (["Norway", "Oslo"], r'row 2: It is no object with columns but \["Norway", "Oslo"\]'),
        ("Norway", "row 2: It is no object"),
        (None, "row 2: It is no object"),
        (
            {**ROWS[0], "capital": []},
            r"capitals, validation, example 1: its answers must be one or more texts",
        ),
    ],
    ids=["no answer", "null", "no question", "list", "text", "nothing", "no answers"],
)
def test_rows_that_do_not_fit(request_for: Requests, tmp_path: Path, row: Any, sentence: str) -> None:
    write_jsonl(tmp_path / "data.jsonl", [ROWS[0], row])
    with pytest.raises(DataError, match=sentence):
        prepared(write_toml(tmp_path), request_for())


def test_a_short_csv_row(request_for: Requests, tmp_path: Path) -> None:
    write_lines(tmp_path / "data.csv", ["country,note,capital", "Norway,cold,Oslo,more", "Ghana"])
    path = write_toml(tmp_path, files='{ validation = "data.csv" }')
    with pytest.raises(DataError, match=r"data\.csv, row 2: It has no 'capital'"):
        prepared(path, request_for())


def test_a_file_that_is_not_there(request_for: Requests, tmp_path: Path) -> None:
    with pytest.raises(
        MissingDataError, match=r"does not contain the files for capitals: .* no data\.jsonl; add them\."
    ):
        prepared(write_toml(tmp_path), request_for())


@pytest.mark.parametrize(
    "template",
    ["{country.__class__}", "{country[0]}", "{country!r}", "{country:>9}", "{0}", "{ }", "{capital.real}"],
)
def test_templates_reach_columns_only(request_for: Requests, tmp_path: Path, template: str) -> None:
    write_jsonl(tmp_path / "data.jsonl", ROWS)
    with pytest.raises(DataError, match=r"row 1: It has no '.*'; it has country, capital, note, key"):
        prepared(write_toml(tmp_path, question=f'"{template}"'), request_for())


def test_a_filled_in_text_is_no_template(request_for: Requests, tmp_path: Path) -> None:
    write_jsonl(tmp_path / "data.jsonl", [{**ROWS[0], "country": "{capital} {} {missing}"}])
    example = prepared(write_toml(tmp_path), request_for())[0]
    assert example.question == "What is the capital of {capital} {} {missing}?"


def test_a_changed_template_prepares_again(request_for: Requests, tmp_path: Path) -> None:
    write_jsonl(tmp_path / "data.jsonl", ROWS)
    path = write_toml(tmp_path)
    prepared(path, request_for())
    assert is_prepared(read_toml_task(path), request_for())
    write_toml(tmp_path, question='"Capital of {country}?"')
    assert not is_prepared(read_toml_task(path), request_for())
    assert prepared(path, request_for())[0].question == "Capital of Norway?"


def test_the_record_names_the_description(request_for: Requests, tmp_path: Path) -> None:
    write_jsonl(tmp_path / "data.jsonl", ROWS)
    path = tmp_path / "link" / "other.toml"
    path.parent.mkdir()
    path.symlink_to(write_toml(tmp_path))
    prepared(path, request_for())
    record = Store(request_for().home).record("capitals", "validation")
    assert [file["name"] for file in record.files] == ["data.jsonl", "task.toml"]
    assert (record.origin, record.verified) == ("user", False)


def with_variants(path: Path, *tables: str) -> Path:
    with path.open("a") as file:
        file.writelines(f"\n[[variants]]\n{table}\n" for table in tables)
    return path


def test_other_wordings(tmp_path: Path) -> None:
    path = with_variants(
        write_toml(tmp_path),
        'name = "please"\nquestion = "Please: {question}"',
        'name = "labels"\nquestion = "{question} A or B?"\nlabels = { A = "Oslo" }',
    )
    please, labels = read_toml_task(path).variants
    assert (please.name, please.rewrite("Which?")) == ("please", "Please: Which?")
    assert (labels.rewrite("Which?"), labels.relabel(" a ")) == ("Which? A or B?", "Oslo")


def test_a_question_that_all_examples_ask_may_be_replaced(tmp_path: Path) -> None:
    path = write_toml(tmp_path, question='"Happy or sad?"')
    (other,) = read_toml_task(with_variants(path, 'name = "o"\nquestion = "Sad or happy?"')).variants
    assert other.rewrite("Happy or sad?") == "Sad or happy?"


@pytest.mark.parametrize(
    ("table", "sentence"),
    [
        ('name = "a"', "'question' must be a text"),
        ('question = "{question}"', "'name' must be a text"),
        ('name = "a"\nquestion = "What?"', "must have {question} in it"),
        ('name = "a"\nquestion = "{question} {country}"', "must have {question} in it"),
        ('name = "a"\nquestion = "{question}!"\nlabel = "x"', "unknown keys label"),
        ('name = "a"\nquestion = "{question}!"\nlabels = { A = 1 }', "labels of a variant are texts"),
        ('name = "a"\nquestion = "{question}!"\nlabels = ["A"]', "labels of a variant are texts"),
    ],
)
def test_mistakes_in_a_wording(tmp_path: Path, table: str, sentence: str) -> None:
    with pytest.raises(DataError) as caught:
        read_toml_task(with_variants(write_toml(tmp_path), table))
    assert sentence in str(caught.value)


def test_wordings_are_tables(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"write \[\[variants\]\]"):
        read_toml_task(write_toml(tmp_path, variants='["{question}!"]'))
