"""The likelihood of each label, compared with a forward pass of prompt and label without padding or cache."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="needs the extra hf")
pytest.importorskip("transformers", reason="needs the extra hf")

from decabench.predictors.hf.backend import backend
from decabench.predictors.protocol import Answer, Choice, ModelOptions, best_choice
from decabench.tasks.wording import AnswerForm
from tests.predictors.hf.hf_models import CHAT, asked, save_llama, setting

LABELS = ("negative", "positive", "pos")


@pytest.mark.parametrize("chat", [None, CHAT])
def test_likelihoods_are_those_of_a_plain_forward_pass(tmp_path: Path, chat: str | None) -> None:
    import torch

    made = backend(str(save_llama(tmp_path, chat=chat)), ModelOptions())
    scored = setting(form=AnswerForm("label", LABELS))
    assert scored.prompting is not None
    scored = replace(scored, prompting=replace(scored.prompting, protocol="choices"))
    with made.open() as factory:
        predictor = factory(scored)
        answers = dict(predictor.stream(asked(5)))
        scorer = predictor.generator
        together = scorer._score(predictor.prompter.prompts(asked(5)))
        model, tokenizer = scorer.loaded.model, scorer.loaded.tokenizer

        def likelihood(begin: str, rest: str) -> float:
            before = (
                tokenizer(begin, add_special_tokens=not chat)["input_ids"]
                if begin
                else [tokenizer.bos_token_id]
            )
            after = tokenizer(rest, add_special_tokens=False)["input_ids"]
            with torch.inference_mode():
                scores = model(torch.tensor([before + after])).logits[0].log_softmax(-1)
            return sum(float(scores[len(before) + at - 1, id_]) for at, id_ in enumerate(after))

        for question, batched in zip(asked(5), together, strict=True):
            answer = answers[question.id]
            assert isinstance(answer, Answer)
            (prompt,) = predictor.prompter.prompts([question])
            text = predictor.prompter.text_of(prompt)
            for choice, other in zip(answer.choices, batched.choices, strict=True):
                wanted = likelihood(text, choice.label if chat else f" {choice.label}")
                assert choice.total == pytest.approx(wanted, abs=1e-4)
                assert other.total == pytest.approx(wanted, abs=1e-4)
                assert choice.alone == pytest.approx(likelihood("", choice.label), abs=1e-4)
            assert answer.text == max(answer.choices, key=lambda choice: choice.total).label
            assert [choice.tokens for choice in answer.choices] == [len(each) + (not chat) for each in LABELS]


def test_each_score_can_decide() -> None:
    choices = (
        Choice("no", -4.0, 1, -1.0),
        Choice("certainly", -6.0, 4, -9.0),
        Choice("maybe so", -5.0, 1, -2.0),
    )
    wanted = {"sum": "no", "characters": "maybe so", "tokens": "certainly", "unconditional": "certainly"}
    assert {by: best_choice(choices, by) for by in wanted} == wanted
