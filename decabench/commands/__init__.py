"""The commands, one per file. Heavy imports are inside the functions, so that help and listings are quick."""
