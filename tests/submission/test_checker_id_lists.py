import json

import pytest

from decabench.errors import DataError
from decabench.submission.checker import IdList, read_id_list, write_id_list

IDS = {("squad", "test"): ["b", "a"], ("iwslt.en.de", "validation"): ("ü", '"'), ("squad", "train"): []}
FINGERPRINTS = {("squad", "test"): "sha256:" + "0" * 64}


@pytest.mark.parametrize("name", ["ids.json", "ids.json.gz"])
def test_what_is_written_is_read(tmp_path, name):
    write_id_list(tmp_path / name, IDS, FINGERPRINTS)
    expected = IdList({pair: tuple(ids) for pair, ids in IDS.items()}, FINGERPRINTS)
    assert read_id_list(tmp_path / name) == expected
    assert list(read_id_list(tmp_path / name).ids) == [
        ("iwslt.en.de", "validation"),
        ("squad", "train"),
        ("squad", "test"),
    ]


def test_the_form_starts_with_its_version(tmp_path):
    write_id_list(tmp_path / "ids.json", IDS, FINGERPRINTS)
    text = (tmp_path / "ids.json").read_text(encoding="utf-8")
    assert text.startswith('{\n"format": "decabench.ids/1"')
    assert json.loads(text)["splits"][2] == {
        "task": "squad",
        "split": "test",
        "fingerprint": FINGERPRINTS["squad", "test"],
        "ids": ["b", "a"],
    }


@pytest.mark.parametrize(
    ("ids", "message"),
    [
        ({("squad", "dev"): []}, "Invalid enum value 'dev'"),
        ({("", "test"): []}, "one of its splits is called '.test'"),
        ({("squad", "test"): ["a", "a"]}, "the ids of squad.test are not unique"),
        ({("squad", "test"): ["\ud800"]}, "half of a surrogate pair"),
    ],
)
def test_what_could_not_be_read_is_not_written(tmp_path, ids, message):
    with pytest.raises(DataError, match=message):
        write_id_list(tmp_path / "ids.json", ids)
    assert not list(tmp_path.iterdir())


def split(**changes):
    entry = {"task": "squad", "split": "test", "ids": ["a"]} | changes
    return json.dumps({"format": "decabench.ids/1", "splits": [entry]}).encode()


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "it is not JSON"),
        (b"{", "it is not JSON"),
        (b"\xff", "it is not UTF-8"),
        (b"[]", "its format is not 'decabench.ids/1'"),
        (b'{"format": "decabench.ids/2"}', "its format is not"),
        (b'{"format": "decabench.ids/1"}', "in its splits, Expected `array`, got `null`"),
        (
            b'{"format": "decabench.ids/1", "splits": [1]}',
            r"in its splits, Expected `object`, got `int` - at `\$\[0\]`",
        ),
        (b'{"format": "decabench.ids/1", "splits": [], "splits": []}', "occurs twice"),
        (split(task=1), r"Expected `str`, got `int` - at `\$\[0\]\.task`"),
        (split(task=""), r"one of its splits is called '\.test'"),
        (split(split="dev"), r"Invalid enum value 'dev' - at `\$\[0\]\.split`"),
        (split(split=["test"]), r"Expected `str`, got `array` - at `\$\[0\]\.split`"),
        (split(ids=None), r"Expected `array`, got `null` - at `\$\[0\]\.ids`"),
        (split(ids=[1]), r"Expected `str`, got `int` - at `\$\[0\]\.ids\[0\]`"),
        (split(ids=["a", "a"]), "the ids of squad.test are not unique"),
        (split(ids=[["a"]]), r"Expected `str`, got `array` - at `\$\[0\]\.ids\[0\]`"),
        (split(ids=["\ud800"]), "half of a surrogate pair"),
        (split(fingerprint=1), r"got `int` - at `\$\[0\]\.fingerprint`"),
        (split().replace(b"}]", b"}, %s]" % split()[split().index(b"[{") + 1 : -2]), "squad.test twice"),
    ],
)
def test_damage_is_told_in_a_sentence(tmp_path, data, message):
    (tmp_path / "ids.json").write_bytes(data)
    with pytest.raises(DataError, match=rf"^ids\.json is not a valid id list: .*{message}") as error:
        read_id_list(tmp_path / "ids.json")
    assert error.value.exit_code == 3
