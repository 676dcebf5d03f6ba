"""Faults of the local API server on purpose: kill -9, conflicts, readers that do not read, a full disk, no files left.

Belongs here: cases that run a real server and state figures (`python -m bench.apifaults`). Not here: their small forms,
which are tests in tests/fault/local.
"""
