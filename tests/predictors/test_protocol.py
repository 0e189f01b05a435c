"""Outcomes of any predictor can be written and read again."""

import pytest

from decabench.errors import DecabenchError
from decabench.predictors.protocol import (
    Answer,
    Failure,
    ModelOptions,
    before_stops,
    refuse_unused,
    storable_outcome,
    validate_outcome,
)


@pytest.mark.parametrize(
    "outcome",
    [
        Answer(""),
        Answer("Zoë\n\x00", "length", (0, 0), 0, 7),
        Answer("x", "refused", (3, 12), None, 2**53),
        Answer("x", reasoning="Hm.", served_by="m-2024-08-06 (fp_1)"),
        Failure("TimeoutError: 3 s"),
    ],
)
def test_valid_outcomes_stay(outcome):
    assert storable_outcome(outcome) == outcome


def test_reasoning_is_shortened_and_cleaned():
    """Reasoning is shortened, cleaned, and left out if it is not text. The answer is kept in any case."""
    found = storable_outcome(Answer("x", reasoning=f"begin {'x' * 100_000}\ud800 end", served_by="m" * 5_000))
    assert found.text == "x" and len(found.reasoning) <= 8_000 and len(found.served_by) < 200
    assert found.reasoning.startswith("begin ") and found.reasoning.endswith("\ufffd end")
    assert storable_outcome(Answer("x", reasoning=["no text"], served_by=5)) == Answer("x")


@pytest.mark.parametrize(
    ("text", "before"),
    [
        ("a\n\nb", "a"),
        ("\n\na\n\nb", "\n\na"),
        ("\n\n", "\n\n"),
        ("a\nReview: b", "a"),
        ("\nReview: b", ""),
        ("a", "a"),
    ],
)
def test_what_ends_an_answer(text, before):
    assert before_stops(text, ("\n\n", "\nReview:")) == before


_KEPT = "'context_kept' must be the start and end of the part that was kept, such as [0, 1234], but is "


@pytest.mark.parametrize(
    ("outcome", "error"),
    [
        (Answer(None), "the answer must be a string, not None"),
        (Answer("\ud800"), "bad-encoding: the answer contains half of a surrogate pair"),
        (Answer("x", "eos"), "'finish' must be one of stop, length, refused, but is 'eos'"),
        (Answer("x", ["stop"]), "'finish' must be one of stop, length, refused, but is "),
        (Answer("x", "stop", (5, 3)), f"{_KEPT}(5, 3)"),
        (Answer("x", "stop", (-1, 3)), f"{_KEPT}"),
        (Answer("x", "stop", (0,)), f"{_KEPT}"),
        (Answer("x", "stop", 7), f"{_KEPT}7"),
        (Answer("x", "stop", (False, True)), f"{_KEPT}"),
        (Answer("x", "stop", None, -1), "'prompt_tokens' must be a whole number, but is -1"),
        (Answer("x", "stop", None, 1.5), "'prompt_tokens' must be a whole number, but is 1.5"),
        (Answer("x", "stop", None, None, "7"), "'completion_tokens' must be a whole number, but is '7'"),
        (Failure(5), "the error must be a string, not 5"),
        (("q0", "x"), "the outcome must be an Answer or a Failure, not ('q0', 'x')"),
    ],
)
def test_invalid_outcomes_become_failures(outcome, error):
    found = storable_outcome(outcome)
    assert isinstance(found, Failure) and found.error.startswith(error)
    with pytest.raises(ValueError):
        validate_outcome(outcome)


@pytest.mark.parametrize(
    ("text", "is_kept"),
    [
        ("x" * 262_142, True),
        ("x" * 262_143, False),  # 262,145 bytes with its quotes
        ("é" * 131_071, True),
        ("é" * 131_072, False),
        ("\x00" * 43_690, True),
        ("\x00" * 100_000, False),  # 600,002 bytes: \\u0000 each
    ],
)
def test_a_text_is_measured_as_it_is_written(text, is_kept):
    found = storable_outcome(Answer(text))
    assert isinstance(found, Answer) if is_kept else found.error.startswith("too-large: the answer has ")


def test_the_longest_answer_and_its_raw_text_fit_into_a_line(tmp_path):
    from decabench.submission import write_predictions
    from tests.submission.reading import read_answers

    text = "\x00" * 43_690
    assert isinstance(storable_outcome(Answer(text)), Answer)
    lines = [{"id": "i" * 1000, "answer": text, "raw": text, "rule": "first-line"}]
    write_predictions(tmp_path, {("sst", "validation"): lines})
    assert read_answers(tmp_path / "predictions" / "sst.validation.jsonl") == {"i" * 1000: text}


@pytest.mark.parametrize(
    ("given", "flag"),
    [
        ({"seed": 3, "temperature": 0.5}, "--temperature"),
        ({"max_new_tokens": 5}, "--max-new-tokens"),
        ({"chat": True}, "--chat"),
        ({"chat": False}, "--no-chat"),
        ({"device": "cpu", "timeout": 3.0}, "--device"),
    ],
)
def test_the_first_that_is_not_used_is_named(given, flag):
    with pytest.raises(DecabenchError, match=rf"^The predictor x does not use {flag}\. Leave it out\.$"):
        refuse_unused(ModelOptions(**given), ("seed", "revision"), "x", "Leave it out.")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"batch_size": 0}, "--batch-size must be 1 or more, not 0."),
        ({"temperature": -0.5}, "--temperature must be 0 or more, not -0.5."),
        ({"temperature": float("inf")}, "--temperature must be 0 or more, not inf."),
        ({"temperature": float("nan")}, "--temperature must be 0 or more, not nan."),
        ({"top_p": 0.0}, "--top-p must be more than 0 and at most 1, not 0."),
        ({"top_p": 1.5}, "--top-p must be more than 0 and at most 1, not 1.5."),
        ({"timeout": 0.0}, "--timeout must be more than 0, not 0."),
        ({"timeout": float("nan")}, "--timeout must be more than 0, not nan."),
        ({"retries": -1}, "--retries must be 0 or more, not -1."),
        ({"concurrency": 0}, "--concurrency must be 1 or more, not 0."),
        ({"requests_per_minute": 0.0}, "--requests-per-minute must be more than 0, not 0."),
        ({"max_new_tokens": 0}, "--max-new-tokens must be 1 or more, not 0."),
        ({"max_prompt_tokens": 0}, "--max-prompt-tokens must be 1 or more, not 0."),
        (
            {"dtype": "int8"},
            "--dtype must be one of auto, float32, bfloat16, float16, not int8.",
        ),
        ({"api": "responses"}, "--api must be one of chat, completions, not responses."),
    ],
)
def test_values_out_of_range(given, message):
    with pytest.raises(DecabenchError) as caught:
        ModelOptions(**given)
    assert str(caught.value) == message and caught.value.exit_code == 2
