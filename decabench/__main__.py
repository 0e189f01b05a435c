"""`python -m decabench` is `decabench`."""

from decabench.cli import main

if __name__ == "__main__":
    main()
