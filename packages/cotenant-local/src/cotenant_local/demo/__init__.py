"""`cotenant demo`: one simulated day on this machine for each of several profiles, with figures.

Belongs here: running the days and the page about them. Not here: comparisons with intervals (lab), and the local
cluster itself (cotenant_local/up).
"""
