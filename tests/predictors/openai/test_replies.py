"""What servers say of prompts that are too long, each in its own words, and of what they do not take."""

import json

import pytest

from decabench.predictors.openai.replies import Overflow, ServerReply, UnreadableReplyError, parse_answer


def reply(message, status=400, **error):
    return ServerReply(status, json.dumps({"error": {"message": message, **error}}))


@pytest.mark.parametrize(
    ("found", "limit", "prompt"),
    [
        (
            reply(
                "This model's maximum context length is 4097 tokens. However, you requested 5000 tokens (4900 in the "
                "messages, 100 in the completion). Please reduce the length of the messages or completion.",
                code="context_length_exceeded",
            ),
            4097,
            4900,
        ),
        (
            reply(
                "This model's maximum context length is 4097 tokens, however you requested 5000 tokens (4900 in your "
                "prompt; 100 for the completion). Please reduce your prompt; or completion length."
            ),
            4097,
            4900,
        ),
        (
            reply(
                "This model's maximum context length is 8,192 tokens. However, your messages resulted in 10,045 "
                "tokens. Please reduce the length of the messages."
            ),
            8192,
            10045,
        ),
        (
            reply(
                "'max_tokens' or 'max_completion_tokens' is too large: 2000. This model's maximum context length is "
                "4096 tokens and your request has 2104 input tokens (2000 > 4096 - 2104)."
            ),
            4096,
            2104,
        ),
        (
            reply(
                "This model's maximum context length is 128000 tokens. However, you requested 65535 output tokens "
                "and your prompt contains at least 62466 input tokens, for a total of at least 128001 tokens."
            ),
            128000,
            None,
        ),
        (reply("The decoder prompt (length 70) is longer than the maximum model length of 64."), 64, 70),
        (
            reply(
                "request (4476 tokens) exceeds the available context size (4096 tokens), try increasing it",
                type="exceed_context_size_error",
                n_prompt_tokens=4476,
                n_ctx=4096,
            ),
            4096,
            4476,
        ),
        (reply("the request exceeds the available context size, try increasing it", 500), None, None),
        (reply("prompt is too long: 208310 tokens > 200000 maximum"), 200000, 208310),
        (
            ServerReply(
                422,
                '{"error": "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4096. Given: 5000 '
                '`inputs` tokens and 100 `max_new_tokens`", "error_type": "validation"}',
            ),
            4096,
            5000,
        ),
        (ServerReply(400, '{"object": "error", "message": "maximum context length is 16 tokens"}'), 16, None),
        (ServerReply(400, "maximum context length is 16 tokens"), 16, None),
        (reply("Sorry", code="context_length_exceeded"), None, None),
    ],
)
def test_too_long(found, limit, prompt):
    assert found.overflow == Overflow(limit, prompt)


@pytest.mark.parametrize(
    "found",
    [
        reply("max_tokens must be at least 1"),
        reply("The server had an error"),
        ServerReply(400, ""),
        ServerReply(
            200,
            json.dumps({"choices": [{"message": {"content": "The maximum context length is 16 tokens."}}]}),
        ),
    ],
)
def test_not_too_long(found):
    assert found.overflow is None


@pytest.mark.parametrize(
    ("message", "parameter", "refused"),
    [
        ("Unsupported parameter: 'max_tokens' is not supported with this model.", "max_tokens", True),
        ("Unsupported value: 'temperature' does not support 0 with this model.", "temperature", True),
        ("Unknown field `seed`", "seed", True),
        ("'max_tokens' is too large: 5", "max_tokens", False),
        ("Unsupported parameter: 'seed'", "temperature", False),
    ],
)
def test_refuses(message, parameter, refused):
    assert reply(message).refuses(parameter) == refused


@pytest.mark.parametrize(
    "content",
    [
        {},
        {"choices": None},
        {"choices": []},
        {"choices": ["text"]},
        {"choices": [{}]},
        {"choices": [{"text": 5}]},
        {"choices": [{"message": {"content": {"a": 1}}}]},
        {"choices": [{"message": {"content": "half"}, "finish_reason": "error"}]},
    ],
)
def test_what_is_no_answer(content):
    with pytest.raises(UnreadableReplyError):
        parse_answer(content)


@pytest.mark.parametrize(
    "usage", [None, {}, {"prompt_tokens": "5"}, {"prompt_tokens": -1}, {"prompt_tokens": True}, []]
)
def test_tokens_that_were_not_counted(usage):
    assert parse_answer({"choices": [{"text": "a"}], "usage": usage}).prompt_tokens is None
