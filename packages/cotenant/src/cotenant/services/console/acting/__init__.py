"""The view "Autonomy": what the movers may do, suggest and did, and the buttons that approve, undo and freeze.

Belongs here: answers and requests of the page's own. Not here: what an approval writes (services/autonomy).
"""
