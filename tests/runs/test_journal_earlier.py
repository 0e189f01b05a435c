"""Journals that an earlier version wrote: the same runs still find them, read them and continue from them.

The files in `earlier/` were written at commit c14178a by `decabench predict --tasks sst --limit 8 --seed 3` on the
sample, for majority, random and `annotating_model:model`; the digests are of the submissions that the same commit made
of them without the limit, and the fingerprints are those that it gave to other runs. They may change only where
formats do, or the rules: with versions 2 to 6 of the extraction a submission has another fingerprint, but its journal
keeps its name, and its texts are extracted again; requests to chat servers have stop strings now, so their journals
changed; and submission.toml has the tokens of a predictor that counts them.
"""

from __future__ import annotations

import hashlib
import shutil
import sys
from pathlib import Path

import pytest

import decabench
from decabench.predictors.protocol import ModelOptions
from decabench.runs.plan import ALL_VARIANTS, Prompts, Run, plan_run
from decabench.runs.write import run_plan
from decabench.tasks.registry import TASKS
from decabench.tasks.store import Store

EARLIER = Path(__file__).parent / "earlier"


@pytest.fixture(autouse=True)
def version(monkeypatch: pytest.MonkeyPatch) -> None:
    """The version is part of what a submission and a baseline's journal say."""
    monkeypatch.setattr(decabench, "__version__", "0.1.0")
    monkeypatch.syspath_prepend(EARLIER)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    monkeypatch.delitem(sys.modules, "annotating_model", raising=False)


def sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.mark.parametrize(
    ("predictor", "journal", "resumed", "failed", "metadata", "predictions"),
    [
        (
            "majority",
            "sst.validation.8da3b392e1be.jsonl",
            8,
            0,
            "420fbeb1d2a52e709f1ea52a050172f70e82229622cbc1843d15cf939b5d39dd",
            "0e2f8e5b1bc534c62b9674bf840aa35f93473fa262803c459a10cd85b3e98683",
        ),
        (
            "random",
            "sst.validation.c028cfe72781.jsonl",
            8,
            0,
            "f5bf8c897d22bf2cdaf1296069b38c66aab6501ad867f29437a6cba81d0f1830",
            "0e7e0f741f814dffd9f9b75d12c7c74eaac2b2ecdaa0da21224601604c0454ac",
        ),
        (
            "annotating_model:model",
            "sst.validation.8f32d1477735.jsonl",
            7,
            4,
            "00c4a95c725ffec0607fee6dec311a5ae222a7259a6bf05e2906783359e403ac",
            "0e1a3ea2976bb242b6e1e6ae179a8dc52a4712a1c87f3ec7d65842cb2ac09cec",
        ),
    ],
)
def test_a_journal_is_continued(
    home: Path,
    tmp_path: Path,
    predictor: str,
    journal: str,
    resumed: int,
    failed: int,
    metadata: str,
    predictions: str,
) -> None:
    copy = tmp_path / "s" / "journal" / journal
    copy.parent.mkdir(parents=True)
    shutil.copy(EARLIER / journal, copy)
    options = ModelOptions(seed=3)
    run = Run(predictor, [TASKS["sst"]], "validation", tmp_path / "s", Store(home), options=options)
    (tally,) = run_plan(plan_run(run)).tallies
    assert (tally.total, tally.resumed, tally.failed) == (32, resumed, failed)
    assert sha256(tmp_path / "s" / "submission.toml") == metadata
    assert sha256(tmp_path / "s" / "predictions" / "sst.validation.jsonl") == predictions
    assert copy.read_bytes().startswith((EARLIER / journal).read_bytes())
    assert [path.name for path in copy.parent.glob("*.jsonl")] == [journal]


def test_a_journal_is_written_in_the_same_bytes(home: Path, tmp_path: Path) -> None:
    run = Run(
        "annotating_model:model",
        [TASKS["sst"]],
        "validation",
        tmp_path / "s",
        Store(home),
        options=ModelOptions(seed=3),
    )
    run_plan(plan_run(run))
    name = "sst.validation.8f32d1477735.jsonl"
    written = (tmp_path / "s" / "journal" / name).read_text(encoding="utf-8").split("\n")
    earlier = (EARLIER / name).read_text(encoding="utf-8").removesuffix("\n").split("\n")
    assert written[1 : len(earlier)] == earlier[1:]
    day = '"begun":"2026-11-22"'
    assert written[0].partition('"begun":')[0] == earlier[0].partition(day)[0]
    assert written[0].partition('","predictor":')[2] == earlier[0].partition('","predictor":')[2]


