"""The guard: a state machine that cuts best-effort CPU while a service suffers and restores it slowly afterwards.

Belongs here: the signals that it reads, one step of the machine, its settings. Not here: how its ceiling is set on the
node (nodeqos/cpu).
"""
