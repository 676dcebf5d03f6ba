"""Answers questions about decisions without changing state: why a pod is pending, why it is on its node, what if, what
would help.

Belongs here: reading the engine's state and evaluating it again. Not here: the decision record of each decision
(engine/cycle/placing.py).
"""
