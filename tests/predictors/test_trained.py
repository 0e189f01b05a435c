"""A trained model as a predictor."""

import pickle
from pathlib import Path

import pytest

pytest.importorskip("torch")

from decabench.errors import DataError, DecabenchError, MissingDataError
from decabench.metrics import nf1
from decabench.models.checkpoint import Checkpoint
from decabench.models.classifier import ClassifierConfig
from decabench.predictors.protocol import Answer, Backend, ModelOptions, Setting, StreamingPredictor
from decabench.predictors.schemes import make_backend
from decabench.predictors.trained import backend
from decabench.runs.plan import Run, plan_run
from decabench.tasks import TASKS
from decabench.tasks.example import Question
from decabench.tasks.store import Store
from decabench.training.loop import run_training
from tests.training.conftest import TINY, change_record, make_run, one_thread  # noqa: F401

OPTIONS = ModelOptions(device="cpu")


@pytest.fixture
def trained(make_run):  # noqa: F811
    run = make_run(steps=4, cut_context={"sst": 5})
    run_training(run)
    return run


def setting(task):
    return Setting(TASKS[task], "validation", lambda: iter(()))


def questions(run, task):
    return [Question(row.id, row.question, row.context) for row in run.store.examples(task, "validation")]


def test_it_is_a_backend(trained):
    made = pickle.loads(pickle.dumps(backend(str(trained.output), OPTIONS)))
    assert isinstance(made, Backend)
    assert not made.prompted
    described = made.describe()
    assert described["weights"].startswith("sha256:")
    assert described["config"]["model"]["dimension"] == 8
    assert described["decoding"] == "greedy"


def test_it_answers_every_question_once(trained):
    asked = questions(trained, "schema")
    with backend(str(trained.output), OPTIONS).open() as make:
        predictor = make(setting("schema"))
        assert isinstance(predictor, StreamingPredictor)
        found = dict(predictor.stream(iter(asked)))
    with backend(str(trained.output), ModelOptions(device="cpu", batch_size=3)).open() as make:
        assert dict(make(setting("schema")).stream(asked)) == found
    assert list(found) == [question.id for question in asked]
    assert all(isinstance(answer, Answer) and answer.prompt_tokens for answer in found.values())


def test_a_task_that_it_was_not_trained_on_is_told(trained):
    """The model answers, because MQAN can answer any question. A warning says that the task was never learned."""
    with (
        backend(str(trained.output), OPTIONS).open() as make,
        pytest.warns(UserWarning, match="was trained on sst, schema, not on srl"),
    ):
        make(setting("srl"))


def test_every_family_has_its_label(make_run):  # noqa: F811
    for name, model in (("mqan", TINY.model), ("trained", ClassifierConfig(dimension=8))):
        run = make_run(name, model=model, tasks=("sst",))
        run_training(run)
        made = make_backend(f"trained:{run.output}", OPTIONS)
        assert made.label == f"{name}:{name}"  # the label used in journals
        with made.open() as make:
            asked = questions(run, "sst")
            assert [id for id, _ in make(setting("sst")).stream(asked)] == [question.id for question in asked]


@pytest.mark.parametrize(
    ("options", "flag"), [({"beam": 2}, "--beam"), ({"max_new_tokens": 5}, "--max-new-tokens")]
)
def test_what_generates_no_text_has_no_use_for_its_options(make_run, options, flag):  # noqa: F811
    run = make_run(model=ClassifierConfig(dimension=8), tasks=("sst",), steps=1)
    run_training(run)
    with pytest.raises(DecabenchError, match=f"does not generate text, so it can't use {flag}"):
        make_backend(f"trained:{run.output}", ModelOptions(device="cpu", **options)).describe()


def test_a_beam_is_another_model(trained, home):
    def asked(**options):
        options = ModelOptions(device="cpu", **options)
        planned = plan_run(
            Run(
                f"trained:{trained.output}",
                [TASKS["schema"]],
                "validation",
                Path(),
                Store(home),
                options=options,
            )
        )
        return planned.tasks[0].key.fingerprint, planned.backend.describe()["decoding"]

    (none, greedy), one, two, four = (asked(), asked(beam=1), asked(beam=2), asked(beam=4))
    assert (none, greedy) == one == (none, "greedy")
    assert (two[1], four[1]) == ({"beam": 2}, {"beam": 4})
    assert len({none, two[0], four[0]}) == 3


def test_other_labels_are_another_model(make_run, tmp_path):  # noqa: F811
    """With the labels in another order, the same weights give different answers."""
    config = ClassifierConfig(dimension=8, train_embeddings=True)
    run = make_run(model=config, tasks=("sst",), steps=1)
    run_training(run)
    before = backend(str(run.output), ModelOptions(device="cpu")).describe()
    (record,) = run.output.glob("checkpoints/*/checkpoint.json")
    change_record(record.parent, lambda content: content["outputs"]["sst"]["names"].reverse())
    assert backend(str(run.output), ModelOptions(device="cpu")).describe() != before


def test_a_beam_reaches_the_model(trained, monkeypatch):
    import decabench.models.mqan as mqan

    asked, widths, search = questions(trained, "schema")[:4], [], mqan.beam_search

    def noted(past, count, width, *rest):
        widths.append(width)
        return search(past, count, width, *rest)

    monkeypatch.setattr(mqan, "beam_search", noted)
    found = {}
    for beam in (None, 1, 3):
        with backend(str(trained.output), ModelOptions(device="cpu", beam=beam)).open() as make:
            found[beam] = dict(make(setting("schema")).stream(asked))
    assert found[None] == found[1]
    assert set(widths) == {3}
    assert list(found[3]) == [question.id for question in asked]


