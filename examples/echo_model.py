"""A program for `--predictor command:` that reads and writes JSON lines, and answers with the context's first words."""

import json
import sys


def main() -> None:
    words = int(sys.argv[1]) if len(sys.argv) > 1 else 3
    for line in sys.stdin:  # until the end of the task
        question = json.loads(line)  # has id, question and context, and also task and split
        answer = " ".join(question["context"].split()[:words])
        print(json.dumps({"id": question["id"], "answer": answer}), flush=True)


if __name__ == "__main__":
    main()
