"""Rival schedulers and bounds, each validated against its own paper's example.

Belongs here: published rules on the same inputs as ours. Not here: row-local rivals, which are profiles
(placement/profiles.py).
"""
