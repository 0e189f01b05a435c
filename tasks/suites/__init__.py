"""The built-in suites, one file each."""
