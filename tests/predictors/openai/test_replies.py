"""Messages of real servers about prompts that are too long, content filters and unsupported parameters."""

import json

import pytest

from decabench.predictors.openai.replies import Overflow, ServerReply


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
        (ServerReply(400, "maximum context length is 16 tokens"), 16, None),
        # LM Studio, in three versions
        (
            ServerReply(
                400,
                '{"error": "Trying to keep the first 5732 tokens when context the overflows. However, the model is '
                "loaded with context length of only 4096 tokens, which is not enough. Try to load the model with a "
                'larger context length, or provide a shorter input"}',
            ),
            4096,
            5732,
        ),
        (
            ServerReply(
                400,
                '{"error": "The number of tokens to keep from the initial prompt is greater than the context length '
                "(n_keep: 13055>= n_ctx: 4096). Try to load the model with a larger context length, or provide a "
                'shorter input."}',
            ),
            4096,
            13055,
        ),
        (ServerReply(400, '{"error": "Reached context length of 4096 tokens with this model"}'), 4096, None),
        # Gemini: a list, and nested text from its gateway for OpenAI's API
        (
            ServerReply(
                400,
                '[{"error": {"code": 400, "message": "The input token count (1200293) exceeds the maximum number of '
                'tokens allowed (1048576).", "status": "INVALID_ARGUMENT"}}]',
            ),
            1048576,
            1200293,
        ),
        (
            reply(
                '{"error": {"message": "The input token count exceeds the maximum number of tokens allowed 1048576."}}'
            ),
            1048576,
            None,
        ),
        (
            reply(
                "Unable to submit request because the input token count is 1100000 but model only supports up to "
                "1048576. Reduce the input token count and try again."
            ),
            1048576,
            1100000,
        ),
        # Bedrock
        (ServerReply(400, '{"message": "Input is too long for requested model."}'), None, None),
        # DeepInfra uses status 500
        (reply("Requested input length 99009 exceeds maximum input length 8192", 500), 8192, 99009),
        # Together
        (
            reply("The input (5000 tokens) is longer than the model's context length (4096 tokens).", 422),
            4096,
            5000,
        ),
        (
            ServerReply(
                422,
                '{"error": "Input validation error: `inputs` must have less than 2048 tokens. Given: 2100"}',
            ),
            2048,
            2100,
        ),
        # Cerebras
        (
            reply(
                "Please reduce the length of the messages or completion. Current length is 42328 while limit is 40000"
            ),
            40000,
            42328,
        ),
        # SGLang, in three versions
        (
            ServerReply(
                400,
                '{"object": "error", "message": "The input (61709 tokens) is longer than the model\'s context length '
                '(40960 tokens).", "type": "BadRequestError", "param": null, "code": 400}',
            ),
            40960,
            61709,
        ),
        (
            reply("Input length (160062 tokens) exceeds the maximum allowed length (59862 tokens)."),
            59862,
            160062,
        ),
        (
            reply(
                "Requested token count exceeds the model's maximum context length of 4096 tokens. You requested a "
                "total of 5000 tokens: 4900 tokens from the input messages and 100 tokens for the completion."
            ),
            4096,
            4900,
        ),
        # newer versions of vLLM
        (
            reply(
                "This model's maximum context length is 200 tokens. However, your request has 203 input tokens. Please "
                "reduce the length of the input messages."
            ),
            200,
            203,
        ),
        # Mistral
        (
            reply(
                "Prompt contains 40012 tokens and 0 draft tokens, too large for model with 32768 maximum context length"
            ),
            32768,
            40012,
        ),
        # DashScope
        (
            reply("<400> InternalError.Algo.InvalidParameter: Range of input length should be [1, 30720]"),
            30720,
            None,
        ),
        # Anthropic
        (
            reply(
                "input length and `max_tokens` exceed context limit: 188240 + 21333 > 200000, decrease input length or "
                "`max_tokens` and try again"
            ),
            200000,
            188240,
        ),
        # a proxy
        (ServerReply(413, "<html>413 Request Entity Too Large</html>"), None, None),
        # xAI, Moonshot, Zhipu, MiniMax, Cohere, OpenAI's newer models
        (
            reply("This model's maximum prompt length is 131072 but the request contains 537812 tokens."),
            131072,
            537812,
        ),
        (
            reply("Invalid request: Your request exceeded model token limit: 8192 (requested: 9100)"),
            8192,
            9100,
        ),
        (reply("Prompt exceeds max length", code="1261"), None, None),
        (reply("invalid params, context window exceeds limit (2013)"), None, None),
        (
            reply(
                "too many tokens: total number of tokens in the prompt cannot exceed 4081 - received 5000. Try using a "
                "shorter prompt."
            ),
            4081,
            5000,
        ),
        (
            reply(
                "Input tokens exceed the configured limit of 272000 tokens. Your messages resulted in 509178 tokens. "
                "Please reduce the length of the messages."
            ),
            272000,
            509178,
        ),
        # OpenRouter, which passes on other servers' messages
        (
            reply(
                "Provider returned error",
                metadata={"raw": "prompt is too long: 208310 tokens > 200000 maximum"},
            ),
            200000,
            208310,
        ),
    ],
)
def test_too_long(found, limit, prompt):
    assert found.overflow == Overflow(limit, prompt)


