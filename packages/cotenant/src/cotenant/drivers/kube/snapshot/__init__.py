"""A copy of a cluster: its objects, each cut down to the fields that our readers name, in memory and as one file.

Belongs here: which kinds are read and what is kept of them, listing them with get and list alone, the file and its
versions, and replacing names. Not here: what is said of a cluster (`policy/assess`), the engine that is fed with a copy
(`services/assess`), use over time (`model/assess/history.py`).
"""
