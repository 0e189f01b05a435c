"""`hf:` backends: descriptions of models, refused models and options, and the hub."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("transformers", reason="needs the extra hf: pip install 'decabench[hf]'")

from decabench.errors import DecabenchError
from decabench.predictors.hf.backend import BatchSize, backend
from decabench.predictors.protocol import ModelOptions
from decabench.predictors.schemes import make_backend
from tests.predictors.hf.hf_models import CHAT, asked, save_llama, setting
from tests.tasks.sources.server import Fault, FileServer


@pytest.fixture(scope="module")
def llama(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_llama(tmp_path_factory.mktemp("hf") / "llama")


@pytest.fixture
def copy(llama: Path, tmp_path: Path) -> Path:
    """Return a copy that a test may change."""
    folder = tmp_path / "llama"
    folder.mkdir()
    for path in llama.iterdir():
        (folder / path.name).write_bytes(path.read_bytes())
    return folder


def described(folder: Path, **options: Any) -> dict[str, Any]:
    return backend(str(folder), ModelOptions(**{"device": "cpu", **options})).describe()


def test_what_it_says_of_a_model(llama: Path) -> None:
    import torch
    import transformers

    about = described(llama)
    digest = about.pop("weights")
    assert digest.startswith("sha256:") and len(digest) == 71
    assert about == {
        "model": "llama",
        "architecture": "LlamaForCausalLM",
        "dtype": "float32",
        "chat": False,
        "decoding": "greedy",
        "transformers": transformers.__version__,
        "torch": torch.__version__.partition("+")[0],
    }


def test_it_says_what_decides_answers_and_no_path(llama: Path, tmp_path: Path) -> None:
    about = described(llama, revision="v1", temperature=0.5, seed=3, max_new_tokens=7, max_prompt_tokens=99)
    assert about["decoding"] == {"temperature": 0.5, "top_p": 1.0, "seed": 3}
    assert (about["revision"], about["max_new_tokens"], about["max_prompt_tokens"]) == ("v1", 7, 99)
    assert str(llama.parent) not in json.dumps(about)
    assert json.loads(json.dumps(about)) == about
    assert described(llama, batch_size=4) == described(llama)  # it has no effect on CPU in float32
    assert described(llama, batch_size=4, dtype="bfloat16")["batch_size"] == 4
    assert described(llama, device="cuda")["batch_size"] == "auto"
    moved = tmp_path / "elsewhere" / "llama"
    moved.parent.mkdir()
    moved.symlink_to(llama, target_is_directory=True)
    assert described(moved) == described(llama)


@pytest.mark.parametrize("name", ["tokenizer_config.json", "config.json", "tokenizer.json"])
def test_every_file_that_affects_answers_changes_the_digest(copy: Path, name: str) -> None:
    before = described(copy)["weights"]
    (copy / "README.md").write_text("Nothing that decides.")
    assert described(copy)["weights"] == before
    (copy / name).write_text((copy / name).read_text() + "\n")
    assert described(copy)["weights"] != before


def test_a_chat_template_is_used_unless_told_otherwise(tmp_path: Path, llama: Path) -> None:
    import hashlib

    folder = save_llama(tmp_path / "chat", chat=CHAT)
    about = described(folder)
    assert (about["chat"], about["chat_template"]) == (True, hashlib.sha256(CHAT.encode()).hexdigest())
    assert described(folder, chat=False)["chat"] is False
    assert "chat_template" not in described(folder, chat=False)
    with pytest.raises(DecabenchError, match="llama has no chat template"):
        described(llama, chat=True)


def test_the_prompt_that_is_shown_is_the_one_that_is_sent(
    command: Callable[..., Any], home: Path, tmp_path: Path, llama: Path
) -> None:
    """Models without a chat template get plain text, and the shown prompt must not contain chat turns."""
    shared = ("--show-prompt", "sst", "--home", home)
    plain = command("predict", "--predictor", f"hf:{llama}", *shared)
    assert (
        plain.exit_code == 0
        and "[user]" not in plain.stdout
        and plain.stdout.rstrip().endswith("Answer: <answer>")
    )
    chat = save_llama(tmp_path / "chat", chat=CHAT)
    assert "[user]" in command("predict", "--predictor", f"hf:{chat}", *shared).stdout
    assert command("predict", "--predictor", f"hf:{chat}", *shared, "--no-chat").stdout == plain.stdout


def test_the_counter_counts_what_the_model_is_given(llama: Path) -> None:
    made = backend(str(llama), ModelOptions(device="cpu"))
    count = made.token_counter()
    prompting = setting().prompting
    assert prompting is not None
    with made.open() as factory:
        outcomes = dict(factory(setting()).stream(asked(3)))
    assert [count(prompting, question) for question in asked(3)] == [
        outcomes[question.id].prompt_tokens for question in asked(3)
    ]


def test_files_that_change_before_they_are_loaded_are_refused(copy: Path) -> None:
    made = backend(str(copy), ModelOptions(device="cpu"))
    save_llama(copy, seed=5)
    with pytest.raises(DecabenchError, match="have changed since the run began"), made.open():
        pass


def no_config(folder: Path) -> None:
    (folder / "config.json").unlink()


def no_json(folder: Path) -> None:
    (folder / "config.json").write_text("{")


def no_tokenizer(folder: Path) -> None:
    for path in folder.glob("tokenizer*"):
        path.unlink()


def pickled(folder: Path) -> None:
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")


def no_weights(folder: Path) -> None:
    (folder / "model.safetensors").unlink()


def adapter(folder: Path) -> None:
    (folder / "adapter_config.json").write_text("{}")


def code(folder: Path) -> None:
    (folder / "run.py").write_text("raise SystemExit('code was run')")
    names = {"AutoConfig": "run.Config", "AutoModelForCausalLM": "run.Model"}
    (folder / "config.json").write_text(json.dumps({"model_type": "theirs", "auto_map": names}))


def kernels(folder: Path) -> None:
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"attn_implementation": "somebody/attention"}))


def other_type(folder: Path) -> None:
    (folder / "config.json").write_text('{"model_type": "none-such"}')


@pytest.mark.parametrize(
    ("damage", "sentence"),
    [
        (no_config, "llama has no config.json"),
        (no_json, "config.json in llama can't be read"),
        (no_tokenizer, "llama has no tokenizer"),
        (pickled, "llama has only pickled weights, which can run code"),
        (no_weights, "llama has no weights in safetensors"),
        (adapter, "llama is an adapter"),
        (code, "llama requires custom code"),
        (kernels, r"requests the kernels \S+/\S+ from the Hub"),
        (other_type, "the configuration for llama can't be loaded"),
    ],
)
def test_models_that_are_refused(copy: Path, damage: Callable[[Path], None], sentence: str) -> None:
    damage(copy)
    with pytest.raises(DecabenchError, match=sentence):
        backend(str(copy), ModelOptions(device="cpu"))


def test_weights_that_lack_a_part_are_refused(copy: Path) -> None:
    """transformers would initialize the missing weights at random, with a warning."""
    from safetensors.torch import load_file, save_file

    tensors = load_file(copy / "model.safetensors")
    del tensors["model.layers.1.mlp.up_proj.weight"]
    save_file(tensors, copy / "model.safetensors", metadata={"format": "pt"})
    made = backend(str(copy), ModelOptions(device="cpu"))
    with (
        pytest.raises(DecabenchError, match=r"lack 1 of the model's tensors \(model.layers.1.mlp.up"),
        made.open(),
    ):
        pass


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"model": "x"}, "does not use --model"),
        ({"requests_per_minute": 3.0}, "does not use --requests-per-minute"),
        ({"device": "gpu"}, "Unknown device 'gpu'. Choose auto, cpu, mps"),
        ({"device": "cpu", "device_map": "auto"}, "Leave out --device"),
        ({"top_p": 0.5}, "--top-p requires a --temperature"),
    ],
)
def test_options_that_are_refused(llama: Path, options: dict[str, Any], sentence: str) -> None:
    with pytest.raises(DecabenchError, match=sentence):
        make_backend(f"hf:{llama}", ModelOptions(**options))


COMMIT = "0123456789abcdef0123456789abcdef01234567"
SCRIPT = """
import json, sys
from decabench.errors import DecabenchError
from decabench.predictors.hf.backend import backend
from decabench.predictors.protocol import ModelOptions
from tests.predictors.hf.hf_models import asked, setting
try:
    made = backend("owner/name", ModelOptions(device="cpu", revision=sys.argv[1] or None))
    print(json.dumps(made.describe()))
    with made.open() as factory:
        print(len(list(factory(setting()).stream(asked(2)))))
