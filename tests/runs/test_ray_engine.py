"""The predictor on a Ray cluster of two workers: the same answers as in this process, whatever dies."""

import json
import sys
from textwrap import dedent

import pytest

pytest.importorskip("ray")

from decabench.errors import DecabenchError
from decabench.predictors.protocol import Answer, ModelOptions, Setting
from decabench.predictors.schemes import make_backend
from decabench.runs.plan import Run, Selection, plan_run
from decabench.runs.ray_engine import RayEngine, connected, lay_out
from decabench.runs.write import run_plan
from decabench.tasks.example import Question
from decabench.tasks.registry import TASKS, load_included
from decabench.tasks.store import Store
from tests.runs.untimed import untimed, untimed_line

pytestmark = [
    pytest.mark.slow,
    pytest.mark.xdist_group("ray"),  # one cluster at a time
]

SOMEBODYS = """
    import os
    import signal
    from pathlib import Path

    from decabench.predictors.protocol import Answer, Failure

    here = Path(__file__).parent


    class Echo:
        def predict(self, questions):
            return [f"{question.id} {question.question} {question.context}" for question in questions]


    echo = Echo()


    class Careful(Echo):
        '''Everything that an outcome may hold, and one example in ten fails.'''

        def predict(self, questions):
            for question in questions:
                if question.id.endswith("3"):
                    raise ZeroDivisionError("by nought")
            return [Answer(question.id, "length", (0, 2), 5, 1) for question in questions]


    careful = Careful()


    class Backwards:
        def stream(self, questions):
            for question in reversed(list(questions)):
                yield question.id, Answer(question.context)


    backwards = Backwards()


    class Rewriting:
        def __init__(self, setting):
            self.setting = setting

        def predict(self, questions):
            return [self.setting.task.variants[0].rewrite(question.question) for question in questions]


    rewriting = Rewriting


    def loaded(setting):
        '''Notes every load, and in which process.'''
        with open(here / "loads", "a") as file:
            file.write(f"{setting.task.name} {os.getpid()}\\n")
        return echo


    class Dies(Echo):
        '''Kills its own process, once.'''

        def predict(self, questions):
            if any(question.id.endswith("7") for question in questions):
                try:
                    (here / "died").touch(exist_ok=False)
                except FileExistsError:
                    pass
                else:
                    os.kill(os.getpid(), signal.SIGKILL)
            return super().predict(questions)


    dies = Dies()


    class Poisoned(Echo):
        '''Dies of one example, always.'''

        def predict(self, questions):
            if any(question.id.endswith(".7") for question in questions):
                with open(here / "deaths", "a") as file:
                    file.write("x")
                os.kill(os.getpid(), signal.SIGKILL)
            return super().predict(questions)


    poisoned = Poisoned()


    class Short(Echo):
        def predict(self, questions):
            return super().predict(questions)[1:]


    short = Short()


    class Number(Echo):
        def predict(self, questions):
            return [1 for _ in questions]


    number = Number()


    def broken(setting):
        raise OSError("no weights")
"""


@pytest.fixture(scope="module")
def cluster():
    """Two CPUs; every run of this module works on it as in a caller's own session.

    Workers are as urgent as other tests: with the niceness that Ray gives them, 15, they hardly get a turn.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_worker_niceness", "0")
        with connected("local", 2):
            yield


@pytest.fixture
def somebodys(tmp_path, monkeypatch):
    """A package of theirs on the path of this process alone."""
    name = f"somebodys_{tmp_path.name.replace('-', '_')}"
    folder = tmp_path / "theirs"
    folder.mkdir()
    (folder / f"{name}.py").write_text(dedent(SOMEBODYS))
    monkeypatch.syspath_prepend(folder)
    yield name, folder
    sys.modules.pop(name, None)


@pytest.fixture
def run(home, tmp_path):
    def make(predictor, tasks=("sst",), **changes):
        chosen = [TASKS[name] for name in tasks]
        given = {"split": "validation", "output": tmp_path / "s", "store": Store(home), "date": "2026-01-31"}
        if changes.get("engine") == "ray":
            given["workers"] = 2
        options = {"batch_size": 5, **changes.pop("options", {})}
        return Run(predictor, chosen, **{**given, **changes}, options=ModelOptions(**options))

    return make


def answer(run):
    """Runs it, and returns the submission's folder."""
    return run_plan(plan_run(run)).folder


def contents(folder):
    """A submission's files, without times; journals are in the order in which the answers came, and apart."""
    return {
        path.relative_to(folder).as_posix(): untimed(path.read_bytes())
        for path in folder.rglob("*")
        if path.is_file() and path.parent.name != "journal"
    }


def journals(folder):
    """The name and the lines of each journal, without times, sorted."""
    return {
        path.name: sorted(map(untimed_line, path.read_text().splitlines()))
        for path in folder.glob("journal/*.jsonl")
    }


@pytest.mark.parametrize(
    ("predictor", "tasks"),
    [
        ("majority", ("sst", "schema", "woz.en")),
        pytest.param("random", ("sst", "squad"), marks=pytest.mark.heavy),
        pytest.param("{}:echo", ("sst", "wikisql"), marks=pytest.mark.heavy),
        pytest.param("{}:careful", ("sst",), marks=pytest.mark.heavy),
        pytest.param("{}:backwards", ("schema",), marks=pytest.mark.heavy),
    ],
)
def test_the_same_bytes_as_in_this_process(cluster, run, tmp_path, somebodys, predictor, tasks):
    predictor = predictor.format(somebodys[0])
    local = answer(run(predictor, tasks, output=tmp_path / "local"))
    remote = answer(run(predictor, tasks, output=tmp_path / "remote", engine="ray"))
    assert contents(remote) == contents(local)
    assert journals(remote) == journals(local)
    assert len(contents(remote)) == len(tasks) + 1


