"""How a task's questions are put: template, shots, and both in the words of a variant."""

import hashlib
import json
import pickle
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from decabench.errors import DecabenchError, MissingDataError
from decabench.predictors import OracleSetting, Setting, make_backend
from decabench.predictors.protocol import ModelOptions
from decabench.runs.plan import Prompts, Run, Selection, build_prompting, plan_run, read_ids
from decabench.runs.write import predict
from decabench.submission.checker import write_id_list
from decabench.tasks import TASKS, Question, Store


@pytest.fixture
def store(home):
    return Store(home)


@pytest.fixture
def prompting(store, tmp_path):
    """The prompts of sst in one wording."""

    def make(wording=None, split="validation", seed=0, **prompts):
        options = ModelOptions(seed=seed)
        run = Run("x", [], split, tmp_path, store, prompts=Prompts(**prompts), options=options)
        return build_prompting(run, TASKS["sst"], wording)

    return make


def test_a_seed_that_is_left_out_must_have_another_use(store, tmp_path):
    """It was recorded, and did nothing: the same conflict as with --omit temperature, which was refused."""

    def plan(**prompts):
        options = ModelOptions(model="m", omit=("seed",), seed=5)
        given = {"options": options, "prompts": Prompts(**prompts)}
        return plan_run(
            Run("openai:http://x/v1", [TASKS["sst"]], "validation", tmp_path / "s", store, **given)
        )

    with pytest.raises(DecabenchError, match="--omit seed and --seed contradict each other"):
        plan()
    assert plan(shots=2).tasks  # which the seed chooses


def variant_with(task, word):
    return next(each for each in TASKS[task].variants if word in each.labels and not each.retired)


def test_shots_are_training_examples(prompting, store):
    made = prompting(shots=4)
    training = {example.id: example for example in store.examples("sst", "train")}
    assert len({shot.id for shot in made.shots}) == 4
    for shot in made.shots:
        example = training[shot.id]
        assert (shot.question, shot.context, shot.answer) == (
            example.question,
            example.context,
            example.answers[0],
        )


def test_no_shot_of_what_is_evaluated(prompting):
    """Were the training split itself evaluated, every example would be barred."""
    with pytest.raises(DecabenchError, match="sst: 2 shots were requested"):
        prompting(shots=2, split="train")


def test_a_variant_changes_shots_and_labels_too(prompting):
    """A shot that answers in words the question does not offer would teach the wrong form."""
    wording = variant_with("sst", "happy")
    made = prompting(wording, shots=4)
    assert {shot.answer for shot in made.shots} == {"happy", "angry"}
    assert {shot.question for shot in made.shots} == {wording.rewrite("Is this review negative or positive?")}
    assert set(made.form.labels) == {"happy", "angry"}
    text = made.text(Question("1", wording.rewrite("Is this review negative or positive?"), "Good."))
    assert "positive" not in text and "negative" not in text


def test_the_system_text(prompting):
    made = prompting(system="Be brief.")
    first = made.messages(Question("1", "Is this review negative or positive?", "Good."))[0]
    assert (first.role, first.content) == ("system", "Be brief.")


@pytest.mark.parametrize(("task", "kind"), [("sst", "label"), ("wikisql", "sql"), ("woz.en", "state")])
def test_the_form_of_a_task_without_prompts(store, tmp_path, task, kind):
    run = Run("lead-3", [TASKS[task]], "validation", tmp_path / "s", store, extract=True)
    (planned,) = plan_run(run).tasks
    assert planned.prompting is None and planned.reading.form.kind == kind


def test_tags_of_reasoning_decide_the_answers_and_not_what_is_asked(store, tmp_path):
    run = Run("lead-3", [TASKS["sst"]], "validation", tmp_path / "s", store, extract=True)
    tagged = replace(run, reasoning_tags=[["<plan>", "</plan>"]])
    plain, named = plan_run(run), plan_run(tagged)
    assert named.tasks[0].reading.form.reasoning_tags == (("<plan>", "</plan>"),)
    assert named.tasks[0].key == plain.tasks[0].key
    assert named.predictor["reasoning_tags"] == [["<plan>", "</plan>"]]
    assert named.predictor["fingerprint"] != plain.predictor["fingerprint"]
    with pytest.raises(DecabenchError, match=r"--reasoning-tags works only .* Add --extract"):
        plan_run(replace(tagged, extract=None))
    with pytest.raises(DecabenchError, match="--reasoning-tags requires"):
        replace(run, reasoning_tags=(("<plan>", ""),))


