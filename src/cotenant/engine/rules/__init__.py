"""Rules of nodes: what a node must have beyond sums. A folder each: CPUs, devices, load.

Belongs here: rows with reasons, a choice on the row that won, and exactly the same given back. Not here: what does not depend on a node (engine/plugins).
"""
