"""Whether a model answers a padded prompt as it answers the prompt alone. Some architectures do not."""

from __future__ import annotations

from typing import Any

from decabench.predictors.hf_loading import Loaded

__all__ = ["pads_safely"]

_SHORT, _LONG = 6, 15  # tokens of the two prompts of the probe

_TOLERANCE = {"torch.float32": 1e-3}
"""Of the largest score. Attention that sees no padding moves scores by about 1e-6; what sees it, by a tenth or more."""

_COARSE = 0.1  # where a score has two or three digits


def pads_safely(loaded: Loaded) -> bool:
    """Asks the model one short prompt alone, and again padded beside a longer one.

    Recurrent models that pass over the attention mask (RWKV, RecurrentGemma) and relative attention of XLNet's kind
    take the padding for text: they can only be asked one prompt at a time.
    """
    alone = _scores(loaded, [_SHORT])[0]
    padded = _scores(loaded, [_SHORT, _LONG])[0]
    tolerance = _TOLERANCE.get(str(loaded.model.dtype), _COARSE)
    largest = alone.abs().max().clamp_min(1e-9)
    return bool((alone - padded).abs().max() <= tolerance * largest)


def _scores(loaded: Loaded, lengths: list[int]) -> Any:
    """The first token's scores, (batch, vocabulary), as float32."""
    import torch

    longest = max(lengths)
    ids = torch.full((len(lengths), longest), loaded.pad, dtype=torch.long)
    mask = torch.zeros_like(ids)
    for row, length in enumerate(lengths):
        at = slice(0, length) if loaded.is_encoder_decoder else slice(longest - length, longest)
        # Any tokens will do; the same ones begin every prompt.
        ids[row, at] = torch.arange(7, 7 + length) % loaded.tokens
        mask[row, at] = 1
    device = loaded.model.device
    with torch.inference_mode():
        made = loaded.model.generate(
            input_ids=ids.to(device),
            attention_mask=mask.to(device),
            max_new_tokens=1,
            do_sample=False,
            num_beams=1,
            output_logits=True,
            return_dict_in_generate=True,
        )
    return torch.nan_to_num(made.logits[0].float(), nan=0.0, posinf=0.0, neginf=0.0).cpu()
