"""Logs over time: records of a runtime become lines, lines stand in a ring until they are too many or too old.

Belongs here: joining, dropping, numbering, the trace that a line names. Not here: files (drivers/logs), the agent's
function and what it sends (services/fleet/functions).
"""
