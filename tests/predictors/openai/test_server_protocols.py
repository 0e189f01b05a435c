"""Likelihoods and schemas from servers, and the fallback if a server refuses a protocol."""

from __future__ import annotations

import json
import tomllib

import pytest

from decabench.errors import DecabenchError
from decabench.predictors.protocol import ModelOptions
from decabench.runs.plan import Prompts, Run, plan_run
from decabench.runs.write import run_plan
from decabench.tasks.registry import TASKS
from decabench.tasks.store import Store
from tests.predictors.openai.openai_server import Say, chat, fault, serving


@pytest.fixture
def run(home, tmp_path):
    def make(server, protocol, task="sst", **options):
        given = ModelOptions(model="m", retries=0, concurrency=1, **{"api": "completions", **options})
        prompts = Prompts(protocol=protocol, choices_by="characters" if protocol == "choices" else "sum")
        made = Run(
            f"openai:{server.url}",
            [TASKS[task]],
            "validation",
            tmp_path / "s",
            Store(home),
            options=given,
            prompts=prompts,
        )
        run_plan(plan_run(made))
        lines = (tmp_path / "s" / "predictions" / f"{task}.validation.jsonl").read_text().splitlines()
        return [json.loads(line) for line in lines], tomllib.loads(
            (tmp_path / "s" / "submission.toml").read_text()
        )

    return make


def likelihoods(body):
    """Echo prompts like vLLM: one token per word, -1 for a final `negative`, and one more token."""
    made = []
    for at, prompt in enumerate(body["prompt"]):
        *words, last = prompt.split(" ")
        tokens = [words[0], *(f" {word}" for word in words[1:]), f" {last}", " and"]
        values = [None, *[-2.0] * (len(words) - 1), -1.0 if last == "negative" else -1.5, -9.0]
        made.append({"index": at, "text": "", "logprobs": {"tokens": tokens, "token_logprobs": values}})
    usage = {"prompt_tokens": 20, "completion_tokens": 2}
    return Say({"model": "m", "system_fingerprint": "fp_1", "choices": made[::-1], "usage": usage})


def test_the_likeliest_label_is_the_answer_and_all_scores_are_kept(run):
    with serving(lambda seen: likelihoods(seen.body)) as server:
        lines, metadata = run(server, "choices")
    assert {line["answer"] for line in lines} == {"negative"} and {line["rule"] for line in lines} == {
        "choices"
    }
    negative, positive = lines[0]["choices"]["negative"], lines[0]["choices"]["positive"]
    assert (negative["sum"], positive["sum"], negative["tokens"]) == (-1.0, -1.5, -1.0)
    assert negative["characters"] == -0.125 and negative["unconditional"] == 0.0
    assert negative["probability"] + positive["probability"] == pytest.approx(1)
    predictor = metadata["predictor"]
    assert (predictor["protocol"], predictor["choices_by"]) == ("choices", "characters")
    assert predictor["served_by"]["sst.validation"] == ["m (fp_1)"]
    # A request for each of the 32 questions, and at least one for the labels without a prompt
    usage = predictor["usage"]["sst.validation"]
    assert usage["prompt_tokens"] == 10 * usage["completion_tokens"] >= 33 * 20


def test_a_filtered_prompt_counts_as_refused(run):
    filtered = fault(400, "The response was filtered.", code="content_filter", param="prompt")
    with serving(lambda seen: filtered if seen.number % 8 == 0 else likelihoods(seen.body)) as server:
        lines, _ = run(server, "choices")
    assert len(lines) == 32 and {line["answer"] for line in lines} == {"negative", ""}
    assert all((line.get("finish") == "refused") == (not line["answer"]) for line in lines)


