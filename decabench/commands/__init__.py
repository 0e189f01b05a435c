"""The commands, one file each. Heavy imports stand inside the functions, so that help and lists are quick."""