def test_others_refuse_a_beam():
    for predictor in ("hf:x", "openai:http://localhost:1/v1", "command:true", "majority"):
        with pytest.raises(DecabenchError, match="does not use --beam"):
            make_backend(predictor, ModelOptions(beam=2, model="x" if "openai" in predictor else None))


def test_answers_state_the_part_of_the_context_that_was_read(trained):
    asked = questions(trained, "sst")
    with backend(str(trained.output), ModelOptions(device="cpu", max_new_tokens=2)).open() as make:
        found = dict(make(setting("sst")).stream(asked))
    cut = [answer for answer in found.values() if answer.context_kept]
    assert cut and all(answer.context_kept[0] == 0 < answer.context_kept[1] for answer in cut)
    assert all(answer.completion_tokens <= 2 for answer in found.values())
    assert {answer.finish for answer in found.values()} <= {"stop", "length"}


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"temperature": 0.5}, "temperature"),
        ({"chat": True}, "chat"),
        ({"dtype": "float16"}, "does not use --dtype"),
        ({"beam": 0}, "1 or more"),
    ],
)
def test_options_it_cannot_honour(options, words):
    with pytest.raises(DecabenchError, match=words):
        make_backend("trained:x", ModelOptions(**options))


def test_damaged_checkpoints(trained, tmp_path):
    with pytest.raises(MissingDataError, match=r"The folder .*none"):
        backend(str(tmp_path / "none"), OPTIONS).describe()
    with pytest.raises(DecabenchError, match="'trained' requires a checkpoint"):
        backend("", OPTIONS)
    (folder,) = (trained.output / "checkpoints").glob("step-00000004")
    (folder / "model.safetensors").write_bytes(b"\x80\x04N.")  # a pickle
    with (
        pytest.raises(DataError, match="has changed since it was saved"),
        backend(str(folder), OPTIONS).open(),
    ):
        pass
    change_record(folder, lambda record: record.pop("files"))  # as a forger could
    with pytest.raises(DataError, match="can't be read"), backend(str(folder), OPTIONS).open():
        pass
    (folder / "checkpoint.json").write_text("{}")
    with pytest.raises(DataError, match="can't be read"):
        backend(str(folder), OPTIONS).describe()


@pytest.mark.parametrize(
    "error",
    [
        MemoryError("none left"),
        RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate"),
    ],
)
@pytest.mark.parametrize("size", [None, 6])
def test_out_of_memory_fails_only_the_examples_that_do_not_fit_alone(trained, monkeypatch, error, size):
    from decabench.models.checkpoint import TrainedModel

    asked = questions(trained, "sst")[:7]
    large, answer = asked[2].id, TrainedModel.answer

    def limited(model, task, window, *rest):
        if len(window) > 2 or any(question.id == large for question in window):
            raise error
        return answer(model, task, window, *rest)

    with backend(str(trained.output), ModelOptions(device="cpu", batch_size=size)).open() as make:
        whole = dict(make(setting("sst")).stream(asked))
        monkeypatch.setattr(TrainedModel, "answer", limited)
        found = dict(make(setting("sst")).stream(asked))
    assert list(found) == list(whole)
    assert "ran out of memory" in found.pop(large).error
    assert found == {id: outcome for id, outcome in whole.items() if id != large}


def test_other_errors_are_not_taken_for_it(trained, monkeypatch):
    from decabench.models.checkpoint import TrainedModel

    def answer(*_: object) -> None:
        raise RuntimeError("shapes do not match")

    monkeypatch.setattr(TrainedModel, "answer", answer)
    with (
        backend(str(trained.output), OPTIONS).open() as make,
        pytest.raises(RuntimeError, match="shapes do not match"),
    ):
        list(make(setting("sst")).stream([Question("a", "good?", "fine")]))


@pytest.mark.parametrize(
    ("device", "words"), [("foo", "Unknown device 'foo'. Choose auto"), ("cuda:99", "no cuda:99")]
)
def test_devices_that_are_not_here(trained, device, words):
    with (
        pytest.raises(DecabenchError, match=words),
        backend(str(trained.output), ModelOptions(device=device)).open(),
    ):
        pass


@pytest.mark.parametrize(
    ("device", "first", "gpus"),
    [("cuda", "cpu", 1), ("cpu", "cuda", 0), (None, "cuda", 1), ("auto", "cpu", 0), ("auto", "mps", 0)],
)
def test_a_copy_on_a_cluster_has_a_gpu_of_its_own(trained, monkeypatch, device, first, gpus):
    """Before, copies requested no GPU, so all workers of a machine shared its first GPU or had none."""
    monkeypatch.setattr("decabench.models.first_device", lambda: first)
    assert backend(str(trained.output), ModelOptions(device=device)).gpus == gpus


MODEL = Path(__file__).parents[2] / "examples" / "demo-model"


def answers(home, task):
    """Return the sample's validation examples and the model's answers."""
    examples = list(Store(home).examples(task, "validation"))
    replies = Checkpoint.open(MODEL).load("cpu").answer(TASKS[task], examples)
    return examples, [reply.text for reply in replies]


def test_it_tells_good_reviews_from_bad(home):
    """Random guesses get 23 or more of the 32 sentences right once in a hundred times."""
    examples, said = answers(home, "sst")
    assert len(examples) == 32
    assert sum(text in each.answers for text, each in zip(said, examples, strict=True)) >= 23


@pytest.mark.parametrize(("task", "least"), [("srl", 50), ("squad", 25)])
def test_it_points_at_spans(home, task, least):
    """Answering with the whole context scores 31 on srl and 7 on squad."""
    examples, said = answers(home, task)
    assert float(nf1(said, [each.answers for each in examples])) > least
