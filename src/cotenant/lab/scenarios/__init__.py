"""Scenarios: a workload with a world to run it in, one per file."""
