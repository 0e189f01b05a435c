"""The models against a transcription of the paper's equations, finite differences and their own ablations."""

from dataclasses import replace

import pytest

torch = pytest.importorskip("torch")

from decabench.errors import DecabenchError
from decabench.models import layers
from decabench.models.layers import positions
from decabench.models.mqan import DecoderPast
from decabench.models.mqan_batch import MODELS, MQANConfig
from decabench.tasks import TASKS, Question
from decabench.vectors.tokenizer import INIT
from tests.models.conftest import TEXTS
from tests.models.equations import mqan as equations

HEADS = 3
ALL = sorted(MODELS)


def weights(model):
    return dict(model.named_parameters())


@pytest.mark.parametrize("name", ALL)
def test_it_is_what_the_equations_say(kit, name):
    made = kit(name)
    log_p = made.model.log_likelihood(made.batch())
    for row, text in enumerate(TEXTS):
        expected = -equations.negative_log_likelihood(made.apart(text), weights(made.model), HEADS)[0]
        torch.testing.assert_close(log_p[row, : len(expected)], expected, atol=1e-5, rtol=1e-5)
        assert log_p[row, len(expected) :].eq(0).all()


DEPARTURES = ["split_heads", "layer_by_layer", "norm_sublayers", "tanh_coattention"]


@pytest.mark.parametrize("dimension", [10, 12])
@pytest.mark.parametrize(
    ("name", "departures"),
    [
        *(("mqan", [key]) for key in DEPARTURES),
        ("mqan", DEPARTURES),
        *(("satt", [key]) for key in DEPARTURES[:-1]),  # it has no coattention
        ("satt", DEPARTURES[:-1]),
    ],
)
def test_it_is_what_the_authors_code_says(kit, name, dimension, departures):
    made = kit(name, dimension=dimension, **dict.fromkeys(departures, True))
    log_p = made.model.log_likelihood(made.batch())
    as_paper = kit(name, dimension=dimension).model
    for row, text in enumerate(TEXTS):
        expected = -equations.negative_log_likelihood(
            made.apart(text), weights(made.model), HEADS, "layer_by_layer" in departures
        )[0]
        torch.testing.assert_close(log_p[row, : len(expected)], expected, atol=1e-5, rtol=1e-5)
    if departures == ["layer_by_layer"]:  # the same weights, read elsewhere
        assert not torch.allclose(log_p, as_paper.log_likelihood(made.batch()))
    elif name == "mqan":
        assert weights(made.model).keys() != weights(as_paper).keys()


@pytest.mark.parametrize("departure", DEPARTURES)
def test_a_departure_decodes_as_it_was_trained(kit, departure, monkeypatch):
    made = kit("mqan", **{departure: True})
    model, batch = made.model.eval(), made.batch()
    monkeypatch.setattr(
        model, "words", lambda rows, batch: batch.vectors[rows]
    )  # reads the given answer, not its own
    past = DecoderPast(model, batch, batch.answer.shape[1])
    with torch.no_grad():
        log_p = model.log_likelihood(batch)
        for step, (said, target) in enumerate(zip(batch.answer.T, batch.target.T, strict=True)):
            p = past.step(said)
            counts = target > INIT  # the other special words are no answers
            found = p.gather(1, target[:, None])[counts, 0].log()
            torch.testing.assert_close(found, log_p[counts, step], atol=1e-4, rtol=1e-4)


def test_the_loop_of_answers_is_as_precise_as_that_of_training(kit):
    """In mixed precision, steps alone rounded the state that they pass on to 8 bits, and training's loop did not."""
    made = kit("mqan")
    batch, decoder = made.batch(), made.model.decoder
    with torch.no_grad():
        encoded = made.model.encoder(batch)
        states = ("context", "h", "c")
        encoded = replace(encoded, **{name: getattr(encoded, name).bfloat16() for name in states})
        a_self = torch.randn(len(encoded.h), 30, encoded.h.shape[1]).bfloat16()
        with torch.autocast("cpu", torch.bfloat16):
            h, context, _ = decoder.recur(a_self, encoded)
            state, found = decoder.start(encoded), []
            for step in range(a_self.shape[1]):
                *made_now, state = decoder.step(a_self[:, step : step + 1], encoded, state)
                found.append(made_now[:2])
    assert {each.dtype for each in (h, *state)} == {torch.float32}
    for ours, whole in zip(zip(*found, strict=True), (h, context), strict=True):
        torch.testing.assert_close(torch.cat(ours, 1), whole, rtol=0, atol=0.01)  # what steps read is rounded


