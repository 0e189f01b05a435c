"""`python -m decabench` is `decabench`."""

import sys

# `python -m` puts the current folder first on the module path, which the command `decabench` does not have. It may be
# somebody's submission, and no file in it may pass for a module. A clone that runs in place needs its own folder.
if not sys.flags.safe_path and not __file__.startswith(f"{sys.path[0]}/decabench/"):
    del sys.path[0]

from decabench.cli import main

if __name__ == "__main__":
    main()
