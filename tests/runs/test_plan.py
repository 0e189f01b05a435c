"""How a task's questions are put: template, shots, and both in the words of a variant."""

import pytest

from decabench.errors import DecabenchError
from decabench.runs.plan import Prompts, form_of, prompting_for
from decabench.tasks.example import Question
from decabench.tasks.registry import TASKS
from decabench.tasks.store import Store


@pytest.fixture
def store(home):
    return Store(home)


def variant_with(task, word):
    return next(variant for variant in TASKS[task].variants if word in variant.labels)


def test_shots_are_training_examples(store):
    made = prompting_for(Prompts(shots=4), TASKS["sst"], store, "validation", 0, None)
    training = {example.id: example for example in store.examples("sst", "train")}
    assert len({shot.id for shot in made.shots}) == 4
    for shot in made.shots:
        example = training[shot.id]
        assert (shot.question, shot.context, shot.answer) == (
            example.question,
            example.context,
            example.answers[0],
        )


def test_the_seed_decides_which(store):
    drawn = [
        [
            shot.id
            for shot in prompting_for(Prompts(shots=3), TASKS["sst"], store, "validation", seed, None).shots
        ]
        for seed in (0, 0, 1)
    ]
    assert drawn[0] == drawn[1] != drawn[2]


def test_no_shot_of_what_is_evaluated(store):
    """Were the training split itself evaluated, every example would be barred."""
    with pytest.raises(DecabenchError, match="sst: 2 shots were asked for"):
        prompting_for(Prompts(shots=2), TASKS["sst"], store, "train", 0, None)


def test_a_variant_changes_shots_and_labels_too(store):
    """A shot that answers in words the question does not offer would teach the wrong form."""
    wording = variant_with("sst", "happy")
    made = prompting_for(Prompts(shots=4), TASKS["sst"], store, "validation", 0, wording)
    assert {shot.answer for shot in made.shots} == {"happy", "angry"}
    assert {shot.question for shot in made.shots} == {wording.rewrite("Is this review negative or positive?")}
    assert set(made.form.labels) == {"happy", "angry"}
    text = made.text(Question("1", wording.rewrite("Is this review negative or positive?"), "Good."))
    assert "positive" not in text and "negative" not in text


def test_the_system_text(store):
    made = prompting_for(Prompts(system="Be brief."), TASKS["sst"], store, "validation", 0, None)
    first = made.messages(Question("1", "Is this review negative or positive?", "Good."))[0]
    assert (first.role, first.content) == ("system", "Be brief.")


@pytest.mark.parametrize(("task", "kind"), [("sst", "label"), ("wikisql", "sql"), ("woz.en", "state")])
def test_the_form_of_a_task_without_prompts(task, kind):
    assert form_of(TASKS[task]).kind == kind
