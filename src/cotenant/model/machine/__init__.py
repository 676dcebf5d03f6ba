"""One node from inside: counters, knobs, groups, its state as node policies see it, and their verdicts.

Belongs here: values that an agent reads, judges and writes. Not here: a node as a scheduler sees it (model/cluster).
"""
