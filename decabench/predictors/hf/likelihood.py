"""Score labels by their likelihood after the prompt. The prompt's attention keys and values are computed only once.

The prompt is tokenized together with each label. If the prompt has n tokens when tokenized alone,
the label begins after the first n tokens. To score a label without a prompt, the BOS token takes
the place of the prompt, or the EOS token if the model has no BOS token. Both rules follow
lm-evaluation-harness (`lm_eval/api/model.py`, `_encode_pair`).
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import takewhile

from decabench.predictors.hf.generation import Decoding, Prompt, Prompter
from decabench.predictors.hf.weights import Loaded, padded
from decabench.predictors.protocol import Answer, Choice, best_choice


@dataclass(frozen=True)
class _Rows:
    shared: Sequence[int]
    """The common prefix of the prompt and all of `wholes`, as token ids."""
    begin: int
    """The number of tokens in the prompt, after which the label begins."""
    wholes: Sequence[Sequence[int]]
    """For each label, the token ids of the prompt followed by the label."""


@dataclass(frozen=True)
class ChoiceScorer:
    """A causal model that answers with the most likely label."""

    loaded: Loaded
    """The model and its tokenizer."""
    decoding: Decoding
    """The decoding settings. Their limit on new tokens reserves space for the labels."""
    prompter: Prompter
    """Builds the prompts."""
    watchful: bool
    """Whether to score each question by itself, so that scores don't depend on the batch."""
    _alone: dict[str, float] = field(default_factory=dict)

    def answers(self, prompts: Sequence[Prompt]) -> list[Answer]:
        """Return the answers to a batch of prompts, in order. Errors from torch are not caught."""
        batches = [[prompt] for prompt in prompts] if self.watchful else [prompts]
        return [answer for batch in batches for answer in self._score(batch)]

    def _score(self, prompts: Sequence[Prompt]) -> list[Answer]:
        labels = [self.prompter.prompting.labels(prompt.question) for prompt in prompts]
        rows = [self._rows(prompt, names) for prompt, names in zip(prompts, labels, strict=True)]
        self._score_alone([name for names in labels for name in names])
        answers = []
        for prompt, names, sums, row in zip(prompts, labels, self._sums(rows), rows, strict=True):
            counts = [len(whole) - row.begin for whole in row.wholes]
            choices = tuple(
                Choice(name, total, count, self._alone[name])
                for name, total, count in zip(names, sums, counts, strict=True)
            )
            answers.append(Answer(best_choice(choices), "stop", prompt.kept, row.begin, 0, choices=choices))
        return answers

    def _rows(self, prompt: Prompt, labels: Sequence[str]) -> _Rows:
        text = self.prompter.text_of(prompt)
        known = text.rstrip()
        gap = "" if known != text or self.prompter.chat else self.prompter.prompting.gap
        begin, *wholes = self.prompter.tokenize([known, *(f"{text}{gap}{label}" for label in labels)])
        alike = takewhile(lambda ids: len(set(ids)) == 1, zip(begin, *wholes, strict=False))
        return _Rows([ids[0] for ids in alike], len(begin), wholes)

    def _score_alone(self, labels: Sequence[str]) -> None:
        tokenizer = self.loaded.tokenizer
        first = tokenizer.bos_token_id if tokenizer.bos_token_id is not None else tokenizer.eos_token_id
        new = [label for label in dict.fromkeys(labels) if label not in self._alone]
        rows = [
            _Rows([first], 1, [[first, *ids[ids[:1] == [first] :]]])
            for label in new
            for ids in [list(tokenizer(label, add_special_tokens=False)["input_ids"])]
        ]
        for label, (total,) in zip(new, self._sums(rows) if rows else (), strict=True):
            self._alone[label] = total

    def _sums(self, rows: Sequence[_Rows]) -> list[list[float]]:
        """Return the log-likelihoods of the labels, as a list for each prompt.

        The tokens in `_Rows.shared` are processed only once for all labels of a prompt. The other tokens are then
        processed with the cached keys and values.
        """
        import torch

        model, device = self.loaded.model, self.loaded.model.device
        takes = inspect.signature(model.forward).parameters
        owner = torch.tensor([at for at, row in enumerate(rows) for _ in row.wholes], device=device)
        rests = [list(whole[len(row.shared) :]) for row in rows for whole in row.wholes]
        starts = [row.begin - len(row.shared) for row in rows for _ in row.wholes]
        ids, mask = padded(self.loaded, [row.shared for row in rows]).values()
        with torch.inference_mode():
            place = {"position_ids": (mask.cumsum(-1) - 1).clamp_min(0)} if "position_ids" in takes else {}
            last = {"logits_to_keep": 1} if "logits_to_keep" in takes else {}
            output = model(input_ids=ids, attention_mask=mask, use_cache=True, **place, **last)
            scores = output.logits[:, -1:].float().log_softmax(-1)[owner]  # (labels, 1, vocabulary)
            more, seen = padded(self.loaded, [rest[:-1] for rest in rests], left=False).values()
            if more.shape[1]:
                cache = output.past_key_values
                cache.batch_select_indices(owner)
                lengths = mask.sum(-1, keepdim=True)[owner]
                steps = torch.arange(more.shape[1], device=device)[None]
                place = {"position_ids": lengths + steps} if place else {}
                whole_mask = torch.cat([mask[owner], seen], dim=1)
                output = model(
                    input_ids=more,
                    attention_mask=whole_mask,
                    past_key_values=cache,
                    use_cache=True,
                    **place,
                )
                scores = torch.cat([scores, output.logits.float().log_softmax(-1)], dim=1)
        sums = [
            sum(float(scores[at, place, id_]) for place, id_ in enumerate(rest) if place >= start)
            for at, (rest, start) in enumerate(zip(rests, starts, strict=True))
        ]
        found = iter(sums)
        return [[next(found) for _ in row.wholes] for row in rows]
