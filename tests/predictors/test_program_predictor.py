"""Programs that follow the protocol, and programs that don't."""

import json
import os
import re
import shlex
import sys
import threading
import time

import pytest

from decabench.errors import DecabenchError
from decabench.predictors import program as command_process
from decabench.predictors.program import backend
from decabench.predictors.protocol import Answer, Failure, ModelOptions
from decabench.tasks.example import Question
from tests.predictors.asking import outcomes, questions, setting
from tests.processes import is_running, wait_until

START = """
import json, os, signal, subprocess, sys, time
def say(id, answer="fine", **more):
    print(json.dumps({"id": id, "answer": answer, **more}), flush=True)
def ids():
    for line in sys.stdin:
        yield json.loads(line)["id"]
"""


@pytest.fixture
def program(tmp_path):
    """Return a backend for a program with this code."""

    def make(body, **options):
        path = tmp_path / "model.py"
        path.write_text(START + body)
        return backend(f"{shlex.quote(sys.executable)} -S {path}", ModelOptions(**options))

    return make


def fine(count):
    return {f"q{number}": Answer("fine") for number in range(count)}


def test_what_a_program_reads(program):
    body = """
for line in sys.stdin:
    row = json.loads(line)
    seen = {**row, **{name: os.environ[name] for name in os.environ if name.startswith("DECABENCH_")}}
    say(row["id"], json.dumps(seen))
"""
    question = Question("q0", "Größe?\n2", "東京 \ud83d")
    found = json.loads(outcomes(program(body, seed=3), [question])["q0"].text)
    expected = {
        "id": "q0",
        "question": "Größe?\n2",
        "context": "東京 \ud83d",
        "task": "sst",
        "split": "validation",
        "DECABENCH_TASK": "sst",
        "DECABENCH_SPLIT": "validation",
        "DECABENCH_SEED": "3",
    }
    assert expected.items() <= found.items()


def test_a_program_gets_no_keys_but_those_it_is_given(program, monkeypatch):
    """A program may be untrusted code, so it doesn't inherit keys from the environment."""
    secrets = (
        "OPENAI_API_KEY DECABENCH_API_KEY HF_TOKEN AWS_SECRET_ACCESS_KEY AWS_ACCESS_KEY_ID MYSQL_PWD PGPASSWORD MY_KEY "
        "GOOGLE_APPLICATION_CREDENTIALS DB_PASSWD API_KEYS SSH_AUTH_SOCK openai_key DECABENCH_HOME "
        "DECABENCH_PREDICT_HEADER"
    ).split()
    plain = "TOKENIZERS_PARALLELISM CUDA_VISIBLE_DEVICES HF_HOME OMP_NUM_THREADS KEYBOARD MAX_TOKENS".split()
    for name in (*secrets, *plain):
        monkeypatch.setenv(name, "1")
    monkeypatch.setenv("DATABASE_URL", "postgres://me:hunter2@db/x")
    body = "for id in ids(): say(id, ' '.join(os.environ))"
    found = outcomes(program(body, env=("HF_TOKEN",)), questions(1))["q0"].text.split()
    assert {*plain, "HF_TOKEN", "PATH", "DECABENCH_SEED"} <= set(found)
    assert not {*secrets, "DATABASE_URL"} - {"HF_TOKEN"} & set(found)
    with pytest.raises(
        DecabenchError, match=r"before it answered anything.*did not receive .*OPENAI_API_KEY.*--env"
    ):
        outcomes(program("sys.exit(1)", env=tuple(secrets[2:13])), questions(1))
    with pytest.raises(DecabenchError, match="is not set"):
        program(body, env=("NOT_THERE",))


PATIENCE = {
    "line by line": "for id in ids(): say(id)",
    "all at the end": "for id in list(ids()): say(id)",
    "backwards": "for id in reversed(list(ids())): say(id)",
    "in batches": """
batch = []
for id in ids():
    batch.append(id)
    if len(batch) == 7:
        for one in batch: say(one)
        batch = []
for one in batch: say(one)
""",
    "without a last newline": """
all_ids = list(ids())
sys.stdout.write("\\n\\n".join(json.dumps({"id": id, "answer": "fine"}) for id in all_ids))
""",
    "byte by byte": """
for id in ids():
    for byte in (json.dumps({"id": id, "answer": "fine"}) + "\\n").encode():
        os.write(1, bytes([byte]))
""",
}


@pytest.mark.parametrize("body", PATIENCE.values(), ids=PATIENCE.keys())
def test_programs_of_all_kinds(program, body):
    assert outcomes(program(body), questions(50)) == fine(50)


@pytest.mark.parametrize("body", [PATIENCE["line by line"], PATIENCE["all at the end"]])
def test_full_pipes_do_not_block(program, body):
    """Both directions and stderr carry far more data than the pipes can hold."""
    noisy = body.replace("say(id)", "print('x' * 5000, file=sys.stderr) or say(id, 'y' * 5000)")
    found = outcomes(program(noisy), questions(300, "z" * 5000))
    assert len(found) == 300 and all(outcome == Answer("y" * 5000) for outcome in found.values())


