import json
from dataclasses import dataclass, replace

import pytest

torch = pytest.importorskip("torch")

from decabench.errors import DecabenchError
from decabench.models import (
    BiLSTM,
    Checkpoint,
    ClassifierHead,
    Family,
    ModelReply,
    MultitaskNetwork,
    ParserHead,
    RegressorHead,
    SoftmaxHead,
    TaskHeads,
    WordEmbedding,
    encode_target,
    max_over_time,
)
from decabench.models.heads import TARGETS
from decabench.tasks import TASKS, Label, Number, Store, Tags, Tree, known_tasks
from decabench.training.config import TrainConfig
from decabench.training.loop import run_training
from decabench.training.planning import TrainingRun
from decabench.training.validator import check_best_by
from tests.training.test_loop import same, weights

HEADS = {Label: ClassifierHead, Tags: SoftmaxHead, Tree: ParserHead, Number: RegressorHead}
OUTPUTS = {
    "colour": ('kind = "label"\nnames = ["blue", "red"]', ["red", "blue"]),
    "shape": ('kind = "tags"', ["N V", "V N"]),
    "links": ('kind = "tree"', ["0:root 1:obj", "2:sub 0:root"]),
    "size": ('kind = "number"\nlow = 0\nhigh = 5', ["1.5", "4"]),
}


@dataclass(frozen=True)
class Config:
    name: str = "tests.training.test_loop_outputs:FAMILY"
    vocabulary: int = 100
    train_embeddings: bool = True


def encode(question, answer, task, reader):
    tokens = reader.tokens(question.context)
    target = {} if answer is None else encode_target(answer, task.output, reader, len(tokens))
    return {"tokens": tokens, **target}


class Any(MultitaskNetwork):
    def __init__(self, config, outputs, words):
        super().__init__()
        self.embed = WordEmbedding(words, config.train_embeddings)
        self.encoder = BiLSTM(words.dimension, 16, 0.0)
        self.heads = TaskHeads(outputs, lambda output: HEADS[type(output)](16, output))

    def represent(self, batch):
        lengths = batch.lengths["tokens"]
        states, _, _ = self.encoder(self.embed(batch, "tokens"), lengths)
        head = self.heads[batch.task]
        single = isinstance(head, ClassifierHead | RegressorHead)
        return head, max_over_time(states, lengths) if single else states, lengths

    def losses(self, batch):
        head, x, lengths = self.represent(batch)
        return head.losses(x, batch.columns, lengths)

    def answers(self, batch, limit=None, beam=1):
        head, x, lengths = self.represent(batch)
        return [ModelReply(text, True, 2, 2) for text in head.answers(x, lengths)]


FAMILY = Family(
    config=Config,
    columns={"tokens": "words", **TARGETS},
    outputs=tuple(HEADS),
    encode=encode,
    build=Any,
    losses=("label", "tags", "head", "relation", "number"),
)


@pytest.fixture
def run(command, tmp_path):
    files = []
    for name, (output, answers) in OUTPUTS.items():
        texts = zip(("Left one", "right two"), answers, strict=True)
        rows = [{"text": text, "answer": answer} for text, answer in texts]
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        file = tmp_path / f"{name}.toml"
        file.write_text(
            f'format = "decabench.taskfile/1"\nname = "{name}"\nanswer = "answer"\nquestion = "What?"\n'
            f'context = "{{text}}"\n[output]\n{output}\n'
            f'[files]\ntrain = "{name}.jsonl"\nvalidation = "{name}.jsonl"\n'
        )
        files.append(file)
    include = [part for file in files for part in ("--include", file)]
    done = command("prepare", *OUTPUTS, *include, "--home", tmp_path / "home")
    assert done.exit_code == 0, done.output
    known = known_tasks(files)

    def make(output="run", resume=False, **settings):
        shared = {"rate": "constant", "learning_rate": 0.02, "vectors": ("none:8",), "validate_every": 1_000}
        config = TrainConfig(model=Config(), tasks=tuple(OUTPUTS), **{**shared, **settings})
        tasks = {name: known[name] for name in OUTPUTS}
        return TrainingRun(
            config, tasks, Store(tmp_path / "home"), tmp_path / output, "cpu", resume, lambda text: None
        )

    return make


@pytest.mark.heavy
def test_all_outputs_are_learned_and_resumed(run):
    settings = {"steps": 240, "checkpoint_every": 120, "best_by": "colour"}
    whole = run(**settings)
    run_training(whole)
    run_training(run("parts", **{**settings, "steps": 97}))
    run_training(run("parts", True, **settings))
    assert same(weights(whole.output), weights(run("parts").output))
    checkpoint = Checkpoint.open(run("parts").output)
    assert list(checkpoint.outputs) == list(OUTPUTS), "a network may number its tasks"
    assert checkpoint.outputs["colour"].names == ("blue", "red")
    assert checkpoint.outputs["shape"].names == ("N", "V")  # as met, in alphabetical order
    assert checkpoint.outputs["links"].relations == ("obj", "root", "sub")
    model = checkpoint.load("cpu")
    for name, task in whole.tasks.items():
        examples = list(whole.store.examples(name, "train"))
        texts = [reply.text for reply in model.answer(task, examples)]
        if name == "size":
            assert [float(text) for text in texts] == pytest.approx([1.5, 4.0], abs=0.2)
        else:
            assert texts == [example.answers[0] for example in examples]


def test_a_sum_of_scores_of_both_directions_is_refused():
    higher, lower = TASKS["sst"], replace(TASKS["squad"], metric="mse")
    config = TrainConfig(tasks=("sst", "squad"))
    with pytest.raises(DecabenchError, match="Lower scores are better for squad"):
        check_best_by(config, {"sst": higher, "squad": lower})
    assert check_best_by(replace(config, best_by="sst"), {"sst": higher, "squad": lower})
    assert check_best_by(replace(config, best_by="last"), {"sst": higher, "squad": lower})  # compares nothing
    with pytest.raises(DecabenchError, match="meaningless"):
        check_best_by(replace(config, best_by="last", patience=2), {"sst": higher, "squad": lower})
    assert not check_best_by(replace(config, best_by="squad"), {"sst": higher, "squad": lower})
