"""Servers that misbehave: retries, waiting times and error messages."""

import json
import logging
import socket
import threading
import time

import pytest

from decabench.errors import DecabenchError
from decabench.predictors.openai import client as openai_client
from decabench.predictors.openai.server import backend
from decabench.predictors.protocol import Answer, Failure, ModelOptions
from tests.predictors.asking import outcomes, questions, setting
from tests.predictors.openai.openai_server import Say, chat, fault, serving

CANARY = "sk-canary/0123456789abcdef"


def at(url, **options):
    return backend(url, ModelOptions(**{"model": "m", "concurrency": 1, **options}))


def in_turn(*says):
    """Give each of these responses once, in this order, and then good answers."""
    return lambda seen: says[seen.number] if seen.number < len(says) else chat("fine")


GARBAGE = (
    Say(b'{"choices": [{"mess'),
    Say([1, 2]),
    Say(b'{"choices": ' + b"[" * 100_000),
)


@pytest.mark.parametrize(
    "says",
    [
        *((say,) for say in GARBAGE),
        *((fault(status, "wait"),) for status in (408, 409, 425, 429, 500, 502, 503, 504, 529)),
        (Say(hangs_up=True),),
        (Say({"choices": []}, claims=100),),
        (fault(500, "a"), fault(500, "b")),
        (fault(429, "a"), Say(hangs_up=True), Say(b"{"), fault(503, "b"), Say(b"[]")),
    ],
)
def test_temporary_failures_are_retried(waits, says):
    with serving(in_turn(*says)) as server:
        found = outcomes(at(server.url), questions(1))
    assert found["q0"].text == "fine"
    assert len(server.seen) == len(says) + 1
    assert all(seen.body == server.seen[0].body for seen in server.seen)
    assert len(waits.slept) == len(says)


def test_waits_grow_and_are_random(waits):
    with serving(lambda seen: fault(500, "no")) as server:
        outcomes(at(server.url, retries=8), questions(1))
    bounds = [2, 4, 8, 16, 32, 60, 60, 60]
    assert len(waits.slept) == 8
    assert all(0 <= slept <= bound for slept, bound in zip(waits.slept, bounds, strict=True))
    assert len(set(waits.slept)) == 8


@pytest.mark.parametrize("status", [429, 503])
@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        ("7", 7),
        ("0.5", 0.5),
        ("Sat, 31 Jan 2026 12:00:42 GMT", 42),
        ("Sat, 31 Jan 2026 11:00:00 GMT", 0),
        ("86400", 600),
        ("-3", 0),
    ],
)
def test_retry_after(waits, status, header, seconds):
    with serving(in_turn(fault(status, "wait", {"Retry-After": header}))) as server:
        outcomes(at(server.url), questions(1))
    assert sum(waits.slept) == seconds


@pytest.mark.parametrize(
    "header",
    [
        "soon",
        "nan",
        "inf",
        "",
        "9" * 5000,
        "Sat, 31 Jan 99999999999999 12:00:42 GMT",
        "Sat, 31 Jan 2026 99:99:99 GMT",
    ],
)
def test_a_retry_after_that_says_nothing(waits, header):
    with serving(in_turn(fault(503, "wait", {"Retry-After": header}))) as server:
        outcomes(at(server.url), questions(1))
    assert len(waits.slept) == 1 and waits.slept[0] <= 2


def test_too_many_requests_pauses_all():
    """In real time: after status 429, no new request is sent until the pause is over."""

    def respond(seen):
        slow = Say(chat("fine").body, delay=0.15 if seen.number < 4 else 0)
        return slow if seen.number else fault(429, "slow down", {"Retry-After": "0.6"})

    with serving(respond) as server:
        found = outcomes(backend(server.url, ModelOptions(model="m", concurrency=4)), questions(12))
    assert all(isinstance(outcome, Answer) for outcome in found.values())
    early = [seen for seen in server.seen if seen.at < server.seen[0].at + 0.59]
    assert len(early) <= 4 and len(server.seen) == 13


def test_retries_are_limited(waits):
    with serving(lambda seen: fault(500, "out\nof \x1b[31mmemory " + "x" * 1000)) as server:
        found = outcomes(at(server.url, retries=2), questions(2))
    assert len(server.seen) == 6
    error = found["q0"].error
    assert error.startswith(
        'No answer after 3 tries: the server answered with status 500: "out of [31mmemory xxx'
    )
    assert error.isprintable() and 200 < len(error) < 300


def test_a_server_that_drips_is_given_up(waits):
    """Each byte arrives in time, but the reply never ends. The timeout applies to the whole reply."""
    stop = threading.Event()

    def drip(listener):
        connection, _ = listener.accept()
        with connection:
            connection.recv(65536)
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n")
            while not stop.wait(0.02):
                try:
                    connection.sendall(b" ")
                except OSError:
                    return

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=drip, args=(listener,))
        thread.start()
        begun = time.monotonic()
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/v1"
        found = outcomes(at(url, timeout=0.3, retries=0), questions(1))
        assert time.monotonic() - begun < 3
        stop.set()
        thread.join()
    assert "did not send a complete reply within 0.3 s" in found["q0"].error


def test_a_reply_without_end_is_given_up(waits, monkeypatch):
    monkeypatch.setattr(openai_client, "LARGEST_REPLY", 1 << 20)
    with serving(lambda seen: Say(b" " * (2 << 20))) as server:
        found = outcomes(at(server.url, retries=0), questions(1))
    assert found["q0"] == Failure("No answer after one try: the server sent a reply of more than 1 MiB.")