SERVER = "openai:http://localhost:8000/v1"
SERVED = ModelOptions(model="m")
SAMPLED = ModelOptions(model="m", api="completions", temperature=0.5, top_p=0.9, max_new_tokens=7, seed=5)


@pytest.mark.parametrize(
    ("predictor", "tasks", "settings", "fingerprint", "journals"),
    [
        (
            "lead-3",
            ("sst", "woz.en"),
            {},
            "84323a415f6ba70c9957734a855567eba1c0d108a69b4221259f093827f1a09e",
            ["sst.validation.654da51b60e3.jsonl", "woz.en.validation.946724ec65e3.jsonl"],
        ),
        (
            "oracle",
            ("sst",),
            {"split": "test", "options": ModelOptions(seed=7)},
            "3ea191bdcd07f2cca657c538daeb960194f855cc0bc925ca772a3bbefdfa8aba",
            ["sst.test.d3af8bfb37ac.jsonl"],
        ),
        (
            "majority",
            ("sst",),
            {"variant": ALL_VARIANTS},
            "0407f4c7fae07b1cd00c453136a9e31011e03b4f05c1c83b174c5ed790b700ae",
            [
                "sst.validation.57810ec6e78b.jsonl",
                "sst.validation.variant1.a75a7166f9ea.jsonl",
                "sst.validation.variant4.17bf9d031fde.jsonl",
                "sst.validation.variant5.1e3ca00ce0b9.jsonl",
                "sst.validation.variant6.2fa88b970cdf.jsonl",
            ],
        ),
        (  # retired since, and the same run
            "majority",
            ("sst",),
            {"variant": 2},
            "a6e03102ff52657e22151b34b097388d47afea61c6aa10e87637e2919f5fce61",
            ["sst.validation.variant2.2aaf8b961d3e.jsonl"],
        ),
        (
            "majority",
            ("sst",),
            {"variant": 3},
            "a779bae0fe0ec17ebc96a6ca1403e8c855c8723f914657606e3c485fb71b5da7",
            ["sst.validation.variant3.faa9f377e22b.jsonl"],
        ),
        (
            "majority",
            ("sst",),
            {"extract": True, "options": ModelOptions(revision="v2")},
            "59c6a70cdbd4cb814853101514b43254dc155c22731bae8311b9bf808174ca09",
            ["sst.validation.6bf1620f6eb9.jsonl"],
        ),
        (
            SERVER,
            ("sst", "wikisql"),
            {"options": SERVED, "prompts": Prompts(protocol="prose")},
            "1f2c5789209e98c66ad9eb5a0d010e1f2abebb68009eb4ccfdb054964a23c4f6",
            ["sst.validation.2e825d26696b.jsonl", "wikisql.validation.dc23f68e8ab5.jsonl"],
        ),
        (
            SERVER,
            ("sst",),
            {"options": SAMPLED, "prompts": Prompts("plain", "Be brief.", 2, "prose"), "variant": 1},
            "9ef41227225429403ec2b7da81316139a7d4848f69d7aa57a2db78930a94a490",
            ["sst.validation.variant1.4e4d3c445899.jsonl"],
        ),
    ],
)
def test_fingerprints_and_names_of_journals(
    home: Path,
    tmp_path: Path,
    predictor: str,
    tasks: tuple[str, ...],
    settings: dict[str, object],
    fingerprint: str,
    journals: list[str],
) -> None:
    settings = {"split": "validation", **settings}
    chosen = [TASKS[name] for name in tasks]
    plan = plan_run(Run(predictor, chosen, output=tmp_path, store=Store(home), **settings))
    assert plan.predictor["fingerprint"] == f"sha256:{fingerprint}"
    assert [task.key.file_name for task in plan.tasks] == journals
