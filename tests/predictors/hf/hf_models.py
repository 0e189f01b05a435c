"""Tiny models with random weights and byte tokenizers, saved by transformers."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from decabench.predictors.protocol import Setting
from decabench.prompts.messages import Prompting
from decabench.tasks.example import Question
from decabench.tasks.registry import TASKS
from decabench.tasks.wording import PromptTemplate

__all__ = [
    "CHAT",
    "NO_SYSTEM",
    "SPECIAL",
    "asked",
    "byte_tokenizer",
    "save_llama",
    "save_t5",
    "setting",
]

CHAT = (
    "{{ bos_token }}{% for message in messages %}<|{{ message['role'] }}|>{{ message['content'] }}<|end|>"
    "{% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}"
)
"""A chat template that supports all roles."""

NO_SYSTEM = (
    "{% if messages[0]['role'] == 'system' %}{{ raise_exception('no system role') }}{% endif %}" + CHAT
)
"""A chat template that rejects the system role."""

SPECIAL = ["<pad>", "<s>", "</s>", "<|system|>", "<|user|>", "<|assistant|>", "<|end|>"]
"""The special tokens, in order. The 256 bytes follow."""


def byte_tokenizer(bos: bool = False, eos: bool = False, pad: bool = True, chat: str | None = None) -> Any:
    """Return a tokenizer with one token per byte."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast

    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {token: id_ for id_, token in enumerate([*SPECIAL, *letters])}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel()
    single = f"{'<s> ' if bos else ''}$A{' </s>' if eos else ''}"
    tokenizer.post_processor = processors.TemplateProcessing(
        single=single, special_tokens=[("<s>", 1), ("</s>", 2)]
    )
    made = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        bos_token="<s>",
        eos_token="</s>",
        pad_token="<pad>" if pad else None,
        additional_special_tokens=SPECIAL[3:],
    )
    made.chat_template = chat
    return made


def save_llama(
    folder: Path,
    seed: int = 0,
    chat: str | None = None,
    pad: bool = True,
    ties: bool = False,
    says: Sequence[int] = (),
) -> Path:
    """Save a causal model with two layers.

    With `ties`, each token has a twin whose score differs by a millionth. With `says`, the model generates these tokens
    after any prompt, because only the last token determines the next one.
    """
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(seed)
    config = LlamaConfig(
        vocab_size=len(SPECIAL) + 256,
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=2048,
        initializer_range=0.3,
        pad_token_id=None,
        bos_token_id=1,
        eos_token_id=2,
    )
    model = LlamaForCausalLM(config)
    with torch.no_grad():
        if ties:
            _pair(model.lm_head.weight)
        if says:
            _script(model, says)
    model.save_pretrained(folder)
    byte_tokenizer(bos=True, pad=pad, chat=chat).save_pretrained(folder)
    return folder


def _pair(weight: Any) -> None:
    import torch

    twins = weight[1::2]
    twins.copy_(weight[::2][: len(twins)] * (1 + (torch.rand(twins.shape) - 0.5) * 1e-6))


def _script(model: Any, says: Sequence[int]) -> None:
    """Switch off attention and MLPs, so that the last token's embedding is the state. Each token has its own axis.

    All other tokens share the first axis, which leads to the first token.
    """
    for layer in model.model.layers:
        layer.self_attn.o_proj.weight.zero_()
        layer.mlp.down_proj.weight.zero_()
    embeddings, head = model.model.embed_tokens.weight, model.lm_head.weight
    embeddings.zero_()
    head.zero_()
    embeddings[:, 0] = 1.0
    for axis, token in enumerate(says):
        head[token, axis] = 1.0
        embeddings[token] = 0.0
        embeddings[token, axis + 1] = 1.0


def save_t5(folder: Path, seed: int = 0) -> Path:
    """Save an encoder-decoder with two layers each."""
    import torch
    from transformers import T5Config, T5ForConditionalGeneration

    torch.manual_seed(seed)
    config = T5Config(
        vocab_size=len(SPECIAL) + 256,
        d_model=64,
        d_kv=16,
        d_ff=128,
        num_layers=2,
        num_heads=4,
        initializer_factor=4.0,
        pad_token_id=0,
        eos_token_id=2,
        decoder_start_token_id=0,
    )
    T5ForConditionalGeneration(config).save_pretrained(folder)
    byte_tokenizer(eos=True).save_pretrained(folder)
    return folder


def setting(task: str = "sst", system: str = "Be brief.", **template: Any) -> Setting:
    """Return a setting for a predictor of one task, with a short template."""
    layout = PromptTemplate(
        **{"input": "{context}\n{question}", "answer": "A:", "max_new_tokens": 12, **template}
    )
    return Setting(
        TASKS[task], "validation", lambda: iter(()), prompting=Prompting(task, layout, "tests", system)
    )


def asked(count: int) -> list[Question]:
    """Return questions of different lengths."""
    return [
        Question(
            f"q{index}", "Is this review negative or positive?", f"{'very ' * (index * 7 % 23)}good {index}"
        )
        for index in range(count)
    ]
