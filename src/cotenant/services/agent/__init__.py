"""The node's agent: what it measures, judges, turns and tells, wired together in one process."""
