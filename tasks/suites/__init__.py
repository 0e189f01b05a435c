"""One file a suite."""
