import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed: pip install 'decabench[train]'")
transformers = pytest.importorskip("transformers", reason="pip install 'decabench[hf]'")

from decabench.tasks import TASKS, Example, SplitRecord, Store
from decabench.vectors import open_vectors
from papers.encode_words import encode_words, find_words, main
from tests.models.encoders import write_encoder

WORDS = ["good", "heartwarming", "bad", "goodness", "unseen"]


@pytest.fixture
def encoder(tmp_path):
    return write_encoder(tmp_path)


def test_a_word_is_encoded_as_if_it_were_alone(encoder):
    vectors = encode_words(encoder, WORDS)
    assert np.linalg.norm(vectors, axis=1).mean() == pytest.approx(5.5, rel=1e-5)
    model = transformers.BertModel.from_pretrained(encoder).eval()
    alone = []
    for ids in ([2, 4, 3], [2, 6, 7, 8, 3], [2, 9, 3], [2, 4, 5, 3], [2, 1, 3]):
        with torch.no_grad():
            alone.append(model(torch.tensor([ids])).last_hidden_state[0].mean(0).numpy())
    scale = 5.5 / np.linalg.norm(alone, axis=1).mean()
    np.testing.assert_allclose(vectors, np.array(alone) * scale, atol=1e-5)


def test_input_embeddings_are_averaged_over_the_pieces_without_the_marks(encoder):
    vectors = encode_words(encoder, [*WORDS, " "], inputs=True)
    table = transformers.BertModel.from_pretrained(encoder).embeddings.word_embeddings.weight.detach().numpy()
    alone = [table[ids].mean(0) for ids in ([4], [6, 7, 8], [9], [4, 5], [1])] + [np.zeros(8)]
    np.testing.assert_allclose(
        vectors, np.array(alone) * 5.5 / np.linalg.norm(alone, axis=1).mean(), atol=1e-5
    )


def test_words_are_those_of_all_texts_the_most_frequent_first(tmp_path):
    texts = {
        "train": ("A Good film", ("good",)),
        "validation": ("dull", ("awful", "poor")),
        "test": ("fine film", ("good",)),
    }
    store, records = Store(tmp_path), {}
    for split, (context, answers) in texts.items():
        example = Example("1", "good or bad?", context, answers, (split,))
        count, fingerprint, _ = store.write("sst", split, [example])
        records[split] = SplitRecord(count, fingerprint, "user", "here", True, (), 1)
    store.write_records(TASKS["sst"], records)
    words = find_words(store, ["sst"])
    assert words[0] == "good"
    assert sorted(words) == sorted("? a awful bad dull film fine good or poor".split())


def test_vectors_are_read_again(home, encoder, tmp_path, monkeypatch):
    output = tmp_path / "vectors.npy"
    arguments = [str(encoder), "--tasks", "schema", "--home", str(home), "--output", str(output)]
    monkeypatch.setattr("sys.argv", ["encode_words.py", *arguments])
    main()
    vectors = open_vectors(str(output))
    assert vectors.dimension == 8
    words = find_words(Store(home), ["schema"])
    np.testing.assert_allclose(vectors.rows(words), encode_words(encoder, words))