except DecabenchError as error:
    print(error)
"""


@pytest.fixture
def hub(llama: Path, tmp_path: Path) -> Any:
    """Serve one repository like the hub."""
    base = tmp_path / "hub" / "owner" / "name" / "resolve" / COMMIT
    base.mkdir(parents=True)
    for path in llama.iterdir():
        (base / path.name).write_bytes(path.read_bytes())
    (base / "run.py").write_text("raise SystemExit")
    (base / "pytorch_model.bin").write_bytes(b"pickle")
    files = sorted(base.iterdir())
    about = {"id": "owner/name", "sha": COMMIT, "siblings": [{"rfilename": path.name} for path in files]}
    tree = [{"type": "file", "path": f.name, "size": f.stat().st_size, "oid": "0" * 40} for f in files]
    with FileServer(tmp_path / "hub", headers={"X-Repo-Commit": COMMIT}) as running:
        for revision in ("main", COMMIT):
            running.pages[f"api/models/owner/name/revision/{revision}"] = lambda query: json.dumps(about)
        running.pages[f"api/models/owner/name/tree/{COMMIT}"] = lambda query: json.dumps(tree)
        yield running


def through(hub: FileServer, folder: Path, revision: str = "", **environment: str) -> list[str]:
    """Return the output of a new process, because huggingface_hub reads its environment on import."""
    given = {"HF_HOME": str(folder / "hf"), "HF_ENDPOINT": hub.url, "HF_TOKEN": "hf_secret", **environment}
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, revision],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))} | given,
        cwd=Path(__file__).parents[3],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert "hf_secret" not in done.stdout + done.stderr
    return done.stdout.splitlines()


@pytest.mark.slow
def test_a_name_of_the_hub_is_pinned_to_its_commit(hub: FileServer, tmp_path: Path) -> None:
    about, answered = through(hub, tmp_path)
    assert (json.loads(about)["model"], json.loads(about)["revision"]) == ("owner/name", COMMIT)
    assert "weights" not in json.loads(about) and answered == "2"
    assert not {seen.path.rpartition("/")[2] for seen in hub.seen} & {"run.py", "pytorch_model.bin"}
    hub.seen.clear()
    assert through(hub, tmp_path, HF_HUB_OFFLINE="1") == [about, answered]
    assert not hub.seen


@pytest.mark.heavy
def test_what_the_hub_refuses(hub: FileServer, tmp_path: Path) -> None:
    path = "api/models/owner/name/revision/main"
    for fault, reason in [
        (
            Fault(401, headers={"X-Error-Code": "RepoNotFound"}),
            "no such repository, or HF_TOKEN does not grant access",
        ),
        (Fault(403, headers={"X-Error-Code": "GatedRepo"}), "set HF_TOKEN and accept the terms"),
        (Fault(404, headers={"X-Error-Code": "RevisionNotFound"}), "there is no revision with this name"),
    ]:
        hub.always[path] = fault
        (line,) = through(hub, tmp_path)
        assert reason in line
    (line,) = through(hub, tmp_path, HF_HUB_OFFLINE="1")
    assert "the Hub can't be reached, and the files are not in the local cache" in line


def test_a_hub_that_cannot_be_reached_is_no_wrong_usage(monkeypatch: pytest.MonkeyPatch) -> None:
    import huggingface_hub

    def fail(*_: Any, **__: Any) -> None:
        raise huggingface_hub.errors.LocalEntryNotFoundError("offline")

    monkeypatch.setattr(huggingface_hub, "snapshot_download", fail)
    with pytest.raises(DecabenchError) as caught:
        backend("gpt2", ModelOptions(device="cpu"))
    assert caught.value.exit_code == 4
    assert "set HF_ENDPOINT to a mirror, or set HF_HOME" in str(caught.value)


def run(size, prompts, fits=lambda rows: True, positions=100):
    """Return the batch sizes tried for this number of prompts."""
    tried = []
    while prompts:
        rows = size.rows(positions, prompts)
        tried.append(rows)
        if fits(rows):
            prompts -= rows
        else:
            size.shrink(rows, positions)
    return tried


def test_it_halves_where_it_does_not_fit_and_stays_there():
    assert run(BatchSize(24), 96) == [24] * 4
    assert run(BatchSize(24), 24, fits=lambda rows: rows <= 6) == [24, 12, 6, 6, 6, 6]


def test_what_did_not_fit_is_remembered_by_the_number_of_tokens():
    size = BatchSize(16)
    size.shrink(16, 1000)
    assert size.rows(1000, 100) == 8  # 16 rows of 1,000 tokens didn't fit
    assert size.rows(500, 100) == 16  # 16 rows of 500 tokens may fit
