"""`decabench vectors`: training vectors from text."""

import json

import numpy as np
import pytest

pytest.importorskip("torch", reason="needs the extra train")

from decabench.commands.vectors import ngrams
from decabench.vectors.vector_files import open_vectors


@pytest.fixture
def corpus(command, tmp_path):
    """Options for a task with two groups of words that never occur together and differ only in their endings."""
    random = np.random.default_rng(0)
    stems = ["wal", "tal", "kic", "jum", "pus", "hel", "loo", "cal"]
    kinds = [[stem + ending for stem in stems] for ending in ("king", "ness")]
    texts = [" ".join(random.choice(kinds[n % 2], 12)) for n in range(200)]
    rows = [{"text": text, "answer": text.split()[0]} for text in texts]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (tmp_path / "made.toml").write_text(
        'format = "decabench.taskfile/1"\nname = "made"\nmetric = "em"\nanswer = "answer"\n'
        'question = "?"\ncontext = "{text}"\n[files]\ntrain = "rows.jsonl"\nvalidation = "rows.jsonl"\n'
    )
    options = ("--home", tmp_path / "home", "--include", tmp_path / "made.toml")
    done = command("prepare", "made", *options)
    assert done.exit_code == 0, done.output
    return ("--tasks", "made", *options)


@pytest.fixture
def train(command, corpus):
    """Train n-gram vectors on that task and write them to a file."""
    pytest.importorskip("torch").set_num_threads(1)
    small = ("--dimension", 12, "--steps", 300, "--batch", 128, "--window", 2, "--frequent", 0)
    return lambda output, *more: command("vectors", "ngrams", *corpus, *small, "--output", output, *more)


def margin(path):
    """Return how much closer words with the same ending and context are than words with the same stem."""
    rows = open_vectors(str(path)).rows([" pusking ", " helking ", " pusness ", " zulking "])
    one, alike, other, unseen = (row / np.linalg.norm(row) for row in rows)
    return min(one @ alike - one @ other, unseen @ one - unseen @ other)


def test_words_of_like_form_and_use_are_near(train, tmp_path):
    trained, begun = tmp_path / "n.safetensors", tmp_path / "begun.safetensors"
    done = train(trained)
    assert done.exit_code == 0, done.output
    assert done.stderr == ""  # without a terminal, there is no progress bar
    assert done.stdout.count("\n") == 1
    assert (
        f"n-grams of dimension 12 to {trained}, trained on 2,601 tokens (17 distinct) of 1 task in"
        in done.stdout
    )
    assert train(begun, "--steps", 50).exit_code == 0
    assert margin(trained) > 0.4
    assert margin(begun) < 0.1


def test_a_model_trains_with_them(train, command, home, tmp_path):
    path = tmp_path / "n.safetensors"
    assert train(path, "--steps", 2).exit_code == 0
    settings = (
        *(f'vectors=["none:8","{path}"]', "model.dimension=8", "model.hidden=6", "model.layers=1"),
        *("steps=1", "train_examples=4", "validation_examples=2", "batch_tokens=200", "warmup=1"),
    )
    done = command(
        *("train", "--home", home, "--device", "cpu", "--output", tmp_path / "run", "--tasks", "schema"),
        *(part for setting in settings for part in ("--set", setting)),
    )
    assert done.exit_code == 0, done.output


def test_files_are_replaced_only_where_that_is_asked_for(train, tmp_path):
    path = tmp_path / "n.safetensors"
    assert train(path, "--steps", 1).exit_code == 0
    before = path.read_bytes()
    again = train(path, "--steps", 2)
    assert again.exit_code == 2
    assert f"{path} already exists. Choose another file" in again.stderr
    assert path.read_bytes() == before
    assert train(path, "--steps", 2, "--force").exit_code == 0
    assert path.read_bytes() != before


def test_what_cannot_be_trained_is_a_sentence(train, tmp_path):
    path = tmp_path / "n.safetensors"
    short = train(path, "--examples", 1, "--window", 50)
    assert (short.exit_code, "are left to train on" in short.stderr) == (3, True)
    rare = train(path, "--minimum", 1_000)
    assert (rare.exit_code, "0 n-grams are left to train on" in rare.stderr) == (3, True)
    named = train(tmp_path / "n.bin")
    assert (named.exit_code, "must end with .safetensors" in named.stderr) == (2, True)
    assert not path.exists()


def test_the_defaults_are_the_trainings_own():
    pytest.importorskip("torch")
    from decabench.vectors.skipgram import NgramTraining

    own = vars(NgramTraining())
    assert {option.name: option.default for option in ngrams.params if option.name in own} == own


def glove(folder, text="the 1 2\ncat -1 0.5\n"):
    (folder / "glove.txt").write_text(text)
    return folder / "glove.txt"


def test_converting(command, tmp_path):
    old, new = glove(tmp_path), tmp_path / "fast.npy"
    done = command("vectors", "convert", old, "--output", new)
    assert done.exit_code == 0, done.output
    assert done.stdout == f"Wrote 2 words of dimension 2 to {new} and {new.with_suffix('.txt')}.\n"
    words = [" the ", " cat ", " dog "]
    assert np.array_equal(open_vectors(str(new)).rows(words), open_vectors(str(old)).rows(words))
    again = command("vectors", "convert", old, "--output", new)
    assert (again.exit_code, "already exists" in again.stderr) == (2, True)
    assert command("vectors", "convert", old, "--output", new, "--force").exit_code == 0


def test_an_index_alone_is_not_replaced_either(command, tmp_path):
    (tmp_path / "fast.txt").write_text("mine\n")
    done = command("vectors", "convert", glove(tmp_path), "--output", tmp_path / "fast.npy")
    assert (done.exit_code, "fast.txt already exists" in done.stderr) == (2, True)
    assert (tmp_path / "fast.txt").read_text() == "mine\n"


def test_what_is_read_is_never_replaced(command, tmp_path):
    old = glove(tmp_path)
    before = old.read_text()
    done = command("vectors", "convert", old, "--output", old.with_suffix(".npy"), "--force")
    assert (done.exit_code, "would be overwritten by its own copy" in done.stderr) == (2, True)
    assert old.read_text() == before
    assert not old.with_suffix(".npy").exists()


def test_words_that_are_left_out_are_said(command, tmp_path):
    vectors = {"the": [1, 2, 0.5, 0], **{f"a\n{n}": [3, 4, 0.5, 1 + n] for n in range(7)}}
    content = {"dimensions": 2, "vectors": vectors}
    (tmp_path / "w.json").write_text(json.dumps(content, separators=(",", ":")))
    done = command("vectors", "convert", tmp_path / "w.json", "--output", tmp_path / "v.npy")
    assert done.exit_code == 0, done.output
    assert "Wrote 1 word of dimension 2" in done.stdout
    assert "Left out 7 words with line breaks or invalid text: 'a\\n0', " in done.stdout
    assert done.stdout.endswith("'a\\n4', ….\n")


@pytest.mark.parametrize(
    ("source", "code", "words"),
    [
        ("none:8", 3, "none:8 has no list of words"),
        ("glove", 3, "Unknown word vectors 'glove'"),
        ("charNgram.txt", 3, "has no list of words"),
    ],
)
def test_what_has_no_words(command, tmp_path, monkeypatch, source, code, words):
    if source.startswith("char"):
        pytest.importorskip("torch")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "charNgram.txt").write_text("2gram-ca 1 2\n")
    done = command("vectors", "convert", source, "--output", "v.npy")
    assert done.exit_code == code
    assert words in done.stderr
    assert not (tmp_path / "v.npy").exists()
