"""The cluster as arrays: assignments of pods to nodes, the resources that remain, and what narrows the nodes of a pod.

Belongs here: facts and sums derived from them, updated by events. Not here: the queue and the scheduling decisions
(engine/cycle).
"""