def test_one_process_a_task(program):
    body = "for id in ids(): say(id, f\"{os.getpid()} {os.environ['DECABENCH_TASK']}\")"
    with program(body).open() as make:
        found = [
            {outcome.text for _, outcome in make(setting(task=task)).stream(questions(3))}
            for task in ("sst", "squad")
        ]
    assert [len(texts) for texts in found] == [1, 1]
    (first,), (second,) = found
    assert first.split()[0] != second.split()[0]
    assert (first.split()[1], second.split()[1]) == ("sst", "squad")


def unusable(why):
    return Failure(f"Line 1 of the program's output can't be used: {why}.")


@pytest.mark.parametrize(
    ("line", "outcome"),
    [
        ({"answer": ""}, Answer("")),
        ({"answer": " a\nb "}, Answer(" a\nb ")),
        ({"answer": "a", "more": [1]}, Answer("a")),
        ({"answer": "A", "choices": ["A", "B"]}, Answer("A")),
        ({"answer": "a", "finish": "length"}, Answer("a", "length")),
        ({"answer": "a", "context_kept": [0, 4]}, Answer("a", context_kept=(0, 4))),
        ({"answer": "a", "context_kept": [0, 10]}, Answer("a")),
        (
            {"answer": "a", "prompt_tokens": 5, "completion_tokens": 1},
            Answer("a", prompt_tokens=5, completion_tokens=1),
        ),
        ({"answer": "\ud83d"}, Answer("\ufffd")),
        ({"error": "out of memory"}, Failure("The program reported: out of memory")),
        ({"answer": "a", "context_kept": None, "prompt_tokens": None}, Answer("a")),
        ({}, unusable("the line has no 'answer'; its keys are 'id'")),
        ({"answer": 5}, unusable("the answer must be a string, not 5")),
    ],
)
def test_one_line(program, line, outcome):
    body = f"for id in ids(): print(json.dumps({{'id': id, **{line!r}}}), flush=True)"
    assert outcomes(program(body), questions(1)) == {"q0": outcome}


_KEPT = "'context_kept' must be the start and end of the part that was kept, such as [0, 1234], but is "


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ({"finish": "eos"}, "'finish' must be one of stop, length, refused, but is 'eos'"),
        ({"context_kept": [0, 11]}, "context_kept is [0, 11], but the context has only 10 characters."),
        ({"prompt_tokens": "5"}, "'prompt_tokens' must be a whole number, but is '5'"),
        ({"completion_tokens": True}, "'completion_tokens' must be a whole number, but is True"),
    ],
)
def test_a_line_with_a_fault_is_a_failure_of_its_question(program, more, why):
    body = f"for id in ids(): say(id, **({more!r} if id == 'q1' else {{}}))"
    found = outcomes(program(body), questions(3))
    assert f"Line 2 of the program's output can't be used: {why}" in found["q1"].error
    assert found["q0"] == found["q2"] == Answer("fine")


@pytest.mark.parametrize(
    ("stray", "message"),
    [
        ("print('Loading model...')", r"Line 2 of the program's output is not JSON .*'Loading model...'"),
        ("print('[1, 2]')", "Line 2 of the program's output does not have the form"),
        ('print(\'{"answer": "a"}\')', "Line 2 of the program's output does not have the form"),
        ('print(\'{"id": 1, "answer": "a"}\')', "Line 2 .* does not have the form .*answer"),
        ("say('q0')", "Line 2 of the program's output answers a question more than once"),
        ("say('q99')", "Line 2 of the program's output answers a question that was not asked"),
        ('print(\'{"id": "q1", "id": "q1", "answer": "a"}\')', "the key 'id' occurs more than once"),
        ("sys.stdout.buffer.write(b'\\xff\\xfe\\n')", "Line 2 .* is not JSON"),
        ("print('\\x1b[31mred' + 'x' * 1000)", "Line 2 .* is not JSON"),
    ],
)
def test_a_line_of_no_question_stops_the_run(program, stray, message):
    body = f"for id in ids():\n    if id == 'q1':\n        {stray}\n        sys.stdout.flush()\n    say(id)\n"
    with pytest.raises(DecabenchError, match=message) as caught:
        outcomes(program(body), questions(3))
    assert len(str(caught.value)) < 400 and str(caught.value).isprintable()


