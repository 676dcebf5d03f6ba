"""What must end before an installation is removed: `cotenant withdraw`.

Belongs here: the order of withdrawal, and waiting for its effect. Not here: what one process gives back when it stops (`services/keeper`, `services/webhook`), the chart's hook (`deploy`).
"""