@pytest.mark.heavy
def test_a_language_model(cluster, run, tmp_path):
    pytest.importorskip("transformers", reason="needs the extra hf")
    from tests.predictors.hf.hf_models import save_llama

    save_llama(tmp_path / "tiny")
    asked = {"predictor": f"hf:{tmp_path / 'tiny'}", "tasks": ("sst",), "selection": Selection(12)}
    asked["options"] = {"max_new_tokens": 4, "device": "cpu"}
    local = answer(run(**asked, output=tmp_path / "local"))
    remote = answer(run(**asked, output=tmp_path / "remote", engine="ray"))
    assert contents(remote) == contents(local)
    assert journals(remote) == journals(local)


@pytest.mark.heavy
def test_a_task_of_a_file_that_no_worker_can_import(cluster, tmp_path, somebodys):
    name, _ = somebodys
    path = tmp_path / "mine.py"
    path.write_text(
        dedent("""
        from dataclasses import dataclass, replace

        from decabench.tasks import TASKS
        from decabench.tasks.task import Variant

        @dataclass(frozen=True)
        class Mark:
            mark: str

        MARK = Mark("?!")

        def rewrite(question):
            return question + MARK.mark

        MINE = replace(TASKS["sst"], name="mine", variants=(Variant("loud", rewrite),))
        """)
    )
    (task,) = load_included(path)
    setting = Setting(task, "validation", lambda: iter(()))
    with RayEngine(make_backend(f"{name}:rewriting", ModelOptions()), workers=1) as engine:
        assert dict(engine.outcomes(setting, [Question("1", "Is it", "")])) == {"1": Answer("Is it?!")}


def test_a_task_that_cannot_be_sent(cluster):
    setting = Setting(TASKS["sst"], "validation", (number for number in ()).__next__)
    with RayEngine(make_backend("majority", ModelOptions()), workers=1) as engine:
        with pytest.raises(DecabenchError, match=r"sst can't be sent to the workers \(TypeError"):
            list(engine.outcomes(setting, [Question("1", "Is it", "")]))


@pytest.mark.heavy
def test_ray_goes_on_from_this_process_and_back(cluster, run, tmp_path, somebodys):
    predictor = f"{somebodys[0]}:echo"
    whole = answer(run(predictor, output=tmp_path / "whole"))
    (name, lines) = next(iter(journals(whole).items()))
    for number, engine in enumerate(("ray", "local")):
        folder = tmp_path / f"half{number}"
        first = answer(run(predictor, output=folder, engine="local" if engine == "ray" else "ray"))
        path = first / "journal" / name
        kept = path.read_text().splitlines(keepends=True)[:12]
        path.write_text("".join(kept))
        report = run_plan(plan_run(run(predictor, output=folder, engine=engine)))
        assert (report.tallies[0].resumed, report.tallies[0].answered) == (11, len(lines) - 12)
        assert contents(folder) == contents(whole)
        assert journals(folder) == {name: lines}


@pytest.mark.heavy
def test_a_worker_that_is_killed(cluster, run, tmp_path, somebodys):
    name, folder = somebodys
    remote = answer(run(f"{name}:dies", ("sst", "schema"), output=tmp_path / "remote", engine="ray"))
    assert (folder / "died").exists()
    local = answer(run(f"{name}:dies", ("sst", "schema"), output=tmp_path / "local"))
    assert contents(remote) == contents(local)


@pytest.mark.heavy
def test_an_example_that_kills_every_worker_fails_alone(cluster, run, somebodys, home):
    name, folder = somebodys
    poison = [id for id in Store(home).ids("sst", "validation") if id.endswith(".7")]
    assert len(poison) == 1
    report = run_plan(plan_run(run(f"{name}:poisoned", engine="ray")))
    assert (report.tallies[0].answered, report.tallies[0].failed) == (31, 1)
    assert report.tallies[0].commonest_error == "the worker died 3 times while answering this question"
    assert (folder / "deaths").read_text() == "x" * 5  # twice with its batch, three times alone
    failed = [json.loads(line) for line in next(iter(journals(report.folder).values())) if '"error"' in line]
    assert [line["id"] for line in failed] == poison


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("what", "sentence"),
    [
        ("short", "questions in sst. Return a list with one text"),
        ("number", "returned 1 for a question in sst. Answers must be strings"),
        ("broken", r"failed on sst after 0 answers \(OSError: no weights\)"),
        ("here", "is not a predictor. A predictor must have a method predict"),
    ],
)
def test_errors_on_workers_have_the_same_message_as_in_this_process(
    cluster, run, tmp_path, somebodys, what, sentence
):
    said = []
    for engine in ("local", "ray"):
        with pytest.raises(DecabenchError, match=sentence) as error:
            answer(run(f"{somebodys[0]}:{what}", engine=engine))
        said.append((type(error.value).__name__, str(error.value)))
        assert not (tmp_path / "s").exists()
    assert said[0] == said[1]


@pytest.mark.heavy
def test_more_workers_than_there_is_room_for(cluster, run):
    with pytest.raises(DecabenchError, match="--workers 500 is more than the cluster's CPUs allow"):
        answer(run("majority", engine="ray", workers=500))


def test_a_model_that_wants_a_gpu(cluster):
    with pytest.raises(DecabenchError, match=r"requires 1 GPU, but no machine"):
        lay_out(None, 1.0)
