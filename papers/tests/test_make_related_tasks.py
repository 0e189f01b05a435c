import json

import numpy as np
import pytest

from papers import make_related_tasks as related


def test_tasks_agree_as_often_as_they_should():
    """The agreement is r + (1 - r) / TAGS within 4 standard errors, over many families."""
    relatedness = (1.0, 0.9, 0.5, 0.2, 0.0, 0.7, 0.3)
    found = [
        related.draw_tasks(np.random.default_rng(seed), 3, relatedness, 0.0).agreement for seed in range(400)
    ]
    expected = np.array(relatedness) + (1 - np.array(relatedness)) / related.TAGS
    cells = 400 * related.WORDS * related.KINDS
    error = 4 * np.sqrt(expected * (1 - expected) / cells) + 1e-12
    for one, two in ((0, 1), (0, 2), (1, 2)):
        assert (np.abs(np.mean(found, 0)[one, two] - expected) <= error).all()
    assert (np.mean(found, 0)[0, 0] == 1).all()


def test_texts_follow_the_tables():
    family = related.draw_tasks(np.random.default_rng(0), 2, related.LESS_RELATED, 0.2)
    exact = related.RelatedTasks(family.tables, family.relatedness, 0.0)
    random, right = np.random.default_rng(1), []
    for _ in range(400):
        words, tags = related.draw_text(random, family, 1)
        assert len(words) == len(tags) == 28
        segments = ["abcdefg".index(word[0]) for word in words]
        assert all(len(set(segments[at : at + 4])) == 1 for at in range(0, 28, 4))
        assert sorted(segments[::4]) == list(range(7))
        before = 0
        for segment, word, tag in zip(segments, words, tags, strict=True):
            right.append(tag == f"T{family.tables[1, segment, int(word[1:]), before % 2]}")
            before = int(word[1:])
    error = 4 * 100 * np.sqrt(0.85 * 0.15 / len(right))
    assert abs(100 * np.mean(right) - family.ceiling) < error
    assert family.ceiling == pytest.approx(85)
    assert exact.ceiling == 100


def test_the_seed_decides(tmp_path):
    for name, seed in (("one", "3"), ("two", "3"), ("three", "4")):
        related.main([str(tmp_path / name), "--texts", "5", "--seed", seed])
    files = sorted(path.name for path in (tmp_path / "one").iterdir())
    assert len(files) == 3 * (3 + 1) + 3
    for name in files:
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()
    name = "related.1.train.jsonl"
    assert (tmp_path / "one" / name).read_bytes() != (tmp_path / "three" / name).read_bytes()


def test_the_tasks_can_be_prepared(command, tmp_path):
    pytest.importorskip("torch")
    related.main([str(tmp_path), "--texts", "6", "--tasks", "2", "--relatedness", "1,1,1,1,1,1,0"])
    truth = json.loads((tmp_path / "truth.json").read_text())
    assert truth["relatedness"] == [1, 1, 1, 1, 1, 1, 0]
    assert np.array(truth["agreement"])[0, 1, :6].tolist() == [1] * 6
    names = ("related.1", "related.2")
    include = [part for name in (*names, "suite") for part in ("--include", str(tmp_path / f"{name}.toml"))]
    home = ("--home", tmp_path / "home")
    done = command("prepare", *names, *include, *home)
    assert done.exit_code == 0, done.output
    quick = ("--set", "epochs=1", "--set", "model.extension=rmn", "--device", "cpu")
    done = command(
        "train", "--config", tmp_path / "train.toml", "--output", tmp_path / "run", *quick, *include, *home
    )
    assert done.exit_code == 0, done.output
    done = command(
        *("predict", "--predictor", "most-frequent-tag", "--suite", "related", "--output", tmp_path / "out"),
        *include,
        *home,
    )
    assert done.exit_code == 0, done.output
