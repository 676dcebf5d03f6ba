"""The guard beside what else is published, on one core with a real server: `python -m bench.guard`.

Belongs here: the arms, the hogs, and the figures of this comparison. Not here: what it shares with the product's
experiments (site, loads, harness), which it imports.
"""
