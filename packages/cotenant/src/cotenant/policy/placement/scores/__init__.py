"""Row-local scores, one per file, each with a plain NumPy form and a compiled form that must equal it.

Belongs here: functions of one node's row and one shape. Not here: scores over several nodes (placement/topology,
preference.py).
"""
