"""Rules that count pods over a topology key or over groups: spread, affinity and anti-affinity between pods, group
limits.

Belongs here: narrowing of rows by counts, and the scores of the preferred terms. Not here: the counts themselves
(engine/state).
"""
