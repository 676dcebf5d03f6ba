"""Encodes pods and nodes as rows of arrays: the encoder, its growing columns, and the bits for labels and taints.

Belongs here: the assignment of rows, columns and bits to values. Not here: assignments of pods to nodes (engine/state)
and scheduling decisions (engine/cycle).
"""
