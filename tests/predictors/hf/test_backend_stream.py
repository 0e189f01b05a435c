"""Answers don't depend on the batch size. Batches that don't fit are halved, and errors affect single questions."""

from contextlib import contextmanager
from dataclasses import replace

import pytest

pytest.importorskip("transformers", reason="needs the extra hf: pip install 'decabench[hf]'")

from decabench.errors import LostDeviceError
from decabench.predictors.hf.backend import BatchSize, backend
from decabench.predictors.protocol import Answer, Failure, ModelOptions
from decabench.tasks.example import Question
from tests.predictors.hf.hf_models import CHAT, asked, save_llama, save_t5, setting

SIZES = (1, 3, 8, 64)


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """A causal model, a chat model without padding token, an encoder-decoder, and a model full of ties."""
    base = tmp_path_factory.mktemp("models")
    return {
        "causal": save_llama(base / "causal"),
        "chat": save_llama(base / "chat", chat=CHAT, pad=False),
        "encoder-decoder": save_t5(base / "encoder-decoder"),
        "ties": save_llama(base / "ties", ties=True),
    }


@pytest.fixture(scope="module")
def opened(models):
    """Return a factory of predictors that share one loaded causal model."""
    with backend(str(models["causal"]), ModelOptions(device="cpu")).open() as factory:
        yield factory


@pytest.fixture
def causal(opened):
    """Make a predictor with this batch size."""

    def make(size):
        made = opened(setting())
        made.size = BatchSize(size)
        return made

    return make


@contextmanager
def predictor(folder, about=None, **options):
    with backend(str(folder), ModelOptions(device="cpu", **options)).open() as factory:
        yield factory(replace(about or setting(), seed=options.get("seed", 0)))


def answers(folder, questions, about=None, **options):
    with predictor(folder, about, **options) as made:
        return dict(made.stream(questions))


def by_size(folder, questions, **options):
    """Return the answers of one loaded model at each batch size."""
    with predictor(folder, **options) as made:
        for size in SIZES:
            made.size.most = size
            yield dict(made.stream(questions))


@pytest.mark.parametrize(
    "sampling",
    [
        pytest.param({}, id="greedy"),
        pytest.param({"temperature": 0.7, "seed": 4}, id="sampled", marks=pytest.mark.heavy),
    ],
)
@pytest.mark.parametrize("name", ["causal", "chat", "encoder-decoder", "ties"])
def test_the_size_of_a_batch_changes_no_answer(models, name, sampling):
    alone, *others = by_size(models[name], asked(20), **sampling)
    assert len({answer.text for answer in alone.values()}) > 10  # the answers depend on the question
    assert others == [alone] * 3


