"""New rules of extraction: a submission by the old ones is never added to, and its texts are not asked for again."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from decabench.predictors.protocol import ModelOptions
from decabench.runs import plan as planning
from decabench.runs.plan import Prompts, Run, plan_run
from decabench.runs.write import occupied_by, run_plan
from decabench.tasks.registry import TASKS
from decabench.tasks.store import Store
from tests.predictors.openai.openai_server import chat, serving


def test_texts_of_an_earlier_version_are_extracted_again(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serving(lambda seen: chat("positive\n\nReview: A bore.\nAnswer: negative")) as server:
        options = ModelOptions(model="m", retries=0)
        run = Run(
            f"openai:{server.url}",
            [TASKS["sst"]],
            "validation",
            tmp_path / "s",
            Store(home),
            options=options,
            prompts=Prompts(protocol="prose"),
        )
        monkeypatch.setattr(planning, "EXTRACTION_VERSION", 1)
        run_plan(plan_run(run))
        asked = len(server.asked)
        monkeypatch.undo()
        plan = plan_run(run)
        assert occupied_by(plan) == "holds the submission openai:m"  # refused without --force
        report = run_plan(plan)
    assert len(server.asked) == asked == report.tallies[0].resumed
    lines = (tmp_path / "s" / "predictions" / "sst.validation.jsonl").read_text().splitlines()
    assert {(json.loads(line)["answer"], json.loads(line)["rule"]) for line in lines} == {
        ("positive", "stop")
    }
    assert "extraction = 7" in (tmp_path / "s" / "submission.toml").read_text()
