"""Contexts are cut if they don't fit a server's limit, and cuts are always reported."""

from dataclasses import replace

import pytest

from decabench.predictors.openai.server import backend
from decabench.predictors.protocol import Answer, ModelOptions
from decabench.tasks.example import Question
from tests.predictors.asking import PROMPTING, outcomes, questions, setting
from tests.predictors.openai.openai_server import Say, fault, serving, words

pytestmark = pytest.mark.usefixtures("waits")

LONG = " ".join(f"word{number}" for number in range(1000))


def asked(server, context=LONG, **options):
    made = backend(server.url, ModelOptions(**{"model": "m", **options}))
    return outcomes(made, [Question("q0", "Question 0?", context)])["q0"]


def openai(limit, prompt, new):
    return fault(
        400,
        f"This model's maximum context length is {limit} tokens. However, you requested {prompt + new} tokens "
        f"({prompt} in the messages, {new} in the completion). Please reduce the length of the messages or completion.",
        code="context_length_exceeded",
        type="invalid_request_error",
    )


def vllm_at_least(limit, prompt, new):
    least = limit - new + 1
    return fault(
        400,
        f"This model's maximum context length is {limit} tokens. However, you requested {new} output tokens and your "
        f"prompt contains at least {least} input tokens, for a total of at least {limit + 1} tokens.",
        code=400,
    )


def old_llama_cpp(limit, prompt, new):
    message = "the request exceeds the available context size. try increasing the context size or enable context shift"
    return fault(500, message, code=500, type="invalid_request_error")


def in_a_good_reply(limit, prompt, new):
    return replace(openai(limit, prompt, new), status=200)


WORDINGS = [openai, vllm_at_least, old_llama_cpp, in_a_good_reply]


def with_room_for(limit, wording, per_word=2):
    """Return a server that counts this number of tokens per word."""

    def respond(seen):
        prompt, new = per_word * len(seen.prompt.split()), seen.body["max_tokens"]
        return wording(limit, prompt, new) if prompt + new > limit else words(prompt)

    return respond


@pytest.mark.parametrize("api", ["chat", "completions"])
@pytest.mark.parametrize("wording", WORDINGS)
def test_a_context_that_is_too_long_is_cut(wording, api):
    with serving(with_room_for(800, wording)) as server:
        found = asked(server, api=api)
    start, end = found.context_kept
    assert (found.text, start) == ("yes", 0)
    assert LONG[:end] in server.seen[-1].prompt and LONG[: end + 2] not in server.seen[-1].prompt
    assert LONG[end] == " "
    assert found.prompt_tokens <= 800 - 16
    if "least" not in wording.__name__ and "old" not in wording.__name__:
        assert found.prompt_tokens > 0.85 * (800 - 16)  # no more was cut than necessary
        assert len(server.seen) <= 4


@pytest.mark.parametrize("wording", [openai, old_llama_cpp])
def test_much_too_long(wording):
    with serving(with_room_for(100, wording)) as server:
        found = asked(server)
    assert isinstance(found, Answer)
    assert 0 < found.context_kept[1] < len(LONG) / 10


@pytest.mark.parametrize("wording", WORDINGS)
def test_no_room_even_without_the_context(wording):
    with serving(with_room_for(20, wording)) as server:
        found = asked(server)
    assert "without the context" in found.error or "The prompt is too long for the server" in found.error
    assert len(server.seen) <= 7


def test_max_prompt_tokens_is_by_the_servers_count():
    with serving(lambda seen: words(2 * len(seen.prompt.split()))) as server:
        found = asked(server, max_prompt_tokens=300)
    counted = [2 * len(seen.prompt.split()) for seen in server.seen]
    assert 200 < counted[-1] <= 300
    assert found.prompt_tokens == sum(counted)  # all requests cost tokens
    assert found.context_kept[1] < len(LONG)
    assert len(server.seen) <= 3


def test_max_prompt_tokens_without_a_count_is_a_guess():
    said = {"choices": [{"message": {"content": "yes"}}]}
    with serving(lambda seen: Say(said)) as server:
        found = asked(server, max_prompt_tokens=300)
    assert len(server.seen) == 1
    assert (
        1150 < len(server.seen[0].prompt) <= 1200 + 1
    )  # four characters per token, and the line break between turns
    assert found.context_kept == (0, found.context_kept[1])


def test_max_prompt_tokens_that_cannot_be_met():
    with serving(lambda seen: words(400)) as server:
        assert "without the context" in asked(server, "short", max_prompt_tokens=300).error
        found = asked(server, "", max_prompt_tokens=300)
    assert (
        found.error
        == "The prompt has 400 tokens even after the context was cut. --max-prompt-tokens allows 300."
    )


@pytest.mark.parametrize(("tokens", "is_answer"), [(2051, False), (6000, True), (None, True), (0, True)])
def test_a_server_that_cuts_the_prompt_and_does_not_say_so(tokens, is_answer):
    """Ollama replies with status 200, and reports half of its window as the number of tokens."""
    with serving(lambda seen: words(tokens)) as server:
        found = asked(server, " ".join([LONG] * 4))
    assert isinstance(found, Answer) == is_answer
    if not is_answer:
        assert "silently truncated the prompt" in found.error and "num_ctx" in found.error


def test_a_few_shots_stay_whole():
    from decabench.prompts.shots import Shot

    shots = tuple(Shot(f"s{n}", "Question?", "Some words", "yes") for n in range(3))
    prompting = replace(PROMPTING, shots=shots)
    with serving(with_room_for(800, openai)) as server:
        made = backend(server.url, ModelOptions(model="m"))
        found = outcomes(made, questions(1, LONG), setting(prompting))["q0"]
    assert found.context_kept is not None
    assert [turn["role"] for turn in server.seen[-1].body["messages"]] == [
        "system",
        *["user", "assistant"] * 3,
        "user",
    ]
