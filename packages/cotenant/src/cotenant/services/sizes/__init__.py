"""Sizes of containers: the work of `cotenant profile recommend`.

Belongs here: reading what stands in a cluster, joining it with use over time, and writing recommendations down as
documents. Not here: how a size is found (policy/assess), printing (cli).
"""