def test_an_unreachable_server_stops_the_run(waits):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/v1"
    with pytest.raises(
        DecabenchError, match=rf"^{url} never answered. After 2 tries, the server could not be reached"
    ) as caught:
        outcomes(at(url, retries=1), questions(5))
    assert str(caught.value).endswith("Check that the server is running.")
    assert len(waits.slept) <= 2  # the other questions were not tried


def test_a_server_that_dies_and_comes_back():
    """In real time, with answers from before, during and after the outage."""
    with serving(lambda seen: chat("before")) as server:
        port = int(server.url.split(":")[2].split("/")[0])
        made = backend(server.url, ModelOptions(model="m", concurrency=2, retries=20))
        opened = made.open()
        stream = opened.__enter__()(setting()).stream(questions(10))
        found = [next(stream) for _ in range(3)]
    found_later = []
    reader = threading.Thread(target=lambda: found_later.extend(stream))
    reader.start()
    time.sleep(0.3)
    with serving(lambda seen: chat("after"), port):
        reader.join(30)
        opened.__exit__(None, None, None)
    assert not reader.is_alive()
    assert sorted(id for id, _ in found + found_later) == [f"q{n}" for n in range(10)]
    assert {outcome.text for _, outcome in found + found_later} == {"before", "after"}


def test_max_completion_tokens_where_max_tokens_is_refused(waits):
    message = (
        "Unsupported parameter: 'max_tokens' is not supported with this model. "
        "Use 'max_completion_tokens' instead."
    )

    def respond(seen):
        if "max_tokens" in seen.body:
            return fault(400, message, param="max_tokens", code="unsupported_parameter")
        return chat("fine")

    with serving(respond) as server:
        found = outcomes(at(server.url), questions(3))
    assert all(outcome.text == "fine" for outcome in found.values())
    refused = [seen for seen in server.seen if "max_tokens" in seen.body]
    assert len(server.seen) == len(refused) + 3 and len(refused) < 3  # the rejected parameter is remembered
    assert server.seen[-1].body["max_completion_tokens"] == 16


@pytest.mark.parametrize("status", [401, 403])
def test_a_key_that_is_refused_stops_the_run(waits, monkeypatch, status):
    monkeypatch.setenv("DECABENCH_API_KEY", CANARY)
    with serving(lambda seen: fault(status, f"wrong key: {seen.headers['Authorization']}")) as server:
        with pytest.raises(DecabenchError, match="Set DECABENCH_API_KEY") as caught:
            outcomes(at(server.url), questions(3))
    assert server.seen[0].headers["Authorization"] == f"Bearer {CANARY}"
    assert len(server.seen) == 1
    assert "wrong key: Bearer [key]" in str(caught.value) and "canary" not in str(caught.value)


def test_the_key_appears_in_no_outcome_log_or_message(waits, monkeypatch, caplog, capfd, tmp_path):
    """The server echoes the key in every possible way, but no outcome, log or message contains it."""
    monkeypatch.setenv("DECABENCH_API_KEY", CANARY)
    caplog.set_level(logging.DEBUG)
    escaped = CANARY.replace("/", "\\/").encode()
    echoes = [
        fault(500, CANARY),
        fault(400, f"x{CANARY}x"),
        Say(b"no JSON: " + CANARY.encode()),
        Say(b'{"broken": "' + escaped + b'"'),
        Say({"detail": CANARY}, 422),
        chat(f"Your key is {CANARY}."),
        Say(b"", 429, {"Retry-After": "0", "X-Echo": CANARY}),
    ]
    with serving(lambda seen: echoes[seen.number % len(echoes)]) as server:
        made = at(server.url, retries=0)
        found = outcomes(made, questions(14))
    written = json.dumps([repr(found), made.describe(), repr(made), caplog.text, *capfd.readouterr()])
    assert len(server.seen) == 14 and server.seen[0].headers["Authorization"].endswith(CANARY)
    assert "canary" not in written
    assert "Your key is [key]." in written


def test_no_redirect_is_followed(waits, monkeypatch):
    monkeypatch.setenv("DECABENCH_API_KEY", CANARY)
    with serving(lambda seen: chat("stolen")) as other:
        headers = {"Location": f"{other.url}/chat/completions"}
        with serving(lambda seen: Say({}, 307, headers)) as server:
            with pytest.raises(DecabenchError, match=r"redirects to another URL \(status 307\)"):
                outcomes(at(server.url), questions(1))
        assert other.seen == []


MODELS = Say({"data": [{"id": "meta/llama-3-8b"}, {"id": "meta/llama-3-70b"}, {"id": "qwen"}]})


@pytest.mark.parametrize(
    ("model", "says"),
    [
        ("meta/lama-3-8b", "has no model meta/lama-3-8b. Did you mean meta/llama-3-8b, meta/llama-3-70b"),
        ("gpt-9", "has no model gpt-9. The server has meta/llama-3-8b, meta/llama-3-70b, qwen"),
        ("qwen", "although the server has the model qwen. Try --api completions"),
    ],
)
def test_a_model_that_the_server_does_not_have(waits, model, says):
    def respond(seen):
        return MODELS if seen.path == "/v1/models" else fault(404, f"The model `{model}` does not exist.")

    with serving(respond) as server, pytest.raises(DecabenchError, match=says):
        outcomes(at(server.url, model=model), questions(3))
