"""The cluster as arrays: who is assigned where, what that leaves, and what narrows the nodes of a pod.

Belongs here: facts and sums derived from them, brought up to date by events. Not here: the queue and the judgement (engine/cycle).
"""
