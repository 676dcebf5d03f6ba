"""How a size is brought to running pods: in which steps, and when it hurts.

Belongs here: pure rules of a change. Not here: how a size is found (policy/assess), and the change itself over time
(engine/sizing).
"""