def test_the_answer_is_what_transformers_makes_of_the_prompt_alone(models):
    """The reference is transformers' greedy decoding of one unpadded prompt."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    questions = asked(5)
    made = answers(models["causal"], questions, batch_size=5)
    model = AutoModelForCausalLM.from_pretrained(models["causal"])
    tokenizer = AutoTokenizer.from_pretrained(models["causal"])
    for question in questions:
        given = tokenizer(setting().prompting.text(question), return_tensors="pt")
        with torch.no_grad():
            output = model.generate(
                given.input_ids,
                attention_mask=given.attention_mask,
                max_new_tokens=12,
                do_sample=False,
                pad_token_id=0,
            )
        new = output[0, given.input_ids.shape[1] :]
        answer = made[question.id]
        assert answer.text == tokenizer.decode(new, skip_special_tokens=True)
        assert (answer.prompt_tokens, answer.completion_tokens) == (given.input_ids.shape[1], len(new))


def test_saved_generation_settings_decide_nothing(models, tmp_path):
    from transformers import GenerationConfig

    expected = answers(models["causal"], asked(4))
    folder = save_llama(tmp_path)
    GenerationConfig(
        do_sample=True, temperature=9.0, repetition_penalty=3.0, max_length=3, eos_token_id=2, bos_token_id=1
    ).save_pretrained(folder)
    assert answers(folder, asked(4)) == expected


def test_draws_depend_on_the_seed_and_the_example_alone(models):
    questions = asked(6)
    one = answers(models["causal"], questions, temperature=1.0, seed=1)
    assert answers(models["causal"], questions[::-1][:3], temperature=1.0, seed=1).items() <= one.items()
    assert answers(models["causal"], questions, temperature=1.0, seed=2) != one
    greedy = answers(models["causal"], questions)
    assert one != greedy and answers(models["causal"], questions, temperature=1e-4) == greedy
    assert answers(models["causal"], questions, temperature=1.0, top_p=1e-9) == greedy


def byte_of(text):
    """Return the token of a letter. Seven special tokens come first, then the alphabet."""
    from tests.predictors.hf.hf_models import byte_tokenizer

    (id_,) = byte_tokenizer().encode(text, add_special_tokens=False)
    return id_


@pytest.fixture
def says(tmp_path):
    """Save a model that always generates the given bytes. None stands for `</s>`."""

    def make(*tokens, chat=None):
        return save_llama(tmp_path / "says", chat=chat, says=[2 if t is None else byte_of(t) for t in tokens])

    return make


def test_an_answer_that_ends_and_one_that_does_not(says):
    folder = says("y", "e", "s", None)
    (answer,) = answers(folder, asked(1)).values()
    assert (answer.text, answer.finish, answer.completion_tokens) == ("yes", "stop", 4)
    (answer,) = answers(folder, asked(1), max_new_tokens=2).values()
    assert (answer.text, answer.finish, answer.completion_tokens) == ("ye", "length", 2)


@pytest.mark.parametrize("chat", [None, "{{ messages[-1]['content'] }}<think>"])
def test_an_answer_that_is_cut_while_the_model_reasons_gets_more_room(says, monkeypatch, chat):
    monkeypatch.setattr("decabench.predictors.protocol.REASONING_TOKENS", 20)
    folder = says(*("abc" if chat else "<think>"), chat=chat)
    (answer,) = answers(folder, asked(1)).values()
    assert (answer.finish, answer.completion_tokens) == ("length", 12 + (12 + 20))  # of both requests
    (answer,) = answers(folder, asked(1), max_new_tokens=12).values()
    assert answer.completion_tokens == 12


def test_plain_text_ends_where_the_template_says(says):
    folder = says(" ", "n", "o", "\n", "#", "Q", None)
    about = setting(stop=("\n#", "##"))
    for answer in answers(folder, asked(3), about).values():
        assert (answer.text, answer.finish, answer.completion_tokens) == (" no", "stop", 5)
    (answer,) = answers(folder, asked(1), setting()).values()
    assert answer.text == " no\n#Q"


@pytest.mark.parametrize("stop", ["é", "fé", "é n"])
def test_a_stop_may_be_beyond_ascii(tmp_path, stop):
    """The last character of the text may be split between two tokens."""
    from tests.predictors.hf.hf_models import byte_tokenizer

    ids = byte_tokenizer().encode("café noir", add_special_tokens=False)
    folder = save_llama(tmp_path / "says", says=[*ids, *ids])
    about = setting(stop=(stop,), max_new_tokens=16)
    (answer,) = answers(folder, asked(1), about).values()
    tokens = len("café noir".partition(stop)[0].encode() + stop.encode())
    assert (answer.text, answer.finish) == ("café noir".partition(stop)[0], "stop")
    assert answer.completion_tokens == tokens


def test_a_cut_is_told(models):
    question = Question("q", "Which?", "word " * 500)
    (answer,) = answers(models["causal"], [question]).values()
    assert answer.context_kept is not None and answer.prompt_tokens <= 2048 - 12
    start, end = answer.context_kept
    assert start == 0 and 1900 < end < 2036  # one token per byte, and the prompt needs some
    (answer,) = answers(models["causal"], [question], max_prompt_tokens=100).values()
    assert 90 < answer.prompt_tokens <= 100
    (answer,) = answers(models["encoder-decoder"], [question]).values()
    assert answer.context_kept is None  # it has relative positions and no limit


class Breaks:
    """Wraps a generator. Records all batches and raises an error for some."""

    def __init__(self, generator, error):
        self.generator, self.error, self.seen = generator, error, []
        self.decoding, self.loaded = generator.decoding, generator.loaded

    def answers(self, prompts):
        self.seen.append(len(prompts))
        if error := self.error(prompts):
            raise error
        return self.generator.answers(prompts)


def no_memory():
    import torch

    return torch.OutOfMemoryError("CUDA out of memory.")


@pytest.mark.parametrize(
    "error", [no_memory, lambda: RuntimeError("DefaultCPUAllocator: can't allocate memory"), MemoryError]
)
def test_a_batch_that_does_not_fit_is_halved(causal, error):
    questions = asked(16)
    made = causal(8)
    expected = dict(made.stream(questions))
    made.generator = Breaks(made.generator, lambda prompts: error() if len(prompts) > 2 else None)
    assert dict(made.stream(questions)) == expected
    assert made.generator.seen[:3] == [8, 4, 2] and max(made.generator.seen[2:]) == 2


def has_q2(prompts):
    return any(prompt.question.id == "q2" for prompt in prompts)


def test_a_prompt_that_does_not_fit_alone_is_a_failure(causal):
    made = causal(4)
    made.generator = Breaks(made.generator, lambda prompts: no_memory() if has_q2(prompts) else None)
    said = dict(made.stream(asked(6)))
    assert [id_ for id_, outcome in said.items() if isinstance(outcome, Failure)] == ["q2"]
    assert "does not fit in memory" in said["q2"].error


def test_a_device_that_is_lost_ends_the_run(causal):
    """Every later call would fail too, so the run ends instead of recording failed questions."""
    made = causal(4)
    made.generator = breaks = Breaks(
        made.generator, lambda prompts: RuntimeError("CUDA error: device-side assert")
    )
    with pytest.raises(LostDeviceError, match="run the same command again"):
        list(made.stream(asked(4)))
    assert breaks.seen == [4]


def test_a_token_that_the_model_does_not_know_fails_alone(causal):
    """On a GPU, looking up the token would crash the process."""
    made = causal(4)
    loaded = made.generator.loaded
    made.generator = replace(made.generator, loaded=replace(loaded, tokens=loaded.tokens - 1))
    odd = Question(
        "odd", "Is this review negative or positive?", "na\u00adive"
    )  # the last byte is the last token
    outcomes = dict(made.stream([*asked(2), odd]))
    assert isinstance(outcomes["odd"], Failure) and "not in the model's vocabulary" in outcomes["odd"].error
    assert all(isinstance(outcomes[question.id], Answer) for question in asked(2))
