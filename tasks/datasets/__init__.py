"""One file a dataset or family."""
