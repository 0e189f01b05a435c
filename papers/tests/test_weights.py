import re
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="torch is not installed: pip install 'decabench[train]'")

from decabench.errors import MissingDataError
from decabench.models import Checkpoint
from decabench.tasks import TASKS, Store

ROOT = Path(__file__).parents[1]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["squad-first-longer", "joint-asked"])
def test_they_answer(name, home):
    if not (ROOT / "weights" / name).exists():
        pytest.skip("the source archive has no weights")
    try:
        model = Checkpoint.open(ROOT / "weights" / name).load("cpu")
    except MissingDataError as error:
        pytest.skip(str(error))
    examples = list(Store(home).examples("squad", "validation"))
    replies = model.answer(TASKS["squad"], examples)
    right = [
        reply.text.lower().strip() in [answer.lower().strip() for answer in one.answers]
        for one, reply in zip(examples, replies, strict=True)
    ]
    assert len(right) > 5 and sum(right) > 0.3 * len(right)


def test_the_experiments_have_the_means_of_the_page():
    text, page = (
        (ROOT / "pages" / "details" / f"{name}.md").read_text() for name in ("mqan-experiments", "mqan")
    )
    quoted = set(re.findall(r"\d\d\.\d ± \d\.\d", text))
    assert len(quoted) > 8 and not {one for one in quoted if one not in page}