def test_altered_data_is_refused_before_anything_is_asked(home, tmp_path):
    """Found by a reader: only `evaluate` noticed, after all had been asked."""
    import shutil

    import pyarrow.parquet as pq

    shutil.copytree(home / "tasks" / "sst", tmp_path / "home" / "tasks" / "sst")
    store = Store(tmp_path / "home")
    run = Run("majority", [TASKS["sst"]], "validation", tmp_path / "s", store)
    plan_run(run)
    path = store.path("sst", "validation")
    table = pq.read_table(path)
    column = table.schema.get_field_index("context")
    changed = ["changed", *table["context"].to_pylist()[1:]]
    pq.write_table(table.set_column(column, table.schema.field(column), [changed]), path)
    with pytest.raises(
        DecabenchError, match=r"validation split of sst has changed since it was prepared.* Run .* --force"
    ):
        plan_run(run)


# Which examples are run


def ids(selection, store, task="sst"):
    return [question.id for question in selection.questions(store, task, "validation")]


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
        DecabenchError,
        match=r"schema, sst \(validation\) do not have: 'nobody', 'noone'\. .* decabench prepare",
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
    ("content", "sentence"), [(b"\n \n", "contains no ids"), (b"\xff\xfe", "can't be read as")]
)
def test_what_is_no_file_of_ids(tmp_path, content, sentence):
    (tmp_path / "ids").write_bytes(content)
    with pytest.raises(DecabenchError, match=sentence):
        read_ids(tmp_path / "ids")


# A predictor receives questions, and training data that is not the split it predicts


@pytest.fixture
def setting(home: Path, tmp_path: Path):
    def make(predictor: str, task: str, split: str = "validation") -> Setting:
        run = Run(predictor, [TASKS[task]], split, tmp_path / "out", Store(home))
        (planned,) = plan_run(run).tasks
        return planned.setting

    return make


def test_training_examples_are_those_of_the_data_in_its_order(setting, home: Path) -> None:
    made = setting("majority", "schema")
    pairs = [
        (Question(example.id, example.question, example.context), example.answers[0])
        for example in Store(home).examples("schema", "train")
    ]
    for each in (made, pickle.loads(pickle.dumps(made))):
        assert list(each.training_examples()) == pairs
        assert list(each.training_answers()) == [answer for _, answer in pairs]


def test_the_answers_of_the_training_split_are_not_handed_out_when_it_is_asked(setting) -> None:
    made = setting("majority", "sst", "train")
    for handed in (made.training_answers, made.training_examples):
        with pytest.raises(MissingDataError, match="are the answers to predict"):
            list(handed())


def test_the_oracle_alone_is_handed_gold(setting, home: Path, tmp_path: Path) -> None:
    made = setting("oracle", "sst")
    assert isinstance(made, OracleSetting) and len(made.gold_answers()) == 32
    other = setting("majority", "sst")
    assert type(other) is Setting
    with make_backend("oracle", ModelOptions()).open() as make:
        with pytest.raises(DecabenchError, match="Use --predictor oracle"):
            make(other)
    with pytest.raises(DecabenchError, match="Use --predictor oracle"):
        predict("decabench.predictors:oracle", tmp_path / "out", ["sst"], home=home)


def test_a_program_is_not_told_where_the_data_is(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DECABENCH_HOME", str(home))
    monkeypatch.setenv("KEPT", "1")
    program = tmp_path / "program.py"
    program.write_text(
        "import json, os, sys\n"
        "for line in sys.stdin:\n"
        "    row = json.loads(line)\n"
        "    answer = json.dumps([sorted(row), [k for k in os.environ if k in ('DECABENCH_HOME', 'KEPT')]])\n"
        "    print(json.dumps({'id': row['id'], 'answer': answer}), flush=True)\n"
    )
    folder = predict(f"command:{sys.executable} {program}", tmp_path / "out", ["sst"], home=home)
    lines = (folder / "predictions" / "sst.validation.jsonl").read_text().splitlines()
    told = {json.loads(line)["answer"] for line in lines}
    assert told == {json.dumps([["context", "id", "question", "split", "task"], ["KEPT"]])}
