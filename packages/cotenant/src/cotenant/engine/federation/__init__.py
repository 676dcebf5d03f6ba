"""A federation over time, without I/O: whose statements a hub believes, and what a joined cluster does with weights.

Not here: formulas (policy/federation), signatures and messages (drivers, services/fleet/federation).
"""
