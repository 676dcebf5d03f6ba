"""Workload profiles learned from measurements: what an application does to its neighbours and suffers from them.

Belongs here: the model, its priors, its update from one round of windows, and its reading. Not here: which pods belong
to an application (engine/state), and antagonists (policy/interference).
"""