@pytest.mark.parametrize(
    "found",
    [
        reply("max_tokens must be at least 1"),
        reply("The server had an error"),
        reply("Reading your message took too long", 504),
        reply("Your request is taking too long", 504),
        reply("Extra inputs are not permitted", 422),
        reply("context deadline exceeded", 500),
        # Groq: a limit on tokens per minute, which cutting the context would hide
        reply(
            "Request too large for model `m` on tokens per minute (TPM): Limit 6000, Requested 7123, please reduce "
            "your message size and try again.",
            413,
            code="rate_limit_exceeded",
        ),
        ServerReply(400, ""),
        ServerReply(
            200,
            json.dumps({"choices": [{"message": {"content": "The maximum context length is 16 tokens."}}]}),
        ),
    ],
)
def test_not_too_long(found):
    assert found.overflow is None


SENT = ("temperature", "seed", "top_p", "stop", "max_tokens")


@pytest.mark.parametrize(
    ("found", "parameter"),
    [
        (reply("Unsupported parameter: 'max_tokens' is not supported with this model."), "max_tokens"),
        (reply("Unknown field `seed`"), "seed"),
        (reply("'max_tokens' is too large: 5"), ""),
        (reply("Unsupported parameter: 'logprobs'"), ""),
        (reply("Unsupported parameter: 'top_p'. Use temperature instead."), "top_p"),
        # Mistral: pydantic's errors in an object, in a text, and alone
        (
            ServerReply(
                422,
                '{"object": "error", "message": {"detail": [{"type": "extra_forbidden", "loc": ["body", "seed"], '
                '"msg": "Extra inputs are not permitted", "input": 0}]}, "code": null}',
            ),
            "seed",
        ),
        (
            ServerReply(
                422,
                json.dumps(
                    {
                        "message": '{"detail":[{"type":"extra_forbidden","loc":["body","stop"],"msg":"Extra inputs are '
                        'not permitted","input":["\\nReview:"]}]}'
                    }
                ),
            ),
            "stop",
        ),
        (
            ServerReply(
                422,
                '{"detail": [{"loc": ["body", "top_p"], "msg": "extra fields not permitted", "type": "value_error"}]}',
            ),
            "top_p",
        ),
        # Gemini
        (
            ServerReply(
                400,
                '[{"error": {"code": 400, "message": "Invalid JSON payload received. Unknown name \\"seed\\": Cannot '
                'find field.", "status": "INVALID_ARGUMENT"}}]',
            ),
            "seed",
        ),
        (reply("Argument not supported on this model: stop"), "stop"),  # xAI
        (reply("Unknown error: the server will stop"), ""),
        (
            reply("`temperature` and `top_p` cannot both be specified for this model."),
            "temperature",
        ),  # Anthropic
        (reply("Unsupported parameter: 'seed'", 500), ""),
    ],
)
def test_what_a_server_does_not_take(found, parameter):
    assert found.find_refused(SENT) == parameter


