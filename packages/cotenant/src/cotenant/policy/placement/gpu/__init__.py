"""Placement of GPU shares as arrays: node and pod state, fragmentation, and the weights of the potential.

Belongs here: what the GPU replay and its compiled score use. Not here: devices allocated by name (placement/devices).
"""
