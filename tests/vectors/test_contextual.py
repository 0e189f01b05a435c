import json
import shutil
from dataclasses import replace

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed: pip install 'decabench[train]'")
transformers = pytest.importorskip("transformers", reason="pip install 'decabench[hf]'")

from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import ByteLevel

from decabench.errors import DataError, MissingDataError
from decabench.models import Checkpoint, export_checkpoint, latest_checkpoint
from decabench.models.mqan import Encoder
from decabench.models.mqan_batch import collate
from decabench.training.loop import run_training
from decabench.vectors import join_vectors
from decabench.vectors.contextual import open_contextual
from decabench.vectors.word_vectors import JoinedVectors, NoVectors, WordTable
from tests.models.encoders import write_encoder

TEXT = ["<init>", " a ", " heartwarming ", " film ", "<eos>"]
IDS = [2, 11, 6, 7, 8, 10, 3]


@pytest.fixture(scope="module")
def encoder(tmp_path_factory):
    return write_encoder(tmp_path_factory.mktemp("encoder"))


def states(encoder, ids):
    """Return transformers' states of the last layer."""
    model = transformers.BertModel.from_pretrained(encoder).eval()
    with torch.no_grad():
        return model(torch.tensor([ids])).last_hidden_state[0].numpy()


def scaled(rows):
    return 5.5 * rows / np.linalg.norm(rows, axis=1, keepdims=True)


def test_a_word_has_the_mean_of_the_states_of_its_pieces(encoder):
    found = open_contextual(f"contextual:{encoder}").rows(TEXT)
    all_states = states(encoder, IDS)
    expected = [all_states[at].mean(0) for at in ([0], [1], [2, 3, 4], [5], [6])]
    np.testing.assert_allclose(found, scaled(np.array(expected)), atol=2e-3)


def test_the_words_of_roberta_begin_with_a_space(tmp_path):
    folder = write_encoder(tmp_path)
    vocabulary = {piece: number for number, piece in enumerate(["<unk>", "good", "Ġgood", "film", "Ġfilm"])}
    tokenizer = Tokenizer(WordLevel(vocabulary, unk_token="<unk>"))
    tokenizer.pre_tokenizer = ByteLevel(add_prefix_space=False)
    tokenizer.save(str(folder / "tokenizer.json"))
    found = open_contextual(f"contextual:{folder}").rows(["good", "film"])
    np.testing.assert_allclose(found, scaled(states(folder, [2, 4])), atol=2e-3)


def test_a_text_of_more_pieces_than_positions_is_read_in_parts(tmp_path):
    encoder = write_encoder(tmp_path, max_position_embeddings=10)  # 8 pieces, with the two marks
    words = ["good", "bad", "heartwarming", "film", "a", "heartwarming", "bad"]
    found = open_contextual(f"contextual:{encoder}").rows(["<init>", *words, "<eos>"])
    first, last = states(encoder, [2, 4, 9, 6, 7, 8, 10, 3]), states(encoder, [2, 11, 6, 7, 8, 9, 3])
    expected = [first[at].mean(0) for at in ([0], [1], [2], [3, 4, 5], [6])]
    expected += [last[at].mean(0) for at in ([1], [2, 3, 4], [5], [6])]
    np.testing.assert_allclose(found, scaled(np.array(expected)), atol=2e-3)


def test_nothing_but_what_the_digest_is_of_decides_the_vectors(encoder, tmp_path):
    folder = write_encoder(tmp_path)
    digest = open_contextual(f"contextual:{folder}").digest
    wanted = open_contextual(f"contextual:{encoder}").rows(TEXT)
    weights = load_file(folder / "model.safetensors")
    other = {name: torch.randn_like(value) for name, value in weights.items()}
    for name in ("other", "shard-00001-model-00001-of-00001", "zz", "adapter_model", "pytorch_model"):
        save_file(other, folder / f"{name}.safetensors")
    found = open_contextual(f"contextual:{folder}")
    assert found.digest == digest and np.array_equal(found.rows(TEXT), wanted)
    change(folder, transformers_weights="other.safetensors")
    found = open_contextual(f"contextual:{folder}")
    assert found.digest != digest and np.array_equal(found.rows(TEXT), wanted)