@pytest.mark.parametrize(
    ("ending", "message"),
    [
        ("sys.exit(3)", "ended with status 3 after 2 answers"),
        ("raise RuntimeError('no memory')", "ended with status 1 after 2 answers.* RuntimeError: no memory"),
        ("os.kill(os.getpid(), signal.SIGKILL)", "was killed by SIGKILL after 2 answers"),
        ("sys.exit(0)", "ended with status 0 after 2 answers, before this question"),
        ("os.close(1); time.sleep(60)", "closed its output after 2 answers"),
    ],
)
def test_a_program_that_ends_early(program, ending, message, monkeypatch):
    import re

    monkeypatch.setattr(command_process, "GRACE", 0.3)
    found = outcomes(program(f"for id in ids():\n    if id == 'q2': {ending}\n    say(id)\n"), questions(500))
    assert found["q0"] == found["q1"] == Answer("fine")
    errors = {found[f"q{number}"].error for number in range(2, 500)}
    assert len(errors) == 1 and re.search(message, errors.pop())


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("import no_such_module", "ended with status 1 before it answered anything. .*ModuleNotFoundError"),
        ("print('bye', file=sys.stderr)", "ended with status 0 before it answered anything.*: bye$"),
        ("os.kill(os.getpid(), signal.SIGSEGV)", "was killed by SIGSEGV before it answered anything"),
    ],
)
def test_a_program_that_never_answers_stops_the_run(program, body, message):
    with pytest.raises(DecabenchError, match=message):
        outcomes(program(body), questions(5))


def test_a_program_that_stalls(program):
    body = "for id in ids():\n    if id == 'q2': time.sleep(60)\n    say(id)\n"
    begun = time.monotonic()
    found = outcomes(program(body, timeout=1.5), questions(5))
    assert 1.5 < time.monotonic() - begun < 20
    assert found["q1"] == Answer("fine")
    assert {found[f"q{number}"].error for number in (2, 3, 4)} == {
        "The program was stopped after 2 answers, because it neither read nor answered anything for 1.5 s."
    }


FAMILY = """
child = subprocess.Popen([sys.executable, "-S", "-c", "import time; time.sleep(60)"])
for id in ids(): say(id, f"{os.getpid()} {child.pid}")
"""


@pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="looks at processes in /proc")
@pytest.mark.parametrize("how", ["closed", "interrupted", "failed", "done"])
@pytest.mark.parametrize("deaf", [False, True])
def test_it_ends_with_its_children(program, monkeypatch, how, deaf):
    monkeypatch.setattr(command_process, "GRACE", 0.4)
    ignore = "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n" if deaf else ""
    with program(ignore + FAMILY).open() as make:
        fails = threading.Event()
        stream = make(setting()).stream(source(how, fails))
        pids = [int(pid) for pid in next(stream)[1].text.split()]
        # Without further questions, the program may have ended before the check.
        assert how == "done" or all(map(is_running, pids))
        if how == "done":
            list(stream)
        elif how == "failed":
            fails.set()
            with pytest.raises(RuntimeError, match="bad data"):
                list(stream)
        elif how == "interrupted":
            with pytest.raises(KeyboardInterrupt):
                stream.throw(KeyboardInterrupt)
        else:
            stream.close()
    wait_until(lambda: not any(map(is_running, pids)))


def source(how, fails):
    yield from questions(2)
    while how != "done":  # there are always more questions
        if fails.is_set():
            raise RuntimeError("bad data")
        yield Question(f"more{time.monotonic_ns()}", "?", "x" * 1000)


def test_a_line_without_end(program, monkeypatch):
    monkeypatch.setattr(command_process, "LONGEST_LINE", 1 << 20)
    with pytest.raises(DecabenchError, match="a line of more than 1 MiB"):
        outcomes(program("while True: sys.stdout.write('x' * 100_000)"), questions(1))


@pytest.mark.parametrize(
    "answer",
    [b"M\xfcller", b"cut \xe6\x9d", b"\xff\xfe", b"overlong \xc0\xaf", b"surrogate \xed\xa0\xbd"],
)
def test_bytes_that_are_not_utf8_fail_their_example_alone(program, answer):
    """Before, replacement characters were scored as the program's answer."""
    body = f"""
for id in ids():
    text = {answer!r} if id == "q1" else "Größe".encode()
    line = b'{{"id": "' + id.encode() + b'", "answer": "' + text + b'"}}'
    sys.stdout.buffer.write(line + b"\\n")
    sys.stdout.flush()
"""
    found = outcomes(program(body), questions(3))
    assert found["q0"] == found["q2"] == Answer("Größe")
    before = len(re.match(rb"[ -~]*", answer)[0])
    position = len('{"id": "q1", "answer": "') + before + 1
    assert isinstance(found["q1"], Failure)
    assert found["q1"].error.startswith("Line 2 of the program's output is not UTF-8 (byte 0x")
    assert f"at position {position})" in found["q1"].error


def test_an_id_that_is_not_utf8_belongs_to_no_question(program):
    body = """
sys.stdout.buffer.write(b'{"id": "q\\xff", "answer": "a"}\\n')
"""
    with pytest.raises(DecabenchError, match="answers a question that was not asked"):
        outcomes(program(body), questions(1))