@pytest.mark.parametrize(
    "refusal",
    [fault(400, "Only no echo is supported"), Say({"choices": [{"text": "positive", "logprobs": None}]})],
)
def test_a_server_without_likelihoods_is_asked_for_a_tag_and_that_is_said_once(run, refusal, caplog):
    with serving(
        lambda seen: (
            refusal
            if "echo" in seen.body
            else Say({"choices": [{"text": "positive</answer>", "finish_reason": "stop"}]})
        )
    ) as server:
        lines, _ = run(server, "choices")
        asked = [seen.body for seen in server.seen]
    assert {(line["answer"], line["rule"]) for line in lines} == {("positive", "tag")}
    assert sum("echo" in body for body in asked) <= 4 and asked[-1]["prompt"].endswith("Answer: <answer>")
    assert sum("doesn't support echo" in text for text in caplog.messages) == 1


def llama_cpp_python(body, adds_bos=True):
    """Reply as llama-cpp-python 0.3.36 does: no lists of prompts, and shifted values unless the tokenizer adds BOS.

    A token's true value is minus its length, and minus 9 for the generated token.
    """
    if isinstance(body["prompt"], list):
        return fault(500, "internal_server_error")
    words = body["prompt"].split(" ")
    tokens = [words[0], *(f" {word}" for word in words[1:]), "\n"]
    values = [None, *(-float(len(token)) for token in tokens[1:-1]), -9.0]
    if not adds_bos:
        tokens, values = tokens[:-1], [None, *values[2:]]
    logprobs = {"tokens": tokens, "token_logprobs": values}
    return Say({"choices": [{"index": 0, "text": body["prompt"] + "\n", "logprobs": logprobs}]})


def test_a_server_that_rejects_lists_of_prompts_is_asked_for_each_label(run, caplog):
    with serving(lambda seen: llama_cpp_python(seen.body)) as server:
        lines, _ = run(server, "choices")
        lists = sum(isinstance(seen.body["prompt"], list) for seen in server.seen)
    assert {line["rule"] for line in lines} == {"choices"} and lists <= 2 and not caplog.messages
    assert {name: score["sum"] for name, score in lines[0]["choices"].items()} == {
        "negative": -9.0,
        "positive": -9.0,
    }


def test_shifted_log_probabilities_are_not_used(run, caplog):
    def reply(seen):
        if "echo" in seen.body:
            return llama_cpp_python(seen.body, adds_bos=False)
        return Say({"choices": [{"text": "positive</answer>", "finish_reason": "stop"}]})

    with serving(reply) as server:
        lines, _ = run(server, "choices")
    assert {(line["answer"], line["rule"]) for line in lines} == {("positive", "tag")}
    assert ["shifted by a token" in text for text in caplog.messages] == [True]


def test_a_schema_is_sent_and_its_answer_is_read(run):
    with serving(lambda seen: chat('{"answer": "positive"}')) as server:
        lines, _ = run(server, "json", api="chat")
        body = server.seen[0].body
    assert {(line["answer"], line["rule"]) for line in lines} == {("positive", "json")}
    schema = body["response_format"]["json_schema"]["schema"]
    assert schema["properties"]["answer"]["enum"] == ["negative", "positive"]
    assert "as JSON" in body["messages"][-1]["content"]


def test_a_server_without_schemas_is_asked_in_older_ways_and_then_for_a_tag(run, caplog):
    refused = fault(400, "Unrecognized request argument supplied")
    known = ("response_format", "structured_outputs", "guided_json")
    with serving(
        lambda seen: (
            refused if any(name in seen.body for name in known) else chat("<answer>positive</answer>")
        )
    ) as server:
        lines, _ = run(server, "json", api="chat")
        forms = [seen.body.get("response_format", {}).get("type") for seen in server.seen]
    assert {(line["answer"], line["rule"]) for line in lines} == {("positive", "tag")}
    assert sum("doesn't support" in text for text in caplog.messages) == 4
    assert forms.index("json_schema") < forms.index("json_object")


def test_chats_have_no_likelihoods(run):
    with (
        serving(lambda seen: chat("positive")) as server,
        pytest.raises(DecabenchError, match=r"protocol choices with the chat API\. Add --api completions"),
    ):
        run(server, "choices", api="chat")
