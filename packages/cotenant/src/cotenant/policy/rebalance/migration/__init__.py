"""Which moves may happen now: filters of pods, limits of concurrent moves, their order, and the rate of each workload.

Belongs here: pure rules over pods, workloads and the moves under way. Not here: which pods should move (loads/,
misses.py), and how a move is carried out.
"""
