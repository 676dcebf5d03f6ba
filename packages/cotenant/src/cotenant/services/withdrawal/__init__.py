"""What must end before an installation is removed: `cotenant withdraw`.

Belongs here: the order of withdrawal, waiting for its effect, and what processes made for themselves. Not here: what
one process gives back when it stops (`services/keeper`, `services/webhook`), the chart's hook (`deploy`).
"""
