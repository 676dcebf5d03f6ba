"""How far a mover may go: by what people allow, and by what it has earned.

Belongs here: pure judgement over objects and outcomes. Not here: which objects there are (engine/autonomy), and what a
mover does with its permission.
"""
