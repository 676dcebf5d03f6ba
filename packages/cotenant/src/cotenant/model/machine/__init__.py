"""A node as its agent sees it: counters, knobs, groups, the state that node policies decide on, and their verdicts.

Belongs here: values that an agent reads, evaluates and writes. Not here: a node as a scheduler sees it (model/cluster).
"""
