"""How a task's questions are put: template, shots, and both in the words of a variant."""

from dataclasses import replace

import pytest

from decabench.errors import DecabenchError
from decabench.predictors.protocol import ModelOptions
from decabench.runs.plan import Prompts, Run, build_prompting, plan_run
from decabench.tasks.example import Question
from decabench.tasks.registry import TASKS
from decabench.tasks.store import Store


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


def test_the_seed_decides_which(prompting):
    drawn = [[shot.id for shot in prompting(shots=3, seed=seed).shots] for seed in (0, 0, 1)]
    assert drawn[0] == drawn[1] != drawn[2]


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
    assert planned.prompting is None and planned.form.kind == kind


def test_tags_of_reasoning_decide_the_answers_and_not_what_is_asked(store, tmp_path):
    run = Run("lead-3", [TASKS["sst"]], "validation", tmp_path / "s", store, extract=True)
    tagged = replace(run, reasoning_tags=[["<plan>", "</plan>"]])
    plain, named = plan_run(run), plan_run(tagged)
    assert named.tasks[0].form.reasoning_tags == (("<plan>", "</plan>"),)
    assert named.tasks[0].key == plain.tasks[0].key
    assert named.predictor["reasoning_tags"] == [["<plan>", "</plan>"]]
    assert named.predictor["fingerprint"] != plain.predictor["fingerprint"]
    with pytest.raises(DecabenchError, match=r"--reasoning-tags is for .* extracted: add --extract"):
        plan_run(replace(tagged, extract=None))
    with pytest.raises(DecabenchError, match="--reasoning-tags takes an opening"):
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
    with pytest.raises(DecabenchError, match=r"sst, validation, does not match its record: run .* --force"):
        plan_run(run)
