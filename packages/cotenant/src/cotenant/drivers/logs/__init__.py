"""Log files that a container runtime writes and rotates.

Belongs here: following a file over its rotations, finding files of pods. Not here: what a record means (engine/logs).
"""
