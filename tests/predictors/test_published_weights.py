"""The weights that are published are those that their scores are of."""

import re
import tomllib
import zipfile

import msgspec
import pytest

pytest.importorskip("torch", reason="torch is not installed: pip install 'decabench[train]'")

from decabench.errors import MissingDataError
from decabench.models.checkpoint import Checkpoint
from decabench.tasks import TASKS, Store
from tests.sources import ROOT

RECORDS = ROOT / "reproductions" / "mqan"
FOLDERS = sorted(path.parent for path in RECORDS.glob("weights/*/checkpoint.json"))
BY_NAME = [path.name for path in FOLDERS]


def metadata(path):
    with zipfile.ZipFile(path) as archive:
        return tomllib.loads(archive.read("submission.toml").decode())["predictor"]["backend"]


@pytest.mark.parametrize("folder", FOLDERS, ids=BY_NAME)
def test_answers_are_of_these_weights(folder):
    answered = metadata(folder / "answers.zip")
    assert Checkpoint.open(folder).digest() == answered["weights"]
    trained = {metadata(record)["weights"] for record in RECORDS.glob(f"{folder.name}*-seed-0.zip")}
    assert answered["exported_from"] in trained


@pytest.mark.parametrize("folder", FOLDERS, ids=BY_NAME)
def test_the_readme_has_their_scores(folder):
    (line,) = [
        line
        for line in (RECORDS / "weights/README.md").read_text().splitlines()
        if f"| {folder.name} |" in line
    ]
    shown = re.findall(r"\d+\.\d", line)
    with zipfile.ZipFile(folder / "answers.zip") as archive:
        for split, figure in zip(("validation", "test"), shown, strict=False):
            if f"results/{split}/results.json" in archive.namelist():
                results = msgspec.json.decode(archive.read(f"results/{split}/results.json"))
                own = results["tasks"].get(re.sub("-(longer|after-squad)$", "", folder.name))
                score = own["scores"][own["headline"]] if own else results["total"]["score"]
                assert f"{score:.1f}" == figure
    size = sum(path.stat().st_size for path in folder.iterdir() if path.name != "answers.zip")
    assert f"{size / 1e6:.1f}" == shown[-1]


@pytest.mark.slow
@pytest.mark.parametrize("folder", FOLDERS, ids=BY_NAME)
def test_they_answer(folder, home):
    """Of the sample, many are answered to the letter; what knows nothing gets half of sst right and none of others."""
    try:
        model = Checkpoint.open(folder).load("cpu")
    except MissingDataError as error:
        pytest.skip(str(error))
    first = folder.name.partition("-")[0]
    task = first if first in TASKS else "squad"  # of joint, which learned all
    examples = list(Store(home).examples(task, "validation"))
    replies = model.answer(TASKS[task], examples)
    right = [
        reply.text.lower().strip() in [answer.lower().strip() for answer in one.answers]
        for one, reply in zip(examples, replies, strict=True)
    ]
    assert len(right) > 5 and sum(right) > {"sst": 0.7}.get(folder.name, 0.3) * len(right)
