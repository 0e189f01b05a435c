"""Tasks of recordings: models read the measurements as they are, learn from them, and every fault is named."""

import json
import sys

import numpy as np
import pytest

from tests.sources import ROOT

torch = pytest.importorskip("torch", reason="torch is not installed: pip install 'decabench[models]'")

sys.path.insert(0, str(ROOT / "tools"))
import make_recording_tasks as recordings

import decabench
from decabench.vectors.vector_files import open_vectors


def write_folder(folder, tagged=False, counts=(120, 20, 40), kind="npy", regions=5):
    """Recordings whose label is the sign of one region, over all of the time or at each point."""
    random = np.random.default_rng(0)
    folder.mkdir()
    lines = ["file,split,labels,subject"]
    for split, count in zip(recordings.SPLITS, counts, strict=True):
        for number in range(count):
            signs = random.choice([-1, 1], 6 if tagged else 1)
            series = random.normal(size=(6, regions))
            series[:, 1] = np.abs(series[:, 1]) * signs + 4
            labels = " ".join("high" if sign > 0 else "low" for sign in signs)
            name = f"{split}-{number}.{kind}"
            if kind == "npy":
                np.save(folder / name, series)
            else:
                np.savetxt(folder / name, series, delimiter="," if kind == "csv" else "\t")
            lines.append(f"{name},{split},{labels},{split}-{number // 2}")
    (folder / "recordings.csv").write_text("\n".join(lines) + "\n")
    return folder


@pytest.mark.parametrize("tagged", [False, True], ids=["labels", "tags"])
def test_models_learn_from_the_measurements(tmp_path, tagged, capsys):
    write_folder(tmp_path / "Motor", tagged)
    write_folder(tmp_path / "memory", tagged, kind="csv")
    out, home = tmp_path / "out", tmp_path / "home"
    recordings.main([str(out), str(tmp_path / "Motor"), str(tmp_path / "memory"), "--scale", "training"])
    assert "motor: 120 train, 20 validation, 40 test; 5 regions" in capsys.readouterr().out
    include = [out / "motor.toml", out / "memory.toml", out / "suite.toml"]
    decabench.prepare(["motor", "memory"], home=home, include=include)
    decabench.train(
        tmp_path / "run",
        config=out / "train.toml",
        settings={"epochs": 6, "learning_rate": 0.01, "model.hidden": 16},
        home=home,
        include=include,
        device="cpu",
        report=lambda text: None,
    )
    decabench.predict(
        f"trained:{tmp_path / 'run'}", tmp_path / "submission", ["motor", "memory"], "test", home, include
    )
    found = decabench.evaluate(
        tmp_path / "submission", suite="recordings", split="test", home=home, include=include
    )
    assert found.total.score > 90, "the label follows from one region"


def test_a_point_in_time_is_a_word_with_its_measurements(tmp_path):
    folder = write_folder(tmp_path / "motor", counts=(2, 1, 0), kind="tsv")
    recordings.main([str(tmp_path / "out"), str(folder), "--scale", "none"])
    (row, _) = (tmp_path / "out" / "motor.train.jsonl").read_text().splitlines()
    words = json.loads(row)["points"].split()
    given = np.loadtxt(folder / "train-0.tsv", delimiter="\t")
    vectors = open_vectors(str(tmp_path / "out" / "vectors.npy"))
    np.testing.assert_allclose(vectors.rows([f" {word} " for word in words]), given, rtol=1e-6)


def test_scales(tmp_path):
    tasks = {"motor": recordings.read_task(write_folder(tmp_path / "motor"))}
    for series in recordings.scale(tasks, "recording")["motor"]:
        np.testing.assert_allclose(series.mean(0), 0, atol=1e-5)
        np.testing.assert_allclose(series.std(0), 1, atol=1e-5)
    scaled = recordings.scale(tasks, "training")["motor"]
    training = np.concatenate(scaled[:120])
    np.testing.assert_allclose((training.mean(0), training.std(0)), ([0] * 5, [1] * 5), atol=1e-4)
    assert abs(np.concatenate(scaled[120:]).mean()) > 1e-4, "other recordings do not count"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda text: text.replace("train-3.npy,train", "train-3.npy,training"),
            "line 5: the split is 'training'",
        ),
        (lambda text: text.replace("train-3.npy", "../train-3.npy"), "outside the task's folder"),
        (lambda text: text.replace("train-3.npy", "other.npy"), "No such file"),
        (lambda text: text.replace("train-3.npy", "words.csv"), "line 5: could not convert"),
        (lambda text: text.replace("train-3.npy", "objects.npy"), "allow_pickle=False"),
        (lambda text: text.replace("train-3.npy", "gaps.csv"), "no finite numbers"),
        (lambda text: text.replace("train-3.npy", "wide.csv"), "recordings have 2, 5 regions"),
        (lambda text: text.replace("train,high", "train,high low"), "2 labels for 6 points in time"),
        (lambda text: text.replace("train,high", "train,1 2 3 4 5 6"), "some one for each point"),
        (
            lambda text: text.replace(",validation-0", ",train-0"),
            "subject train-0 is in train and in validation",
        ),
        (lambda text: text.replace(",train,", ",test,"), "no recording is for training"),
        (lambda text: text.replace("split", "part"), "the columns file, split and labels"),
        (lambda text: text.replace("npy,train", "npy,x"), "and 15 more faults"),
    ],
)
def test_faults(tmp_path, change, message):
    folder = write_folder(tmp_path / "motor", counts=(20, 4, 0))
    (folder / "words.csv").write_text("a,b\n")
    (folder / "gaps.csv").write_text("1,nan\n")
    (folder / "wide.csv").write_text("1,2\n")
    np.save(folder / "objects.npy", np.array([{}], dtype=object), allow_pickle=True)
    table = folder / "recordings.csv"
    table.write_text(change(table.read_text()))
    with pytest.raises(SystemExit) as caught:
        recordings.main([str(tmp_path / "out"), str(folder)])
    assert message in str(caught.value)
    assert not (tmp_path / "out").exists()
