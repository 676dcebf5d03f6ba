"""Questions about decisions, answered without changing anything: why pending, why there, what if, what would help.

Belongs here: reading the engine's state and judging it again. Not here: the record that each decision leaves (engine/cycle/decision_records).
"""
