"""A model behind a server: requests, answers and the number of simultaneous requests."""

import json
import pickle
import threading
import time
from dataclasses import replace

import pytest

from decabench.errors import DecabenchError
from decabench.predictors.openai.server import backend
from decabench.predictors.protocol import Answer, Backend, ModelOptions
from decabench.predictors.schemes import make_backend
from tests.predictors.asking import PROMPTING, outcomes, questions, setting
from tests.predictors.openai.openai_server import Say, chat, serving


def at(server, **options):
    return backend(server.url, ModelOptions(**{"model": "m", **options}))


def test_what_a_chat_is_asked():
    with serving(lambda seen: chat("fine")) as server:
        found = outcomes(at(server, temperature=0.7, top_p=0.9, seed=5), questions(1))
    assert found == {"q0": Answer("fine", prompt_tokens=7, completion_tokens=3)}
    [seen] = server.seen
    assert seen.path == "/v1/chat/completions"
    assert seen.body == {
        "model": "m",
        "messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "Some words\nQuestion 0?"},
        ],
        "temperature": 0.7,
        "top_p": 0.9,
        "seed": 5,
        "max_tokens": 16,
    }
    assert "Authorization" not in seen.headers


def test_what_completions_are_asked():
    said = {"choices": [{"text": " fine", "finish_reason": "stop"}]}
    with serving(lambda seen: Say(said)) as server:
        found = outcomes(at(server, api="completions", max_new_tokens=4), questions(1))
    assert found == {"q0": Answer(" fine")}
    [seen] = server.seen
    assert seen.path == "/v1/completions"
    assert seen.body == {
        "model": "m",
        "prompt": "Be brief.\n\nSome words\nQuestion 0?",
        "stop": ["\n\n"],
        "temperature": 0.0,
        "seed": 0,
        "max_tokens": 4,
    }


@pytest.mark.parametrize(
    ("say", "answer"),
    [
        (chat("  two\nlines "), Answer("  two\nlines ")),
        (chat("Größe 東京 🎉 \u2028"), Answer("Größe 東京 🎉 \u2028")),
        (chat("half \ud83d of a pair"), Answer("half \ufffd of a pair")),
    ],
)
def test_what_is_made_of_an_answer(say, answer):
    with serving(lambda seen: say) as server:
        [found] = outcomes(at(server), questions(1)).values()
    assert (found.text, found.finish) == (answer.text, answer.finish)


def test_the_choice_of_index_0_counts(caplog):
    """vLLM and TGI may send several choices in the order in which they were finished."""
    choices = [
        {"index": at, "message": {"content": text}, "finish_reason": "stop"}
        for at, text in ((1, "b"), (0, "a"))
    ]
    with serving(lambda seen: Say({"choices": choices})) as server:
        assert outcomes(at(server), questions(1))["q0"].text == "a"


@pytest.mark.parametrize("api", ["chat", "completions"])
@pytest.mark.parametrize(
    ("before", "answer", "is_said"),
    [
        ("{prompt}", " Rome", True),  # echo of vLLM and llama.cpp, return_full_text of TGI
        ("<s> {prompt}", "\nRome", True),
        ("", "Rome", False),
        ("Some words", " are in Rome", False),
    ],
)
def test_a_prompt_that_the_server_repeats_is_no_part_of_the_answer(caplog, api, before, answer, is_said):
    def say(seen):
        prompt = seen.body["prompt"] if api == "completions" else seen.body["messages"][-1]["content"]
        text = before.format(prompt=prompt) + answer
        return Say({"choices": [{"text": text, "finish_reason": "stop"}]})

    with serving(say) as server:
        found = outcomes(at(server, api=api), questions(1, "Some words, and then many more of them"))["q0"]
    assert found.text == (answer if is_said else before + answer)
    assert ("repeats the prompt" in caplog.text) == is_said


