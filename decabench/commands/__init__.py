"""The commands, one per file.

Modules that `--help` doesn't need are imported inside functions, so that help is fast.
"""
