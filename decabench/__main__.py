"""Entry point for `python -m decabench`."""

import sys

# `python -m` puts the current folder first on the module path, unlike the command `decabench`. That folder may be
# an untrusted submission, so its files must not be importable. When decabench runs from a clone, the folder is kept.
if not sys.flags.safe_path and not __file__.startswith(f"{sys.path[0]}/decabench/"):
    del sys.path[0]

from decabench.cli import main

if __name__ == "__main__":
    main()