def change(folder, **changes):
    path = folder / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"model_type": "llama"}, "'model_type' in config.json is 'llama', not one of albert, bert"),
        (
            {"model_type": "custom", "auto_map": {"AutoModel": "evil.Model"}},
            "'model_type' in config.json is 'custom'",
        ),
        ({"quantization_config": {"quant_method": "gptq"}}, "weights are quantized"),
        (
            {"attn_implementation": "somebody/kernels"},
            "has the key 'attn_implementation', which may refer to code on the hub",
        ),
        (
            {"num_hidden_layers": 3},
            r"model.safetensors lacks 16 of the model's weights, such as encoder\.layer\.2",
        ),
        (
            {"hidden_size": 12},
            r"belong to different encoders: the shape of embeddings\.LayerNorm\.bias is \(8,\) instead of \(12,\)",
        ),
        ({"layer_norm_eps": -5.0}, "output contains numbers that are not finite"),
        ({"chunk_size_feed_forward": 3}, "has to be a multiple of the chunk size 3"),
    ],
)
def test_what_is_no_encoder_is_refused(tmp_path, changes, said):
    folder = write_encoder(tmp_path)
    change(folder, **changes)
    with pytest.raises(DataError, match=said):
        open_contextual(f"contextual:{folder}")


def test_names_of_vectors(encoder):
    joined = join_vectors(["none:4", f"contextual:{encoder}"])
    assert joined.dimension == 4
    assert joined.digest == f"none:4+{joined.contextual[0].digest}"
    with pytest.raises(DataError, match=f"The contextual vectors contextual:{encoder} must come last"):
        join_vectors([f"contextual:{encoder}", "none:4"])
    with pytest.raises(DataError, match="lists only contextual vectors"):
        join_vectors([f"contextual:{encoder}"])


@pytest.mark.parametrize("name", ["mqan", "s2s"])
def test_a_model_reads_them_and_answers_as_it_did(make_run, encoder, tmp_path, name):
    run = make_run(steps=4, vectors=("none:8", f"contextual:{encoder}"))
    run = replace(run, config=replace(run.config, model=replace(run.config.model, name=name)))
    run_training(run)
    saved = latest_checkpoint(run.output)
    network = saved.load("cpu").network
    assert network.encoder.project_contextual.weight.shape == (run.config.model.dimension, 8)
    before = saved.load("cpu").words
    copy = tmp_path / "copy"
    export_checkpoint(saved, copy, half=False)
    exported = Checkpoint.open(copy)
    with pytest.raises(MissingDataError, match="copy the encoder's folder into the checkpoint's folder"):
        exported.load("cpu")
    shutil.copytree(encoder, copy / encoder.name)
    assert exported.vectors == ("none:8", f"contextual:{copy / encoder.name}")
    assert exported.record.vectors == before.vectors.digest
    assert exported.record.exported_from["vectors"].keys() == {"none:8", f"contextual:{encoder.name}"}
    again = exported.load("cpu").network.state_dict()
    assert all(torch.equal(again[key], value) for key, value in network.state_dict().items())


def test_they_are_more_columns_of_the_words_vectors(kit, encoder):
    """Eq. 15 of the paper for [word vector; contextual vector] equals an encoder with the two joined in one vector."""
    made = kit("mqan")
    contextual = open_contextual(f"contextual:{encoder}")
    table = WordTable(made.lexicon, JoinedVectors((NoVectors(12),), (contextual,)))
    batch = collate("squad", made.items(), table, made.config)
    assert batch.context_vectors.shape == (*batch.context.shape, 8)
    for text, row in zip(made.items(), batch.question_vectors.numpy(), strict=True):
        words = [made.lexicon.words[number] for number in text["question"]]
        np.testing.assert_array_equal(row[: len(words)], contextual.rows(words))
        assert not row[len(words) :].any()
    torch.manual_seed(2)
    ours, joined = Encoder(made.config, 12, 8).eval(), Encoder(made.config, 20).eval()
    weights = ours.state_dict()
    columns = [weights["project.weight"], weights.pop("project_contextual.weight")]
    joined.load_state_dict({**weights, "project.weight": torch.cat(columns, 1)})
    sides = {
        name: torch.cat([batch.vectors[getattr(batch, name)], getattr(batch, f"{name}_vectors")], -1)
        for name in ("context", "question")
    }
    flat = torch.cat([side.flatten(0, 1) for side in sides.values()])
    count = batch.context.numel()
    as_one = replace(
        batch,
        vectors=flat,
        context=torch.arange(count).reshape(batch.context.shape),
        question=torch.arange(count, len(flat)).reshape(batch.question.shape),
    )
    one, other = ours(batch), joined(as_one)
    for key in ("context", "question", "state"):
        torch.testing.assert_close(getattr(one, key), getattr(other, key), rtol=1e-5, atol=1e-6)
