"""Right-sizing over time: histories of use, suggestions, and changes that are proven or undone.

Belongs here: a state machine without I/O over RightSizings, pods, measurements and objectives. Not here: rules of a
change (policy/sizing), how a size is found (policy/assess), reading and writing (drivers, services).
"""
