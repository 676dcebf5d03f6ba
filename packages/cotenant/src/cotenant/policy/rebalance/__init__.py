"""Choice of pods to move.

Belongs here: which placed pods should be placed again, by latency in this folder, by load in loads/, because of a
violated rule in violations/, for room in packing/, and which moves may happen now in migration/. Not here: where they
go (policy/placement), how a move is simulated (engine/rebalancer), or how it is carried out.
"""