@pytest.mark.parametrize("name", ALL)
def test_masks_of_attention_are_as_gpus_take_them(kit, name, monkeypatch):
    """An H200 refused to answer in float32: "(*bias): last dimension must be contiguous" (torch 2.11).

    Its kernel, unlike that of a CPU, takes no mask that is spread over the keys.
    """
    masks, attention = [], layers.F.scaled_dot_product_attention

    def attend(query, key, value, attn_mask=None, **rest):
        if attn_mask is not None:
            masks.append((attn_mask.shape[-1] == key.shape[-2], attn_mask.stride(-1)))
        return attention(query, key, value, attn_mask=attn_mask, **rest)

    monkeypatch.setattr(layers.F, "scaled_dot_product_attention", attend)
    made = kit(name)
    made.model.eval()
    made.model.log_likelihood(made.batch())
    model = made.trained()
    asked = [Question(str(at), question, context) for at, (question, context, _) in enumerate(TEXTS)]
    for beam in (1, 2):
        model.answer(TASKS["squad"], asked, limit=4, beam=beam)
    assert bool(masks) == made.model.encoder.parts.self_attention
    assert set(masks) <= {(True, 1)}


@pytest.mark.parametrize("name", ALL)
def test_a_batch_gives_what_its_examples_give_alone(kit, name):
    made = kit(name)
    together = made.model.log_likelihood(made.batch())
    for row, text in enumerate(TEXTS):
        alone = made.model.log_likelihood(made.batch([text]))[0]
        torch.testing.assert_close(together[row, : len(alone)], alone, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("name", ALL)
def test_the_gradient_is_that_of_the_equations(kit, name):
    made = kit(name)
    made.model.log_likelihood(made.batch()).sum().backward()
    found = {key: value.grad.clone() for key, value in made.model.named_parameters()}
    made.model.zero_grad()
    sum(
        -equations.negative_log_likelihood(made.apart(text), weights(made.model), HEADS).sum()
        for text in TEXTS
    ).backward()
    for key, value in made.model.named_parameters():
        scale = value.grad.abs().max().item() + 1e-3
        torch.testing.assert_close(found[key] / scale, value.grad / scale, atol=1e-4, rtol=1e-3, msg=key)


@pytest.mark.parametrize("name", ALL)
def test_every_parameter_is_used(kit, name):
    made = kit(name)
    made.model.log_likelihood(made.batch()).sum().backward()
    unused = [
        key for key, value in made.model.named_parameters() if value.grad is None or not value.grad.any()
    ]
    assert unused == []


def test_gradients_by_finite_differences(kit):
    made = kit("mqan", dimension=4, hidden=3, layers=1)
    made.model.double()
    for key, buffer in made.model.named_buffers():
        assert buffer.dtype == torch.float64, key
    batch = made.batch(TEXTS[:2])
    batch = type(batch)(
        **{**{f: getattr(batch, f) for f in batch.__dataclass_fields__}, "vectors": batch.vectors.double()}
    )
    made.model.log_likelihood(batch).sum().backward()
    generator = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for key, value in made.model.named_parameters():
            direction = torch.randn(value.shape, generator=generator, dtype=value.dtype)
            step = 1e-5
            value += step * direction
            above = made.model.log_likelihood(batch).sum()
            value -= 2 * step * direction
            below = made.model.log_likelihood(batch).sum()
            value += step * direction
            numeric, exact = ((above - below) / (2 * step)).item(), (value.grad * direction).sum().item()
            assert numeric == pytest.approx(exact, rel=1e-3, abs=1e-3), key


@pytest.mark.parametrize("name", ALL)
def test_a_distribution_sums_to_one_and_holds_what_training_sees(kit, name):
    made = kit(name)
    batch = made.batch()
    model = made.model
    encoded = model.encoder(batch)
    a_self = model.decoder.self_attend(model.decoder.represent(batch.vectors[batch.answer]), encoded)
    h, context, attention = model.decoder.recur(a_self, encoded)
    decoded = model.decoder.point(a_self, h, context, attention, encoded)
    p = model.distribution(decoded, batch)
    assert p.shape[-1] == made.lexicon.size + len(batch.others)
    torch.testing.assert_close(p.sum(-1), torch.ones(p.shape[:2]))
    chosen = p.gather(2, batch.target[..., None]).squeeze(-1).log()
    valid = batch.target > 0
    torch.testing.assert_close(chosen[valid], model.log_likelihood(batch)[valid], atol=1e-5, rtol=1e-5)


def test_each_ablation_lacks_what_the_paper_says(kit):
    names = {name: {key.split(".")[1] for key in weights(kit(name).model)} for name in ALL}
    assert names["mqan"] - names["catt"] == {"question_query", "question_state", "context_switch"}
    assert names["catt"] - names["satt"] == {"coattention", "compress"}
    assert names["satt"] - names["s2s"] == {"attend", "final", "layers"}


def test_positions():
    table = positions(3, 4)
    assert table[0].tolist() == [0.0, 1.0, 0.0, 1.0]
    expected = [0.8414709848, 0.5403023059, 0.0998334166, 0.9950041653]  # sin 1, cos 1, sin .1, cos .1
    assert table[1].tolist() == pytest.approx(expected)


def test_dropout_on_the_inputs_of_lstms_is_a_setting_of_its_own(kit):
    def losses(**rates):
        made = kit("mqan", **rates)
        torch.manual_seed(5)
        return made.model.log_likelihood(made.batch())

    plain = losses(dropout=0.0)
    assert torch.equal(losses(dropout=0.0, lstm_dropout=0.0), plain)
    assert not torch.equal(losses(dropout=0.0, lstm_dropout=0.5), plain)
    same = losses(dropout=0.5)
    assert torch.equal(losses(dropout=0.5, lstm_dropout=-1.0), same)
    assert torch.equal(losses(dropout=0.5, lstm_dropout=0.5), same)
    assert not torch.equal(losses(dropout=0.5, lstm_dropout=0.0), same)
    made = kit("mqan", dropout=0.5, lstm_dropout=0.0).model.encoder
    lstms = [made.independent, *made.compress.values(), *made.final.values()]
    assert [lstm.dropout.rate for lstm in lstms] == [0.0] * 5
    assert made.dropout.rate == 0.5


@pytest.mark.parametrize("rate", [-0.5, 1.0, float("nan")])
def test_a_rate_of_dropout_that_is_none(rate):
    with pytest.raises(DecabenchError, match=r"lstm_dropout is .*: give at least 0 and below 1, or -1"):
        MQANConfig(lstm_dropout=rate)


def test_dropout_is_for_training_alone(kit):
    made = kit("mqan", dropout=0.5)
    batch = made.batch()
    assert not torch.equal(made.model.log_likelihood(batch), made.model.log_likelihood(batch))
    made.model.eval()
    assert torch.equal(made.model.log_likelihood(batch), made.model.log_likelihood(batch))


@pytest.mark.heavy
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # of torch itself while it compiles
def test_a_compiled_step_says_the_same(kit):
    made = kit("mqan")
    batch = made.batch()
    plain = made.model.log_likelihood(batch)
    plain.sum().backward()
    gradients = [parameter.grad.clone() for parameter in made.model.parameters()]
    made.model.zero_grad()
    try:
        made.model.compile_step()
        compiled = made.model.log_likelihood(batch)
    except Exception as error:
        if "compiler" not in str(error).lower():
            raise
        pytest.skip(f"torch.compile has no compiler here: {type(error).__name__}")
    compiled.sum().backward()
    torch.testing.assert_close(compiled, plain, atol=1e-5, rtol=1e-5)
    for parameter, gradient in zip(made.model.parameters(), gradients, strict=True):
        torch.testing.assert_close(parameter.grad, gradient, atol=1e-4, rtol=1e-3)


def test_settings_of_parts_that_an_ablation_lacks_are_named():
    everything = dict.fromkeys(DEPARTURES, True)
    assert MQANConfig(**everything).without_effect == ()
    assert MQANConfig(name="satt", **everything).without_effect == ("tanh_coattention",)
    assert MQANConfig(name="s2s", **everything).without_effect == tuple(DEPARTURES)
    assert MQANConfig(name="s2s").without_effect == ()
