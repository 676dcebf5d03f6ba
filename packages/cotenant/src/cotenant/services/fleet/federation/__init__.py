"""A federation of clusters on the fleet's bus: the hub, a cluster's joiner, and the commands that ask the hub.

Not here: formulas (policy/federation) and what is believed over time (engine/federation).
"""
