"""docs/prompts.md shows the files as they are, and names what there is."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path

import pytest

from decabench.prompts.messages import make_prompting
from decabench.prompts.shots import FEW_LABELS, LONGEST, SHARED_CONTEXT
from decabench.prompts.templates import BUILT_IN, load_template
from decabench.tasks.example import Question
from decabench.tasks.registry import TASKS
from decabench.tasks.wording import KINDS, PROMPT_KEYS, AnswerForm, PromptTemplate

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "prompts.md").read_text(encoding="utf-8")
SHOWN = re.findall(r"<!-- (\S+\.toml) -->\n```toml\n(.*?)^```", PAGE, flags=re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize(("path", "text"), SHOWN)
def test_files_are_shown_as_they_are(path: str, text: str) -> None:
    assert text == (ROOT / path).read_text(encoding="utf-8"), f"paste {path} into docs/prompts.md"


def test_all_files_are_shown() -> None:
    paths = (ROOT / "examples/templates").iterdir()
    assert {path for path, _ in SHOWN} == {path.relative_to(ROOT).as_posix() for path in paths}


def test_every_key_and_form_is_explained() -> None:
    rows = re.findall(r"^\| `([^`]+)` \|", PAGE, flags=re.MULTILINE)
    assert set(PROMPT_KEYS) <= set(rows)
    form = next(line for line in PAGE.splitlines() if line.startswith("| `form` |"))
    assert all(f"`{kind}`" in form for kind in KINDS)


def test_numbers() -> None:
    text = " ".join(PAGE.split())
    assert f"{LONGEST:,} characters" in text and f"{SHARED_CONTEXT} bytes" in text
    assert FEW_LABELS == 10 and "at most ten different answers" in text


def test_the_example_works() -> None:
    made = make_prompting(TASKS["sst"], load_template(ROOT / "examples" / "templates" / "terse.toml"))
    assert made.text(Question("q", "Good or bad?", "Fine.")) == "One word.\n\nFine.\nGood or bad?\nA:"
    assert made.max_new_tokens == 8


def test_keys_are_the_fields_of_the_values() -> None:
    names = {field.name for value in (PromptTemplate, AnswerForm) for field in fields(value)}
    assert set(PROMPT_KEYS) == names - {"kind", "scale", "reasoning_tags"}  # which tasks and runs give


def test_the_built_in_sets_are_shown() -> None:
    assert all(f"<!-- generated: {name}_template -->" in PAGE for name in BUILT_IN)
