"""Complete runs of `decabench predict` with a server: files that are written, and secrets that are not."""

import json
import shutil
import tomllib

import pytest

from decabench.errors import DecabenchError
from decabench.predictors.protocol import ModelOptions
from decabench.runs.plan import Run, plan_run
from decabench.runs.write import predict, run_plan
from decabench.scoring.evaluator import evaluate
from decabench.submission.answers import read_lines
from decabench.tasks.registry import TASKS
from decabench.tasks.store import Store
from tests.predictors.openai.openai_server import Say, chat, fault, serving

CANARY = "sk-canary/0123456789abcdef"


@pytest.fixture(autouse=True)
def key(monkeypatch):
    monkeypatch.setenv("DECABENCH_API_KEY", CANARY)


@pytest.fixture
def run(home, tmp_path):
    def answer(server, **options):
        given = ModelOptions(**{"model": "m", "retries": 0, **options})
        return predict(f"openai:{server.url}", tmp_path / "s", ("sst", "schema"), home=home, options=given)

    return answer


def test_the_key_is_in_no_file(run, tmp_path, capfd):
    """The server echoes the key in every third answer and in its errors."""
    echo = f"positive {CANARY}"

    def respond(seen):
        apart = {**chat("negative", reasoning_content=echo).body, "model": echo, "system_fingerprint": CANARY}
        says = [
            chat(echo),
            Say(apart),
            Say({**chat("", "content_filter").body, "model": CANARY}),
            fault(400, echo),
            fault(500, echo),
            Say(echo.encode()),
        ]
        return says[seen.number % len(says)]

    with serving(respond) as server:
        run(server)
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    written = b"".join(path.read_bytes() for path in files) + "".join(capfd.readouterr()).encode()
    assert server.seen[0].headers["Authorization"] == f"Bearer {CANARY}"
    assert b"canary" not in written and b"[key]" in written
    assert len(files) >= 5


def lines_of(folder):
    path = folder / "predictions" / "sst.validation.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_a_filtered_prompt_is_wrong_and_the_model_is_ranked(run, home):
    """Azure's filter refuses every eighth prompt. Each is sent once and scored as wrong, and the run is complete."""
    filtered = fault(400, "The response was filtered.", code="content_filter", param="prompt")
    with serving(lambda seen: chat("positive") if seen.number % 8 else filtered) as server:
        folder = run(server, concurrency=1)
        asked = len(server.seen)
        assert run(server) == folder and len(server.seen) == asked  # refused prompts are not retried
    golds = {example.id: example.answers[0] for example in Store(home).examples("sst", "validation")}
    lines = lines_of(folder)
    assert len(lines) == len(golds) and sum(line.get("finish") == "refused" for line in lines) == 4
    assert "incomplete" not in tomllib.loads((folder / "submission.toml").read_text())
    task = evaluate(folder, tasks=["sst"], home=home).tasks["sst"]
    right = sum(line["answer"] == golds[line["id"]] for line in lines)
    assert (task.status, task.answers["refused"]) == ("scored", 4)
    assert task.score == pytest.approx(100 * right / len(golds))


@pytest.mark.parametrize(
    ("say", "counts", "example"),
    [
        (chat(None, reasoning_content="It is praise."), {"only_reasoning": 32}, False),
        (chat("<think>It is praise.</think>"), {"only_reasoning": 32}, False),
        (chat(None, "length", reasoning="It is"), {"cut_reasoning": 32}, False),
        (chat("", "length"), {"cut_reasoning": 32}, False),
        (chat("<think>It is", "length"), {"cut_reasoning": 32}, False),
        (chat(""), {"empty": 32}, False),
        (chat("", "content_filter"), {"refused": 32}, False),
        (chat("Fine words, on the whole."), {"unparseable": 32}, True),
        (chat("positive", reasoning_content="It is praise."), {}, False),
    ],
)
def test_answers_that_are_none_are_counted_for_what_they_are(home, tmp_path, say, counts, example):
    """The message doesn't quote an empty answer or suggest changing the prompt."""
    with serving(lambda seen: say) as server:
        given = ModelOptions(model="m", retries=0)
        asked = Run(
            f"openai:{server.url}", [TASKS["sst"]], "validation", tmp_path / "s", Store(home), options=given
        )
        [tally] = run_plan(plan_run(asked)).tallies
    kinds = ("refused", "empty", "cut_reasoning", "only_reasoning", "unparseable")
    assert {kind: number for kind in kinds if (number := getattr(tally, kind))} == counts
    assert bool(tally.other_label_example) == example


def test_the_model_that_answered_is_recorded(run):
    def respond(seen):
        name = "m-2024-08-06" if seen.number % 2 else "m-2024-05-13"
        return Say(
            {
                **chat("positive", reasoning_content="It is praise.").body,
                "model": name,
                "system_fingerprint": "fp_1",
            }
        )

    with serving(respond) as server:
        folder = run(server)
        written = (folder / "submission.toml").read_bytes()
        shutil.rmtree(folder / "predictions")
        run(server)  # from the journal
    assert (folder / "submission.toml").read_bytes() == written
    served = tomllib.loads(written.decode())["predictor"]["served_by"]
    assert served.keys() == {"sst.validation", "schema.validation"}
    assert set(served["sst.validation"]) == {"m-2024-05-13 (fp_1)", "m-2024-08-06 (fp_1)"}
    assert {line["reasoning"] for line in lines_of(folder)} == {"It is praise."}
    assert {line.answer for line in read_lines(folder / "predictions" / "sst.validation.jsonl")} == {
        "positive"
    }


def test_a_run_that_stops_goes_on_where_it_was(run, home, tmp_path):
    """The key is refused in the middle of a run. Questions already answered are not asked again."""

    def respond(seen):
        return chat("positive") if seen.number < 20 else fault(401, "expired")

    with serving(respond) as server:
        port = int(server.url.split(":")[2].split("/")[0])
        with pytest.raises(DecabenchError, match="Set DECABENCH_API_KEY"):
            run(server, concurrency=1)
    assert not (tmp_path / "s" / "submission.toml").exists()
    with serving(lambda seen: chat("negative"), port) as again:
        run(again, concurrency=1)
    rows = [
        json.loads(line)
        for task in ("sst", "schema")
        for line in (tmp_path / "s" / "predictions" / f"{task}.validation.jsonl").read_text().splitlines()
    ]
    count = sum(len(list(Store(home).ids(task, "validation"))) for task in ("sst", "schema"))
    assert len(rows) == count and len(again.seen) == count - 20
    assert sum("positive" in (row["answer"], row.get("raw")) for row in rows) == 20
