"""Replies of real servers are read correctly, refused or retried, and stop the run only if they must."""

from __future__ import annotations

import json
import random
from dataclasses import replace

import pytest

from decabench.errors import ModelError
from decabench.predictors.openai.choices import UnansweredError, UnreadableReplyError, parse_answer
from decabench.predictors.openai.replies import ServerReply
from decabench.predictors.openai.server import backend
from decabench.predictors.protocol import Answer, Failure, ModelOptions, storable_outcome
from tests.mutations import mutate
from tests.predictors.asking import PROMPTING, outcomes, questions, setting
from tests.predictors.openai.hostile_replies import CASES, Case
from tests.predictors.openai.openai_server import Say, serving

ASKED = setting(replace(PROMPTING, template=replace(PROMPTING.template, stop=("\nReview:",))))


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.outcome}: {case.name}")
@pytest.mark.usefixtures("waits")
def test_reply(case: Case, caplog: pytest.LogCaptureFixture) -> None:
    with serving(lambda seen: Say(case.body, case.status)) as server:
        made = backend(server.url, ModelOptions(model="m", retries=1))
        if case.outcome == "stopped":
            with pytest.raises(ModelError) as caught:
                outcomes(made, questions(1), ASKED)
            assert case.text in str(caught.value)
            return
        [found] = outcomes(made, questions(1), ASKED).values()
    assert len(server.asked) == case.tries
    assert storable_outcome(found) == found
    said = "\n".join(record.getMessage() for record in caplog.records if record.name == "decabench")
    assert case.warning in said and bool(case.warning) == bool(said)
    if case.outcome == "failed":
        assert isinstance(found, Failure) and case.text in found.error
        return
    finish = {"refused": "refused", "cut": "length"}.get(case.outcome, "stop")
    assert isinstance(found, Answer) and (found.text, found.finish) == (case.text, finish)
    assert found.reasoning == case.reasoning
    assert (case.outcome == "empty") <= (found.text == "")


def test_no_reply_ends_in_a_traceback() -> None:
    """Each randomly damaged reply becomes an answer or a clear error."""
    rng = random.Random(1)
    bodies = [case.body if isinstance(case.body, bytes) else json.dumps(case.body).encode() for case in CASES]
    for number in range(3_000):
        raw = mutate(rng.choice(bodies), number)
        reply = ServerReply(rng.choice((200, 400, 403, 422, 500)), raw.decode("utf-8", "replace"))
        assert isinstance(reply.message, str) and isinstance(reply.is_filtered, bool)
        assert reply.overflow is None or reply.overflow.limit is None or reply.overflow.limit >= 0
        assert isinstance(reply.find_refused(("seed", "stop")), str)
        try:
            answer, _ = parse_answer(reply.content or {})
        except (UnreadableReplyError, UnansweredError):
            continue
        assert isinstance(storable_outcome(answer), Answer)
