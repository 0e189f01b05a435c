import os
import shutil
import signal
from dataclasses import replace
from types import SimpleNamespace

import pytest

torch = pytest.importorskip("torch")


from decabench.errors import DataError, DecabenchError, MissingDataError
from decabench.files import lock_file
from decabench.models.checkpoint import Checkpoint, find_checkpoint, latest_checkpoint
from decabench.tasks import TASKS, Store
from decabench.training import loop, validator
from decabench.training.loop import TrainingInterrupted, run_training
from decabench.training.planning import TrainingRun
from decabench.training.resume import restore
from tests.training.conftest import TINY, change_record


@pytest.fixture(scope="module")
def trained(home, tmp_path_factory):
    folder = tmp_path_factory.mktemp("resume") / "run"
    tasks = {name: TASKS[name] for name in TINY.tasks}
    run_training(TrainingRun(TINY, tasks, Store(home), folder, "cpu", report=lambda text: None))
    return folder


@pytest.fixture
def run(make_run, trained):
    made = make_run()
    shutil.copytree(trained, made.output)
    return made


def test_moments_come_back_exactly(run):
    saved = latest_checkpoint(run.output)
    model = saved.load("cpu").network
    first = torch.optim.Adam(model.parameters(), fused=True)
    restore(saved, model, first)
    assert all(state["step"] == 6 for state in first.state.values())
    assert all(state["exp_avg"].any() for state in first.state.values())


def test_a_pickle_is_no_checkpoint(run):
    saved = latest_checkpoint(run.output)
    torch.save({"a": torch.zeros(1)}, saved.folder / "model.safetensors")
    without_digests = replace(saved.record, files=None)
    with pytest.raises(DataError, match="can't be read"):
        replace(saved, record=without_digests).load("cpu")


def test_where_a_checkpoint_is(run, tmp_path):
    best_folder, newest = find_checkpoint(run.output), latest_checkpoint(run.output).folder
    best_step = latest_checkpoint(run.output).record.state["best_step"]
    assert (best_folder.name, newest.name) == (f"step-{best_step:08d}", "step-00000006")
    assert find_checkpoint(best_folder) == best_folder
    with pytest.raises(MissingDataError, match=r"The folder .*x doesn.t exist"):
        find_checkpoint(tmp_path / "nowhere" / "x")
    (tmp_path / "empty").mkdir()
    with pytest.raises(MissingDataError, match="neither a checkpoint nor"):
        find_checkpoint(tmp_path / "empty")
    (tmp_path / "empty" / "train.csv").touch()
    with pytest.raises(MissingDataError, match="ended before its first checkpoint"):
        find_checkpoint(tmp_path / "empty")
    (tmp_path / "record.zip").touch()
    with pytest.raises(DataError, match=r"record.zip is a file, not the folder"):
        find_checkpoint(tmp_path / "record.zip")
    assert latest_checkpoint(tmp_path / "x") is None
    for best in ("../elsewhere", -1, 5, None):  # of a damaged record, or of a folder that is gone
        change_record(newest, lambda record, best=best: record["state"].update(best_step=best))
        assert find_checkpoint(run.output) == newest


def test_other_data_is_refused(run, make_run):
    change_record(
        latest_checkpoint(run.output).folder, lambda record: record["data"].update({"sst.train": "sha256:0"})
    )
    with pytest.raises(
        DecabenchError,
        match=r"differs from the data that .* was trained on \(sst \(train\)\)\. Use the same --home",
    ):
        run_training(make_run(resume=True, steps=8))


FAILING_METRICS = (
    (lambda *given: 1 / 0, r"fails \(ZeroDivisionError\('division by zero'\)\)"),
    (lambda *given: SimpleNamespace(scores={"em": float("nan")}, headline="em"), "returns nan"),
)


def test_a_metric_that_fails_loses_nothing(make_run, monkeypatch):
    settings = {"validate_every": 3, "checkpoint_every": 100}
    whole = make_run("whole", **settings)
    kept = run_training(whole)
    with monkeypatch.context() as patch:
        for resume, (score, fault) in zip((False, True), FAILING_METRICS, strict=True):
            patch.setattr(validator, "score_task", score)
            broken = make_run("broken", resume, **settings)
            with pytest.raises(
                DecabenchError, match=f"The metric em for sst {fault} .* continue with --resume"
            ):
                run_training(broken)
            saved = latest_checkpoint(broken.output)
            assert saved.record.step == 3 and saved.record.state["unvalidated"]
    found = run_training(make_run("broken", True, **settings))
    assert (found.scores, found.best) == (kept.scores, kept.best)
    ends = [latest_checkpoint(run.output) for run in (broken, whole)]
    assert ends[0].digest() == ends[1].digest() and ends[0].record.state == ends[1].record.state


def test_a_reader_that_has_ended_stops_the_run_with_a_checkpoint(make_run):
    def closed(text):
        if "ready after" not in text:
            raise BrokenPipeError

    settings = {"steps": 12, "validate_every": 3, "checkpoint_every": 12}
    with pytest.raises(TrainingInterrupted) as stopped:
        run_training(replace(make_run(**settings), report=closed))
    assert stopped.value.exit_code == 128 + signal.SIGPIPE
    # The step after the validation whose line could not be written.
    assert latest_checkpoint(make_run().output).record.step == 4
    assert run_training(make_run(resume=True, **settings)).step == 12


@pytest.fixture
def interrupt(monkeypatch):
    taken = loop._Trainer._step

    def at(step, *numbers):
        def interrupting(trainer):
            found = taken(trainer)
            for number in numbers if trainer.state.step == step else ():
                os.kill(os.getpid(), number)
            return found

        monkeypatch.setattr(loop._Trainer, "_step", interrupting)

    return at


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_interrupted_run_writes_a_checkpoint_and_goes_on_from_it(make_run, interrupt, number, code):
    settings = {"steps": 8, "checkpoint_every": 4, "validate_every": 4}
    whole = make_run("whole", **settings)
    run_training(whole)
    said = []
    run = replace(make_run("interrupted", **settings), report=said.append)
    before = signal.getsignal(number)
    interrupt(2, number)
    with pytest.raises(
        TrainingInterrupted, match=r"from step 3\. To continue, run the same command"
    ) as caught:
        run_training(run)
    assert caught.value.exit_code == code and signal.getsignal(number) == before
    assert any("A checkpoint will be written after the next step" in line for line in said)
    run_training(make_run("interrupted", resume=True, **settings))  # from step 3
    assert Checkpoint.open(run.output).digest() == Checkpoint.open(whole.output).digest()


def test_interrupted_twice_it_ends_at_once_and_says_what_is_lost(make_run, interrupt):
    settings = {"steps": 8, "checkpoint_every": 4, "validate_every": 8}
    interrupt(3, signal.SIGINT, signal.SIGINT)
    with pytest.raises(KeyboardInterrupt) as caught:  # before a checkpoint: the same command begins again
        run_training(make_run("early", **settings))
    assert not isinstance(caught.value, TrainingInterrupted)
    interrupt(6, signal.SIGINT, signal.SIGINT)
    with pytest.raises(TrainingInterrupted, match="from step 4; later steps are lost"):
        run_training(make_run("early", **settings))


def test_two_processes_do_not_train_in_one_folder(run, make_run):
    again = make_run(resume=True, steps=6)
    with (
        lock_file(run.output / "config.toml", ""),
        pytest.raises(DecabenchError, match="Another process is training in"),
    ):
        run_training(again)
    run_training(again)
