"""What answers cost, and a run that stops at a cost and continues."""

import pytest

import decabench
from decabench.errors import DecabenchError, ModelError
from decabench.predictors import ModelOptions
from decabench.runs.plan import Selection
from decabench.runs.write import predict
from decabench.submission import read_metadata
from tests.predictors.openai.openai_server import Say, chat, serving

PRICES = {"price_in": 100_000, "price_out": 1_000_000}  # an answer of 7 tokens in and 3 out costs 3.7


def test_a_run_stops_at_its_cost_and_continues(home, tmp_path, command):
    def run(server, most=None):
        settings = {"options": ModelOptions(model="org/m", concurrency=1), "selection": Selection(10)}
        settings |= {**PRICES, "max_cost": most}
        return predict(f"openai:{server.url}", tmp_path / "s", "sst", home=home, **settings)

    with serving(lambda seen: chat("<answer>positive</answer>")) as server:
        asked = []
        for _ in range(2):
            with pytest.raises(ModelError, match="because --max-cost is 15"):
                run(server, 15)
            asked.append(len(server.seen))
        assert asked[0] == asked[1] and 5 <= asked[0] <= 7  # the fifth reached 18.5, others were on their way
        assert not (tmp_path / "s" / "submission.toml").exists()
        run(server)
    assert len(server.seen) == 10
    info, _ = read_metadata(tmp_path / "s")
    usage = {"prompt_tokens": 70, "completion_tokens": 30, "cost": 37.0}
    assert info.predictor["usage"] == {"sst.validation": usage}
    assert (
        "Tokens: 70 in, 30 out, at a cost of 37.00."
        in command("evaluate", tmp_path / "s", "--home", home).stdout
    )


def test_tokens_of_reasoning_are_counted(home, tmp_path, command):
    """Also by a second run, which reads them from the journal."""
    say = chat("<answer>positive</answer>", reasoning_content="hm")
    say.body["usage"]["completion_tokens_details"] = {"reasoning_tokens": 2}
    with serving(lambda seen: say) as server:
        for _ in range(2):
            settings = {"options": ModelOptions(model="m"), "selection": Selection(4)}
            predict(f"openai:{server.url}", tmp_path / "s", "sst", home=home, **settings)
    assert len(server.seen) == 4
    assert (
        "Tokens: 28 in, 12 out (8 for reasoning)."
        in command("evaluate", tmp_path / "s", "--home", home).stdout
    )


def test_replies_without_tokens_have_no_cost(home, tmp_path):
    options = ModelOptions(model="m", concurrency=1)
    with serving(lambda seen: Say({"choices": [{"message": {"content": "x"}}]})) as server:
        with pytest.raises(DecabenchError, match="--max-cost requires token counts"):
            decabench.predict(
                f"openai:{server.url}",
                tmp_path,
                "sst",
                home=home,
                options=options,
                price_in=1.0,
                max_cost=1.0,
            )
