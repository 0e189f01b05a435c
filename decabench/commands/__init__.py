"""The commands, one per file. Imports are inside the functions if help doesn't need them, so that help is quick."""
