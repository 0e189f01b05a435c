import shutil

import numpy as np
import pytest
from click.testing import CliRunner

torch = pytest.importorskip("torch", reason="torch is not installed: pip install 'decabench[train]'")

from safetensors.torch import save

from decabench.cli import cli
from decabench.errors import DecabenchError
from decabench.models.checkpoint import Checkpoint, load_weights
from decabench.models.joint_many_task import JointManyTaskConfig
from decabench.models.portable import export_checkpoint
from decabench.tasks import TASKS, Question
from decabench.training.loop import run_training
from decabench.vectors.skipgram import NgramTraining, train_ngrams
from decabench.vectors.tokenizer import SPECIALS, Lexicon, tokenize
from decabench.vectors.vector_files import PACKAGES, open_vectors, write_ngram_vectors
from tests.training.conftest import change_record

TASK = TASKS["sst"]
ASKED = [
    Question("a", "is this positive or negative?", "a film of great charm"),
    Question("b", "is this good or bad?", "dull"),
]


@pytest.fixture
def glove(tmp_path, make_run):
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


@pytest.fixture
def remembering(make_run):
    model = JointManyTaskConfig(hidden=4, word_dimension=6, ngram_dimension=4, label_dimension=3)
    changes = {"model": model, "vectors": ("none:6",), "tasks": ("multinli.in.out",), "order": "sequence"}
    changes |= {"epochs": 2, "rate": "constant", "learning_rate": 0.1}

    def run(name, **more):
        return make_run(name, **(changes | {"optimizer": "sgd", "best_by": "last"} | more))

    run_training(run("trained"))
    return run


def snapshots(folder):
    return {name for name in load_weights(folder) if name.startswith("reference/")}


def test_an_export_has_nothing_that_only_training_needs(remembering, tmp_path):
    task = TASKS["multinli.in.out"]
    asked = [Question(str(at), "Premise or not?", f'Premise: "a {at}"\nHypothesis: "b"') for at in range(3)]
    saved = Checkpoint.open(tmp_path / "trained")
    assert snapshots(saved.folder)
    export_checkpoint(saved, tmp_path / "out", half=False)
    copy = Checkpoint.open(tmp_path / "out")
    own, all = load_weights(copy.folder), load_weights(saved.folder)
    assert own.keys() == all.keys() - snapshots(saved.folder)
    assert copy.load("cpu").answer(task, asked) == saved.load("cpu").answer(task, asked)
    # All else must be there all the same.
    values = {name: value for name, value in own.items() if name != "embed.words"}
    (tmp_path / "out" / "model.safetensors").write_bytes(save(values))
    forget_digests(tmp_path / "out")
    with pytest.raises(DecabenchError, match=r"Missing key.*embed\.words"):
        Checkpoint.open(tmp_path / "out").load("cpu")


def test_a_run_does_not_go_on_from_an_export(remembering, tmp_path):
    saved = Checkpoint.open(tmp_path / "trained")
    export_checkpoint(saved, tmp_path / "out", half=False)
    last = tmp_path / "trained" / saved.folder.relative_to(tmp_path / "trained")
    shutil.rmtree(last)
    shutil.copytree(tmp_path / "out", last)
    with pytest.raises(DecabenchError, match="can't be resumed"):
        run_training(remembering("trained", resume=True, epochs=3))


def forget_digests(folder):
    """Remove the digests of the files from a record, as a forger could."""
    change_record(folder, lambda record: record.pop("files"))


def test_a_weight_too_large_for_half_precision_is_kept(saved, tmp_path):
    path = saved.folder / "model.safetensors"
    weights = {name: value.clone() for name, value in load_weights(saved.folder).items()}
    largest = weights["generate.bias"]
    largest[0] = 70_000.0
    path.write_bytes(save(weights))
    forget_digests(saved.folder)
    export_checkpoint(Checkpoint.open(saved.folder), tmp_path / "half", half=True)
    assert torch.equal(load_weights(tmp_path / "half")["generate.bias"], largest)


def test_vectors_of_packages_can_be_left_out(make_run, glove, tmp_path, monkeypatch):
    monkeypatch.setitem(PACKAGES, "some-vectors", lambda: open_vectors(str(glove)))
    run = make_run("trained", steps=6, tasks=("sst",), vectors=("some-vectors", "none:3"))
    run_training(run)
    saved, copy = Checkpoint.open(run.output), tmp_path / "copy"
    arguments = ["export", "weights", str(run.output), "--output", str(copy), "--named-vectors", "--full"]
    told = CliRunner().invoke(cli, arguments)
    assert "without its vectors" in told.output and told.exit_code == 0
    assert {path.name for path in copy.iterdir()} == {
        "checkpoint.json",
        "model.safetensors",
        "vocabulary.json",
    }
    assert Checkpoint.open(copy).load("cpu").answer(TASK, ASKED) == saved.load("cpu").answer(TASK, ASKED)
    glove.write_text(glove.read_text(encoding="utf-8").replace("0", "1"), encoding="utf-8")
    with pytest.raises(DecabenchError, match="was trained with"):  # another version of the package
        Checkpoint.open(copy).load("cpu")


@pytest.fixture
def letters(tmp_path):
    words = [" good ", " film ", " charm ", " dull ", " positive "]
    text = np.random.default_rng(0).integers(0, len(words), 400).astype(np.int32) + len(SPECIALS)
    lexicon = Lexicon(words)
    made = train_ngrams(lexicon.words, text, NgramTraining(dimension=6, steps=3, minimum=1, frequent=0))
    path = tmp_path / "letters.safetensors"
    write_ngram_vectors(path, made)
    return path


def test_vectors_of_letters_are_exported(make_run, letters, glove, tmp_path):
    run = make_run("letters", steps=2, tasks=("sst",), vectors=(str(glove), str(letters), str(glove)))
    run_training(run)
    saved = Checkpoint.open(run.output)
    before = saved.load("cpu")
    export_checkpoint(saved, tmp_path / "out", half=False)
    glove.unlink()
    letters.unlink()
    after = Checkpoint.open(tmp_path / "out").load("cpu")
    assert after.answer(TASK, ASKED) == before.answer(TASK, ASKED)
    words = before.words.lexicon.words[: before.words.lexicon.size]
    np.testing.assert_array_equal(after.words.vectors.rows(words), before.words.vectors.rows(words))
    assert after.words.vectors.rows(["charms"]).any()  # a word in no vocabulary has n-grams of others


def test_the_command(saved, tmp_path):
    arguments = ["export", "weights", str(saved.folder), "--output", str(tmp_path / "out"), "--words", "3"]
    done = CliRunner().invoke(cli, arguments)
    assert done.exit_code == 0, done.output
    assert "MB, with vectors for" in done.output
    again = CliRunner().invoke(cli, arguments)
    assert again.exit_code == 2
    assert "is not empty" in again.output


def test_an_interrupted_export_is_done_again(saved, tmp_path, monkeypatch):
    out = tmp_path / "out"

    def interrupt(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr("decabench.models.portable.save", interrupt)
        export_checkpoint(saved, out)
    assert not out.exists()
    killed = tmp_path / ".decabench-out.abcd_123.tmp"
    killed.mkdir()
    out.mkdir()
    arguments = ["export", "weights", str(saved.folder), "--output", str(out)]
    assert CliRunner().invoke(cli, arguments).exit_code == 0
    assert not list(out.glob(".*")) and not killed.exists()
    assert len(Checkpoint.open(out).load("cpu").answer(TASK, ASKED)) == len(ASKED)
