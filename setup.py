"""The package index shows README.md, so its relative links become addresses below the project's Source."""

import re
import tomllib
from pathlib import Path

from setuptools import setup

ROOT = Path(__file__).parent
SOURCE = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["urls"]["Source"]
README = (ROOT / "README.md").read_text(encoding="utf-8")

README = re.sub(r"(!\[[^]]*\]\()(?!https?:)", rf"\g<1>{SOURCE}/raw/HEAD/", README)
README = re.sub(r"(\]\()(?!https?:|#)", rf"\g<1>{SOURCE}/blob/HEAD/", README)
setup(long_description=README, long_description_content_type="text/markdown")
