"""`command:`: any program that reads and writes JSON lines."""
