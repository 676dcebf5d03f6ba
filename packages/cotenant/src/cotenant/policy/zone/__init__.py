"""Which kernel scheduler a Control Zone should run, and with which rows.

Belongs here: a decision from one reading, with its reason. Not here: states, canaries and the history of a zone
(engine/zones).
"""
