"""Measure the time that decabench adds to a server or a program, compared with a bare loop.

    python benchmarks/openai_throughput.py [--questions 800] [--concurrency 8] [--latency 50] [--rounds 3]

The server and the program answer after a fixed time. `bare` asks the same questions with the same HTTP client or
over the same pipe, and does nothing else. The script prints Markdown tables with median times, the time added to
`bare`, and the CPU time of this process.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import itertools
import json
import shlex
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from decabench.predictors.openai.connections import Connections
from decabench.predictors.protocol import ModelOptions, StreamingPredictor
from decabench.runs import Run, plan_run, run_plan
from decabench.tasks.preparation import Request, prepare_task
from decabench.tasks.registry import load_included
from decabench.tasks.store import Store
from decabench.tasks.task import Task

SERVER = """
import asyncio, json, sys
latency = float(sys.argv[1])
body = json.dumps({"choices": [{"message": {"content": "yes"}, "finish_reason": "stop"}],
                   "usage": {"prompt_tokens": 9, "completion_tokens": 1}}).encode()
reply = b"HTTP/1.1 200 OK\\r\\nContent-Type: application/json\\r\\nContent-Length: %d\\r\\n\\r\\n" % len(body) + body
async def serve(reader, writer):
    try:
        while head := await reader.readuntil(b"\\r\\n\\r\\n"):
            length = int(head.lower().split(b"content-length: ")[1].split(b"\\r\\n")[0])
            await reader.readexactly(length)
            await asyncio.sleep(latency)
            writer.write(reply)
    except asyncio.IncompleteReadError:
        writer.close()
async def main():
    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()
asyncio.run(main())
"""

PROGRAM = """
import json, sys, time
for line in sys.stdin:
    time.sleep(float(sys.argv[1]))
    print(json.dumps({"id": json.loads(line)["id"], "answer": "yes"}), flush=True)