@pytest.mark.parametrize(
    ("tokens", "is_said"),
    [
        (lambda size: min(size // 4, 2048), True),  # Ollama, at its num_ctx
        (lambda size: size // 4, False),
        (lambda size: 0, False),
    ],
)
def test_a_server_that_cuts_long_prompts_without_a_word(caplog, tokens, is_said):
    def say(seen):
        usage = {"prompt_tokens": tokens(len(seen.prompt)), "completion_tokens": 1}
        return Say({"choices": [{"text": "a", "finish_reason": "stop"}], "usage": usage})

    asked = [
        replace(question, context="word " * (1_000 + 500 * number))
        for number, question in enumerate(questions(5))
    ]
    with serving(say) as server:
        outcomes(at(server, concurrency=1), asked)
    assert ("num_ctx" in caplog.text) == is_said


def completion(body, text):
    """Return a completion server's reply, which cuts the text that the model would write."""
    ends = [text.index(stop) for stop in body.get("stop", []) if stop in text]
    choice = {"text": text[: min(ends)] if ends else text, "finish_reason": "stop" if ends else "length"}
    return Say({"choices": [choice], "usage": {"prompt_tokens": 9, "completion_tokens": 1}})


@pytest.mark.parametrize(
    ("written", "answer", "asked"),
    [
        ("positive\n\nMore", Answer("positive"), 1),
        ("\n\npositive\n\nMore", Answer("\n\npositive"), 2),
        ("\n\n\npositive, and so on", Answer("\n\n\npositive, and so on", "length"), 2),
        ("\n\n\nReview: more", Answer("\n\n"), 2),  # only another example
        ("\nReview: more", Answer(""), 2),
    ],
)
def test_an_empty_line_ends_no_answer_before_it_begins(caplog, written, answer, asked):
    """The server stops at the template's empty line, and some models start with an empty line."""
    with serving(lambda seen: completion(seen.body, written)) as server:
        prompting = replace(PROMPTING, template=replace(PROMPTING.template, stop=("\n\n", "\nReview:")))
        found = outcomes(at(server, api="completions"), questions(1), setting(prompting))["q0"]
    assert (found.text, found.finish) == (answer.text, answer.finish)
    assert [seen.body["stop"] for seen in server.seen] == [["\n\n", "\nReview:"], ["\nReview:"]][:asked]
    assert ("begins its answers with an empty line" in caplog.text) == (asked == 2)


@pytest.mark.parametrize(
    ("asked", "served", "same"),
    [
        ("gpt-4o", "gpt-4o", True),
        ("gpt-4o", "gpt-4o-2024-08-06", True),
        ("gpt-4", "gpt-4-0613", True),
        ("mistral-small-latest", "mistral-small-2409", True),
        ("gemini-2.0-flash", "gemini-2.0-flash-001", True),
        ("llama3", "llama3:latest", True),
        ("Qwen/Qwen2.5-7B-Instruct", "/data/models/qwen2.5-7b-instruct", True),
        ("any", "Qwen2.5-7B-Instruct-Q4_K_M.gguf", True),
        ("meta-llama/llama-3-70b:free", "meta-llama/llama-3-70b", True),
        ("gpt-4o", "gpt-4o-mini", False),
        ("gpt-4o", "gpt-4o-mini-2024-07-18", False),
        ("gpt-4-0613", "gpt-4-0314", False),
        ("Mistral-7B-Instruct-v0.2", "Mistral-7B-Instruct-v0.3", False),
        ("llama3:8b", "llama3:70b", False),
        ("qwen2.5-7b", "qwen2.5-72b", False),
        ("m", "another-model-1b", False),
    ],
)
def test_another_model_than_the_one_that_was_asked_for(caplog, asked, served, same):
    body = {**chat("fine").body, "model": served, "system_fingerprint": "fp_1"}
    with serving(lambda seen: Say(body)) as server:
        found = outcomes(at(server, model=asked), questions(3))
    assert {outcome.served_by for outcome in found.values()} == {f"{served} (fp_1)"}
    warned = [record for record in caplog.records if "Check --model" in record.getMessage()]
    assert len(warned) == (0 if same else 1)  # once instead of once per answer


@pytest.mark.parametrize("concurrency", [1, 5])
def test_no_more_in_flight_than_allowed(concurrency):
    def respond(seen):  # the first requests wait for each other, however slowly they arrive
        return Say(chat("fine").body, delay=1.0 if seen.number < concurrency else 0.02)

    with serving(respond) as server:
        outcomes(at(server, concurrency=concurrency), questions(20))
    assert server.at_once == concurrency


def test_closing_cancels_what_is_in_flight_and_leaves_no_thread():
    before = set(threading.enumerate())
    release = threading.Event()

    def respond(seen):
        if seen.number:
            release.wait(60)
        return chat("fine")

    with serving(respond) as server:
        begun = time.monotonic()
        with at(server, concurrency=4).open() as make:
            stream = make(setting()).stream(questions(50))
            next(stream)
            stream.close()
        assert time.monotonic() - begun < 30
        assert not [thread for thread in threading.enumerate() if thread.name == "decabench-requests"]
        release.set()
        assert len(server.seen) <= 1 + 2 * 4  # each question may be retried if a connection breaks
    assert {thread for thread in threading.enumerate() if not thread.daemon} <= before


def at_nobody(**options):
    return backend("http://127.0.0.1:9/v1", ModelOptions(**{"model": "m", **options}))


def test_what_it_says_of_itself():
    options = ModelOptions(model="m", revision="2026-01", top_p=0.5, temperature=1.0, seed=3, concurrency=50)
    found = backend("https://example.org/v1/", options)
    assert isinstance(found, Backend) and found.prompted
    assert found.describe() == {
        "url": "https://example.org/v1",
        "model": "m",
        "api": "chat",
        "temperature": 1.0,
        "top_p": 0.5,
        "seed": 3,
        "revision": "2026-01",
        "stop": "template",
    }
    json.dumps(found.describe(), allow_nan=False)
    assert pickle.loads(pickle.dumps(found)) == found


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("", "begins with http"),
        ("localhost:8000/v1", "begins with http"),
        ("ftp://example.org/v1", "begins with http"),
        ("http://", "begins with http"),
        ("http://example.org:port/v1", "begins with http"),
        ("http://[::1/v1", "begins with http"),
        ("https://me:s3cret@example.org/v1", "contains a user name, a password"),
        ("https://s3cret@example.org/v1", "contains a user name, a password"),
        ("https://example.org/v1?key=s3cret", "a query or a fragment"),
        ("https://example.org/v1#s3cret", "a query or a fragment"),
        (
            "https://me.openai.azure.com/openai?api-version=2024-10-21",
            "RESOURCE.openai.azure.com/openai/v1 with",
        ),
    ],
)
def test_urls_that_are_refused(target, message):
    with pytest.raises(DecabenchError, match=message) as caught:
        backend(target, ModelOptions(model="m"))
    assert "s3cret" not in str(caught.value)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"model": None}, "requires --model NAME"),
        ({"dtype": "float16"}, "does not use --dtype"),
        ({"device": "cpu"}, "does not use --device"),
        ({"device_map": "auto"}, "does not use --device-map"),
        ({"batch_size": 8}, "does not use --batch-size"),
        ({"chat": True}, "does not use --chat"),
    ],
)
def test_options_that_are_refused(options, message):
    with pytest.raises(DecabenchError, match=message) as caught:
        make_backend("openai:http://127.0.0.1:9/v1", ModelOptions(**{"model": "m", **options}))
    assert caught.value.exit_code == 2
