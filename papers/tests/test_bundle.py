import os
import subprocess
import sys

import numpy as np
import pytest

pytest.importorskip("torch")

from decabench.vectors.vector_files import write_matrix
from papers.__main__ import main

SETTINGS = ["steps=4", "validate_every=4", "validation_examples=4", "model.dimension=8", "model.hidden=8"]


@pytest.mark.heavy
@pytest.mark.slow
def test_a_bundle_trains_alone(home, tmp_path, capsys):
    words = ["the", "a", "film", "is", "good", "of"]
    vectors = tmp_path / "own.npy"
    write_matrix(vectors, words, np.random.default_rng(0).normal(size=(len(words), 8)).astype(np.float32))
    folder = tmp_path / "bundle"
    given = [f"--set={each}" for each in (*SETTINGS, f'vectors=["{vectors}"]')]
    main(["bundle", str(folder), "--tasks", "sst", "--home", str(home), *given])
    assert "decabench train --config config.toml" in capsys.readouterr().out
    vectors.unlink()
    command = ["train", "--config", "config.toml", "--home", "home", "--output", "run", "--device", "cpu"]
    environment = {**os.environ, "PYTHONPATH": str(folder / "site")}
    done = subprocess.run(
        [sys.executable, "-m", "decabench", *command],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert list((folder / "run" / "checkpoints").glob("step-*"))
    with pytest.raises(SystemExit, match="is not empty"):
        main(["bundle", str(folder), "--tasks", "sst", "--home", str(home)])
