"""Choice of replicas to move.

Belongs here: which placed pods should be placed again. Not here: where they go (policy/placement) or how they move (the simulated world, the engine).
"""
