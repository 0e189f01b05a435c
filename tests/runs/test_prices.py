"""What answers cost, and a run that stops at a cost and continues."""

import pytest

import decabench
from decabench.errors import DecabenchError, ModelError
from decabench.predictors import ModelOptions
from decabench.runs.plan import Prices, Selection, read_prices
from decabench.runs.write import predict
from decabench.submission import read_metadata
from tests.predictors.openai.openai_server import Say, chat, serving

PRICES = '["org/m"]\nin = 100_000\nout = 1_000_000\n'  # an answer of 7 tokens in and 3 out costs 3.7


def test_a_run_stops_at_its_cost_and_continues(home, tmp_path, command):
    (tmp_path / "prices.toml").write_text(PRICES)

    def run(server, most=None):
        settings = {"options": ModelOptions(model="org/m", concurrency=1), "selection": Selection(10)}
        prices = {"prices": str(tmp_path / "prices.toml"), "max_cost": most}
        return predict(f"openai:{server.url}", tmp_path / "s", "sst", home=home, **settings, **prices)

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


def test_a_small_cost_is_not_shown_as_zero(home, tmp_path, command):
    with serving(lambda seen: chat("<answer>positive</answer>")) as server:
        settings = {"options": ModelOptions(model="org/m"), "selection": Selection(10)}
        predict(f"openai:{server.url}", tmp_path / "s", "sst", home=home, **settings, price_in=2, price_out=3)
    assert "70 in, 30 out, at a cost of 0.0002." in command("evaluate", tmp_path / "s", "--home", home).stdout


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


def test_prices(tmp_path):
    path = tmp_path / "prices.toml"
    path.write_text(PRICES)
    assert read_prices(path, "org/m") == Prices(100_000, 1_000_000)
    with pytest.raises(DecabenchError, match=r"no price in .* for the model 'm2'"):
        read_prices(path, "m2")
    path.write_text('[m]\nin = "free"\nper = 3\n')
    with pytest.raises(DecabenchError, match="3 faults"):
        read_prices(path, "m")


def test_a_missing_price_file_stops_a_run_before_it_asks(home, tmp_path):
    with serving(lambda seen: chat("<answer>positive</answer>")) as server:
        with pytest.raises(DecabenchError, match=r"prices\.toml"):
            options = ModelOptions(model="m")
            prices = str(tmp_path / "prices.toml")
            predict(f"openai:{server.url}", tmp_path / "s", "sst", home=home, options=options, prices=prices)
    assert not server.seen
