"""Load-aware placement: by the current use of nodes and the expected use of pods placed recently.

Belongs here: settings, estimates, thresholds, the filter and the score. Not here: state of all nodes over time
(engine/rules/load).
"""
