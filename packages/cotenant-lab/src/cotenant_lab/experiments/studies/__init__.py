"""The experiments, one per module: set-up, arms, and the judgement of their rounds.

Belongs here: classes that implement `harness.Experiment`. Not here: anything that two of them share (site, loads,
measures).
"""
