"""Read answers from lm-eval samples: `samples_<task>_<time>.jsonl`, written with --log_samples.

A sample contains the requests to the model (`arguments`), its responses (`resps`) and the filtered responses
(`filtered_resps`). The type of request isn't recorded, so it is inferred from the arguments. Tested with lm-eval
0.4.2 and 0.4.13.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from decabench.errors import SubmissionError
from decabench.exchange.foreign_rows import (
    WHOLE_BYTES,
    ForeignAnswer,
    Places,
    as_id,
    decode_json,
    has_prose,
    lines_of,
    option_letter,
    texts_in,
)
from decabench.text import kind_of, printable, quoted


def lm_eval_rows(path: Path, places: Places) -> Iterator[ForeignAnswer]:
    """Yield the answers in a samples file, which has a line for each example and filter."""
    filters: dict[str, None] = {}
    for number, record in _lm_eval_records(path):
        if isinstance(record, ValueError):
            message = f"the line is not JSON: {record}; import a samples_*.jsonl file (lm-eval --log_samples)"
            yield ForeignAnswer(number, problem=("bad-json", message))
            continue
        if not isinstance(record, dict) or not isinstance(record.get("doc"), dict):
            message = (
                "the line is not an lm-eval sample, because 'doc' is missing; import a samples_*.jsonl file"
            )
            yield ForeignAnswer(number, problem=("bad-record", message))
            continue
        name = str(record.get("filter", "none"))
        filters[name] = None
        if places.choice and name != places.choice:
            continue
        if len(filters) > 1 and not places.choice:
            listed = ", ".join(printable(each) for each in filters)
            raise SubmissionError(
                f"{path.name} has answers from several filters ({listed}). Choose a filter with --filter."
            )
        yield _lm_eval_row(number, record, places)
    if places.choice and places.choice not in filters:
        listed = ", ".join(printable(each) for each in filters) or "none"
        raise SubmissionError(
            f"{path.name} has no answers from the filter {quoted(places.choice)}. Its filters are: {listed}."
        )


def _lm_eval_records(path: Path) -> Iterator[tuple[int, Any]]:
    """Yield each sample with its line number. A sample that isn't JSON is replaced by a ValueError.

    In lm-eval 0.4.2 and earlier, the file is a single JSON array, whose samples are numbered from 1.
    """
    lines = lines_of(path)
    for number, raw in lines:
        if not raw.strip():
            continue
        if raw.lstrip().startswith(b"["):
            content = raw + b"".join(b"\n" + line for _, line in lines)
            if len(content) > WHOLE_BYTES:
                raise SubmissionError(
                    f"{path.name} is a single JSON array of {len(content):,} bytes, more than the limit of "
                    f"{WHOLE_BYTES:,}. Write one sample per line."
                )
            try:
                array = decode_json(content.decode())
            except ValueError as error:
                yield number, error
            else:
                yield from enumerate(array, 1)
            return
        if raw.strip() == b"{":
            raise SubmissionError(
                f"{path.name} is a JSON object on several lines, like lm-eval's results. Import a samples_*.jsonl file."
            )
        try:
            yield number, decode_json(raw.decode("utf-8-sig" if number == 1 else "utf-8"))
        except ValueError as error:  # including UnicodeDecodeError
            yield number, error


def _lm_eval_row(number: int, record: Mapping[str, Any], places: Places) -> ForeignAnswer:
    doc, position = record["doc"], record.get("doc_id")
    id_ = as_id(doc.get(places.id))
    problem = None
    if id_ is None:
        keys = ", ".join(quoted(str(key), 30) for key in list(doc)[:12])
        message = (
            f"'doc' has no id in the field {quoted(places.id)}; use --id to choose one of its fields: {keys}"
        )
        problem = ("missing-field", message)
    requests = _requests(record.get("arguments"))
    texts = texts_in([value for key, value in doc.items() if key != places.id])
    if not has_prose(texts):
        texts += texts_in([request[0] for request in requests[:1]])
    target = record.get("target")
    row = ForeignAnswer(
        number,
        id_,
        problem=problem,
        position=position if type(position) is int else None,
        texts=texts,
        golds=() if target is None else (str(target),),
    )
    kept = record.get("filtered_resps")
    first = kept[0] if isinstance(kept, list) and kept else None
    if isinstance(first, list) and len(first) == 1 and isinstance(first[0], str):
        first = first[0]  # the filter majority_vote returns a list
    if isinstance(first, str) and len(requests[0] if requests else ("", "")) > 1:
        whole = record.get("resps")
        while isinstance(whole, list) and whole:
            whole = whole[0]
        first = "" if first == "[invalid]" else first  # what filters return if they find no answer
        return row._replace(answer=first, raw=whole if isinstance(whole, str) and whole != first else None)
    chosen = _choose(kept, requests, record)
    if isinstance(chosen, str):
        return row._replace(problem=("non-string-answer", chosen))
    choices, best, is_tied = chosen
    answer, golds = choices[best], (*row.golds, *_nth(choices, target))
    row = row._replace(answer=answer, golds=golds, is_likeliest=True, is_tied=is_tied)
    if choices == [option_letter(at) for at in range(len(choices))] and (options := _options(doc, choices)):
        row = row._replace(answer=options[best], letter=answer, golds=(*row.golds, *_nth(options, target)))
    return row


def _requests(arguments: Any) -> list[Sequence[Any]]:
    """Return the arguments of each request.

    They are stored as `{"gen_args_0": {"arg_0": …}, …}`, or as `[[…], …]` in earlier versions.
    """
    if isinstance(arguments, Mapping):
        arguments = [arguments.get(f"gen_args_{at}") for at in range(len(arguments))]
    if not isinstance(arguments, list):
        return []
    found: list[Sequence[Any]] = []
    for each in arguments:
        if isinstance(each, Mapping):
            each = [each.get(f"arg_{at}") for at in range(len(each))]
        found.append(each if isinstance(each, list) and each else ("",))
    return found


def _choose(
    kept: Any, requests: list[Sequence[Any]], record: Mapping[str, Any]
) -> tuple[list[str], int, bool] | str:
    """Return the choices, the index of the most likely choice, and whether it is tied.

    If choices are tied, the index of the first is returned, as in lm-eval's `acc`. If the sample isn't multiple-choice
    or its likelihoods are unusable, the reason is returned as a message instead.
    """
    if requests and all(len(request) == 1 for request in requests):
        return "the sample has only the likelihood of a whole text (loglikelihood_rolling) and no answer"
    texts = [request[1].strip() for request in requests if len(request) > 1 and isinstance(request[1], str)]
    given = kept if isinstance(kept, list) else []
    scores = [score for score in map(_score, given) if score is not None]
    if not texts or not len(scores) == len(given) == len(texts) == len(requests):
        if any(isinstance(each, list) and len(each) > 1 for each in given) and not scores:
            return "the sample has several responses to a request; use --filter to choose a filter that keeps only one"
        response = kind_of(given[0] if given else None)
        return (
            f"the response is {response}, not text or choices; import only samples of generate_until or "
            "multiple_choice tasks"
        )
    if len(texts) == 1:
        return "the sample has only the likelihood of the right answer (loglikelihood) and no answer from the model"
    asked = [at for at, request in enumerate(requests) if request[0]] or list(range(len(requests)))
    choices = [texts[at] for at in asked]
    # For acc_mutual_info, lm-eval also requests the likelihood of each choice without a context.
    alone = [texts[at] for at in range(len(texts)) if at not in asked]
    if len({json.dumps(requests[at][0]) for at in asked}) > 1 or alone not in ([], choices):
        return (
            "the requests have different contexts (multiple inputs), so their continuations are not answers"
        )
    values = [scores[at] for at in asked]
    for number, value in enumerate(values, 1):
        if math.isnan(value) or value == math.inf:
            shown = "NaN" if math.isnan(value) else "infinite"
            return f"the log-likelihood of choice {number} is {shown}, so no choice is the most likely"
    best = values.index(max(values))
    target = str(record.get("target"))
    if (
        target.isdecimal()
        and record.get("acc") in (0, 1)
        and (best == int(target[:9])) != bool(record["acc"])
    ):
        return (
            f"the most likely choice is number {best} and the target is number {target}, but 'acc' is {record['acc']}, "
            "so the sample is not from an ordinary multiple-choice task"
        )
    return choices, best, values.count(values[best]) > 1


def _score(given: Any) -> float | None:
    """Return the log-likelihood in a `[log-likelihood, is greedy]` pair, or None for any other value.

    lm-eval may have converted the pair's values to strings.
    """
    if not isinstance(given, list) or len(given) != 2 or str(given[1]) not in ("True", "False"):
        return None
    try:
        return float(given[0])
    except (TypeError, ValueError):
        return None


def _options(doc: Mapping[str, Any], letters: list[str]) -> list[str]:
    """Return the text of each option, in the order of the letters.

    The options are the only list in a sample's `doc` that contains as many strings as there are
    letters. If there is no such list, or more than one, the options are unknown and the result is
    empty.
    """
    inner = [value for value in doc.values() if isinstance(value, Mapping)]
    lists = [value for values in (doc, *inner) for value in values.values() if isinstance(value, list)]
    found = [
        each
        for each in lists
        if len(each) == len(letters) and each != letters and all(isinstance(text, str) for text in each)
    ]
    return found[0] if len(found) == 1 else []


def _nth(choices: Sequence[str], target: Any) -> tuple[str, ...]:
    number = str(target)
    return (choices[int(number)],) if number.isdecimal() and int(number[:9]) < len(choices) else ()
