"""Requests apart from the prompt: stop strings, omitted or added parameters, and secret headers. Also waits and
failures that are reported to the user."""

from __future__ import annotations

import logging
from dataclasses import replace

import pytest

from decabench.errors import DecabenchError
from decabench.predictors.openai.server import backend
from decabench.predictors.protocol import Header, ModelOptions, parse_body
from decabench.runs.write import predict
from tests.predictors.asking import PROMPTING, outcomes, questions, setting
from tests.predictors.openai.conftest import Waits
from tests.predictors.openai.openai_server import Say, Seen, chat, fault, serving

SECRET = "hunter2-0123456789"
STOPS = ("\n\n", "\nReview:", "\nQuestion:")


def options(**given: object) -> ModelOptions:
    return ModelOptions(**{"model": "m", "retries": 0, **given})  # type: ignore[arg-type]


def body_of(**given: object) -> dict[str, object]:
    prompting = replace(PROMPTING, template=replace(PROMPTING.template, stop=STOPS))
    with serving(lambda seen: chat("fine")) as server:
        outcomes(backend(server.url, options(**given)), questions(1), setting(prompting))
    return server.seen[0].body


def test_a_chat_is_sent_the_stop_strings_but_an_empty_line() -> None:
    assert body_of()["stop"] == ["\nReview:", "\nQuestion:"]
    assert body_of(api="completions")["stop"] == list(STOPS)


@pytest.mark.parametrize("text", ["", "<think>The passage"])
def test_a_model_that_is_cut_while_it_reasons_gets_more_room(
    text: str, caplog: pytest.LogCaptureFixture
) -> None:
    def reply(seen: Seen) -> Say:
        return chat("fine") if seen.body["max_tokens"] > 16 else chat(text, "length", reasoning_content="Hm")

    with serving(reply) as server:
        found = outcomes(backend(server.url, options(concurrency=1)), questions(2), setting(PROMPTING))
        limits = [seen.body["max_tokens"] for seen in server.seen]
        named = outcomes(backend(server.url, options(max_new_tokens=9)), questions(1), setting(PROMPTING))
    assert [answer.text for answer in found.values()] == ["fine", "fine"]
    assert sorted(limits) == [16, 16, 16 + 4_096, 16 + 4_096]
    # The server counted 7 and 3 tokens for each request, and both requests cost.
    assert {(each.prompt_tokens, each.completion_tokens) for each in found.values()} == {(14, 6)}
    assert sum("--max-new-tokens" in line for line in caplog.messages) == 1
    assert [answer.finish for answer in named.values()] == ["length"]


def test_parameters_can_be_left_out() -> None:
    body = body_of(omit=("temperature", "seed", "stop"))
    assert not {"temperature", "seed", "stop"} & set(body) and body["max_tokens"] == 16
    described = backend("http://x/v1", options(omit=("seed", "temperature"))).describe()
    assert described["omitted"] == ["seed", "temperature"] and not {"seed", "temperature"} & set(described)
    for omitted, given in ("temperature", 0.5), ("top_p", 0.5), ("max_tokens", 5):
        option = "max_new_tokens" if omitted == "max_tokens" else omitted
        with pytest.raises(DecabenchError, match=f"--{option.replace('_', '-')} contradict each other"):
            backend("http://x/v1", options(omit=(omitted,), **{option: given}))
    with pytest.raises(DecabenchError, match=r"--omit must be one of temperature, .*, not model"):
        options(omit=("model",))


def test_more_parameters_are_sent_and_recorded() -> None:
    body = parse_body('{"top_k": 1, "reasoning": {"effort": "low"}}')
    sent = body_of(body=body)
    assert sent["top_k"] == 1 and sent["reasoning"] == {"effort": "low"} and sent["seed"] == 0
    assert backend("http://x/v1", options(body=body)).describe()["body"] == {
        "top_k": 1,
        "reasoning": {"effort": "low"},
    }
    with pytest.raises(DecabenchError, match=r"can't set temperature \(--temperature\)"):
        backend("http://x/v1", options(body='{"temperature":1}'))
    for text in ("[1]", "{", '{"a": 1, "a": 2}'):
        with pytest.raises(ValueError):
            parse_body(text)


@pytest.mark.parametrize("say", [401, 400, 500, 200, 404, 429])
def test_a_header_that_the_server_echoes_is_in_no_file_log_or_error(
    home,
    tmp_path,
    capfd,
    caplog,
    say: int,  # type: ignore[no-untyped-def]
) -> None:
    caplog.set_level(logging.DEBUG)
    echo = f"got x-key: {SECRET}"
    given = options(header=(Header("x-key", f"Token {SECRET}"),))
    with serving(lambda seen: chat(f"positive {SECRET}") if say == 200 else fault(say, echo)) as server:
        try:
            predict(f"openai:{server.url}", tmp_path / "s", ("sst",), home=home, options=given)
        except DecabenchError as error:
            assert SECRET not in str(error)
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert not [path for path in files if SECRET.encode() in path.read_bytes()]
    assert files or say in (401, 404)
    shown = capfd.readouterr()
    assert SECRET not in shown.out + shown.err + caplog.text


def test_a_long_wait_is_announced(waits: Waits, caplog: pytest.LogCaptureFixture) -> None:

    def respond(seen: object) -> Say:
        return fault(429, "slow down", {"Retry-After": "37"}) if waits.time < 37 else chat("fine")

    with serving(respond) as server:
        made = backend(server.url, options(retries=2, concurrency=1))
        outcomes(made, questions(2))
    said = [record.getMessage() for record in caplog.records if record.name == "decabench"]
    assert said == [
        'The server answered with status 429: "slow down"; sending no requests for 37 s, as it requested.'
    ]


def test_an_effort_is_sent_and_leaves_room_for_reasoning():
    with serving(lambda seen: chat("yes")) as server:
        for effort, most in (("high", 16 + 4_096), ("none", 16), (None, 16)):
            made = backend(server.url, ModelOptions(model="m", reasoning_effort=effort))
            outcomes(made, questions(1))
            assert server.seen[-1].body.get("reasoning_effort") == effort
            assert server.seen[-1].body["max_tokens"] == most
            assert made.describe().get("reasoning_effort") == effort