FILTERED = [  # the original messages of servers
    reply("litellm.ContentPolicyViolationError: AzureException", code="400"),
    reply("Input data may contain inappropriate content.", code="data_inspection_failed"),
    reply("Content Exists Risk", code="invalid_request_error"),
    reply("The request was rejected because it was considered high risk", type="content_filter", code=400),
    ServerReply(
        400, '{"error": {"code": "1301", "message": "系统检测到输入或生成内容可能包含不安全或敏感内容"}}'
    ),
    reply("Filtered.", code=1301),
    reply("Forbidden", 403, metadata={"reasons": ["violence"], "flagged_input": "…"}),
    reply("Provider returned error", 400, metadata={"raw": '{"error": {"code": "content_filter"}}'}),
    ServerReply(
        403,
        '{"code": "The caller does not have permission to execute the specified operation", "error": "Content violates '
        'usage guidelines. Team: t, API key ID: k, Model: m, Failed check: SAFETY_CHECK_TYPE_BIO"}',
    ),
    reply("The request may contain sensitive information.", code="SensitiveContentDetected"),
    reply("input contains sensitive words: [test]", 500, code="sensitive_words_detected"),
    reply("input new_sensitive (1026)", 500),
    ServerReply(
        200, '{"choices": null, "base_resp": {"status_code": 1027, "status_msg": "output new_sensitive"}}'
    ),
    ServerReply(200, '{"promptFeedback": {"blockReason": "PROHIBITED_CONTENT"}, "usageMetadata": {}}'),
    ServerReply(200, '{"choices": [], "promptFeedback": {"blockReason": "OTHER"}}'),
    ServerReply(200, '{"error": {"code": "content_filter", "message": "filtered"}, "choices": []}'),
    reply("blocked output: please adjust prompt and try again", 400),
    reply("Prompt blocked due to security configurations", 424, code=2016),
]


@pytest.mark.parametrize("found", FILTERED)
def test_filtered(found):
    assert found.is_filtered and found.overflow is None


@pytest.mark.parametrize(
    "found",
    [
        reply("Incorrect API key provided", 401, code="content_filter"),
        reply("Your project has been denied access", 403),
        reply("Access denied due to invalid subscription key or wrong API endpoint.", 403),
        reply("Access terminated. Review our Community Guidelines", 403, type="access_terminated_error"),
        # Azure: about the account, not about a prompt
        reply(
            "Your resource has been temporarily blocked because we detected behavior that may violate our content "
            "policy.",
            403,
        ),
        reply("No endpoints are available matching your guardrail restrictions and data policy", 404),
        reply("Rate limit reached for content_filter", 429),
        reply("The content filter is unavailable", 503),
        reply("Moderation service error", 500),
        reply("This request was blocked by your guardrail: the model is not on its list", 403),
        ServerReply(403, "<html>Blocked by the content filter of your company</html>"),
        reply("Invalid prompt: messages must not be empty", code="invalid_prompt"),
        ServerReply(
            422, '{"detail": [{"msg": "Extra inputs are not permitted", "input": "Content Exists Risk"}]}'
        ),
        ServerReply(200, '{"choices": [{"message": {"content": "Content Exists Risk"}}]}'),
        ServerReply(
            200, '{"choices": [], "prompt_filter_results": [{"content_filter_results": {"filtered": false}}]}'
        ),
    ],
)
def test_not_filtered(found):
    assert not found.is_filtered
