"""Volumes of pods as rules about nodes: where a claim's volume is or may be made, how many a node attaches, disks that
one node has at a time.

Belongs here: counts and rules over rows. Not here: the API's objects (drivers/kube/kinds/storage).
"""
