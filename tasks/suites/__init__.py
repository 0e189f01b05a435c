"""The suites: one file for each."""