"""

TASK = """
format = "decabench.taskfile/1"
name = "throughput"
metric = "em"
question = "Is {number} a number?"
context = "{text}"
answer = "answer"
[files]
validation = "rows.jsonl"
"""


def timed(work: Callable[[], int], count: int) -> tuple[float, float]:
    """Return the wall and CPU time of `work`, which must answer `count` questions."""
    begun, spent = time.perf_counter(), time.process_time()
    done = work()
    if done != count:
        raise SystemExit(f"{done} of {count} questions were answered")
    return time.perf_counter() - begun, time.process_time() - spent


def bare_requests(url: str, prompts: list[str], concurrency: int) -> int:
    """Ask the questions in `concurrency` parallel loops, and return the number of answers."""

    async def main() -> int:
        answers: list[str] = []
        left = iter(prompts)
        connections = Connections(url, {"Content-Type": "application/json"}, 1 << 20)

        async def ask() -> None:
            for prompt in left:
                messages = [{"role": "user", "content": prompt}]
                body = {"model": "m", "messages": messages, "temperature": 0.0, "seed": 0, "max_tokens": 16}
                content = json.dumps(body).encode()
                _, _, reply = await connections.exchange("POST", "/chat/completions", content)
                answers.append(json.loads(reply)["choices"][0]["message"]["content"])

        await asyncio.gather(*(ask() for _ in range(concurrency)))
        connections.close()
        return len(answers)

    return asyncio.run(main())


def bare_pipe(arguments: list[str], rows: list[dict[str, str]]) -> int:
    """Send the questions to a program from a thread, read its answers, and return the number of answers."""
    process = subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdin and process.stdout
    stdin = process.stdin

    def write() -> None:
        with stdin:
            for row in rows:
                print(json.dumps(row), file=stdin, flush=True)

    writer = threading.Thread(target=write)
    writer.start()
    answers = [json.loads(line)["answer"] for line in process.stdout]
    writer.join()
    process.wait()
    return len(answers)


def streamed(run: Run) -> int:
    """Run only the predictor, and return the number of answers."""
    plan = plan_run(run)
    (task,) = plan.tasks
    with plan.backend.open() as make:
        made = make(task.setting)
        assert isinstance(made, StreamingPredictor)
        return sum(1 for _ in made.stream(task.questions()))


def predicted(run: Run) -> int:
    """Run all of `decabench predict`, with journal, extraction and submission, and return the number of answers."""
    return sum(tally.answered for tally in run_plan(plan_run(run)).tallies)


@contextlib.contextmanager
def server(latency: float) -> Iterator[str]:
    """Start a server in another process, and yield its base URL."""
    command = [sys.executable, "-c", SERVER, str(latency)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        try:
            yield f"http://127.0.0.1:{int(process.stdout.readline())}/v1"
        finally:
            process.terminate()


def prepared(folder: Path, count: int) -> tuple[Store, Task]:
    """Prepare a task with `count` questions, whose contexts have about 1,500 characters."""
    text = "The quick brown fox jumps over the lazy dog. " * 33
    rows = ({"number": number, "text": text, "answer": "yes"} for number in range(count))
    (folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (folder / "throughput.toml").write_text(TASK)
    (task,) = load_included(folder / "throughput.toml")
    prepare_task(task, Request(folder / "home", progress=False))
    return Store(folder / "home"), task


def table(title: str, works: dict[str, Callable[[], int]], count: int, rounds: int) -> None:
    """Run the functions in turn, and print a table."""
    runs: dict[str, list[tuple[float, float]]] = {name: [] for name in works}
    for _ in range(rounds):
        for name, work in works.items():
            runs[name].append(timed(work, count))
    print(f"\n| {title} | seconds | questions/s | added | CPU ms/question |\n|---|---:|---:|---:|---:|")
    bare = statistics.median(seconds for seconds, _ in runs["bare"])
    for name, times in runs.items():
        seconds, spent = (statistics.median(column) for column in zip(*times, strict=True))
        added = 100 * (seconds / bare - 1)
        print(
            f"| {name} | {seconds:.2f} | {count / seconds:.0f} | {added:+.1f}% | {1000 * spent / count:.2f} |"
        )


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--questions", type=int, default=800)
    parser.add_argument("--concurrency", type=int, default=8)
    parser.add_argument("--latency", type=float, default=50, help="Milliseconds.")
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    seconds = given.latency / 1000
    with tempfile.TemporaryDirectory() as name, server(seconds) as url:
        folder = Path(name)
        store, task = prepared(folder, given.questions)
        (folder / "program.py").write_text(PROGRAM)
        arguments = [sys.executable, str(folder / "program.py"), str(seconds / given.concurrency)]
        numbers = itertools.count()

        def run(predictor: str, **options: Any) -> Run:
            output = folder / f"output-{next(numbers)}"
            return Run(predictor, [task], "validation", output, store, options=ModelOptions(**options))

        def asked() -> Run:
            return run(f"openai:{url}", model="m", concurrency=given.concurrency)

        def piped() -> Run:
            return run(f"command:{shlex.join(arguments)}")

        (planned,) = plan_run(asked()).tasks
        questions = list(planned.questions())
        assert planned.prompting
        prompts = [planned.prompting.text(question) for question in questions]
        rows = [asdict(question) for question in questions]
        table(
            f"openai:, {given.concurrency} requests in flight, {given.latency:g} ms each",
            {
                "bare": lambda: bare_requests(url, prompts, given.concurrency),
                "predictor.stream()": lambda: streamed(asked()),
                "decabench predict": lambda: predicted(asked()),
            },
            given.questions,
            given.rounds,
        )
        table(
            f"command:, {given.latency / given.concurrency:g} ms each",
            {
                "bare": lambda: bare_pipe(arguments, rows),
                "predictor.stream()": lambda: streamed(piped()),
                "decabench predict": lambda: predicted(piped()),
            },
            given.questions,
            given.rounds,
        )


if __name__ == "__main__":
    main()
