"""Checkpoints that travel."""

import json

import numpy as np
import pytest
from click.testing import CliRunner

torch = pytest.importorskip("torch", reason="torch is not installed: pip install 'decabench[train]'")

from decabench.cli import cli
from decabench.errors import DecabenchError
from decabench.models.checkpoint import Checkpoint, export_checkpoint
from decabench.models.vector_files import join_vectors
from decabench.models.words import tokenize
from decabench.tasks import TASKS, Question
from decabench.training.loop import run_training

TASK = TASKS["sst"]
ASKED = [
    Question("a", "is this positive or negative?", "a film of great charm"),
    Question("b", "is this good or bad?", "dull"),
]


@pytest.fixture
def glove(tmp_path, make_run):
    """Vectors of the words of the training data, in GloVe's text form; the last word is in no example."""
    store = make_run("for its store").store
    texts = [text for row in store.read("sst", "train", ("question", "context")) for text in row.values()]
    words = sorted({token.strip() for text in texts for token in tokenize(text.lower())} - {""})
    values = np.random.default_rng(0).standard_normal((len(words) + 1, 6)).astype(np.float32)
    path = tmp_path / "folder of mine" / "glove.txt"
    path.parent.mkdir()
    lines = [
        f"{word} {' '.join(map(str, row))}" for word, row in zip([*words, "elsewhere"], values, strict=True)
    ]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


@pytest.fixture
def saved(make_run, glove):
    run = make_run("trained", steps=6, tasks=("sst",), vectors=(str(glove),))
    run_training(run)
    return Checkpoint.open(run.output)


def test_it_answers_as_before_without_the_files_it_was_trained_with(saved, glove, tmp_path):
    before = saved.load("cpu").answer(TASK, ASKED)
    made = export_checkpoint(saved, tmp_path / "out", half=False)
    glove.unlink()
    moved = tmp_path / "moved"
    (tmp_path / "out").rename(moved)
    assert Checkpoint.open(moved).load("cpu").answer(TASK, ASKED) == before
    assert made.size == sum(path.stat().st_size for path in moved.iterdir())


def test_half_precision_is_half_the_size_and_near(saved, tmp_path):
    whole, half = (export_checkpoint(saved, tmp_path / str(flag), half=flag) for flag in (False, True))
    assert half.size < 0.7 * whole.size
    models = [Checkpoint.open(tmp_path / str(flag)).load("cpu").network for flag in (False, True)]
    for one, two in zip(models[0].parameters(), models[1].parameters(), strict=True):
        assert two.dtype == torch.float32
        torch.testing.assert_close(one, two, rtol=1e-3, atol=1e-6)


def test_words_beyond_the_vocabulary_come_from_the_beginning_of_the_file(saved, glove, tmp_path):
    first = "wordthatcomesfirst"
    glove.write_text(f"{first} {' '.join('1' * 6)}\n" + glove.read_text(encoding="utf-8"), encoding="utf-8")
    record = saved.folder / "checkpoint.json"
    digest = join_vectors((str(glove),)).digest
    record.write_text(json.dumps({**json.loads(record.read_text()), "vectors": digest}))
    names = []
    for count in (0, 1, 100_000):
        export_checkpoint(Checkpoint.open(saved.folder), tmp_path / str(count), words=count)
        names.append((tmp_path / str(count) / "vectors.txt").read_text(encoding="utf-8").split("\n"))
    assert [first in words for words in names] == [False, True, True]
    assert ["elsewhere" in words for words in names] == [False, False, True]


def test_an_export_that_was_broken_off_is_made_again(saved, tmp_path):
    export_checkpoint(saved, tmp_path / "out")
    (tmp_path / "out" / "checkpoint.json").unlink()
    arguments = ["export", str(saved.folder), "--output", str(tmp_path / "out")]
    assert CliRunner().invoke(cli, arguments).exit_code == 0


def test_it_can_be_trained_further(saved, make_run, tmp_path):
    export_checkpoint(saved, tmp_path / "out")
    opened = Checkpoint.open(tmp_path / "out")
    run = make_run(
        "further",
        steps=2,
        tasks=("sst",),
        vectors=opened.vectors,
        init=str(opened.folder),
        model=opened.config,
    )
    assert run_training(run).step == 2


def test_it_names_no_folder(saved, tmp_path):
    export_checkpoint(saved, tmp_path / "out")
    record = (tmp_path / "out" / "checkpoint.json").read_text()
    assert "folder of mine" not in record
    assert json.loads(record)["exported_from"]["weights"] == saved.digest()


def test_vectors_of_letters_are_refused(make_run, tmp_path):
    run = make_run("letters", steps=1, vectors=("none:8",))
    run_training(run)
    with pytest.raises(DecabenchError, match="NoVectors are made from a word's letters"):
        export_checkpoint(Checkpoint.open(run.output), tmp_path / "out")


def test_the_command(saved, tmp_path):
    arguments = ["export", str(saved.folder), "--output", str(tmp_path / "out"), "--words", "3"]
    done = CliRunner().invoke(cli, arguments)
    assert done.exit_code == 0, done.output
    assert "MB, with vectors for" in done.output
    again = CliRunner().invoke(cli, arguments)
    assert again.exit_code == 2
    assert "is not empty: name another folder" in again.output


def test_a_small_network_with_wide_vectors_loads(make_run, glove):
    """The table of the words' vectors may be larger than twice the weights: it is stored apart from them."""
    wide = glove.with_name("wide.txt")
    lines = [f"{line} {'0.5 ' * 394}".strip() for line in glove.read_text(encoding="utf-8").splitlines()]
    wide.write_text("\n".join(lines) + "\n", encoding="utf-8")
    run = make_run("wide", steps=1, tasks=("sst",), vectors=(str(wide),))
    run_training(run)
    assert len(Checkpoint.open(run.output).load("cpu").answer(TASK, ASKED)) == len(ASKED)
