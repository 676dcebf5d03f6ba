"""ServiceObjectives as files: reading our own, and converting those of OpenSLO, Pyrra and Sloth.

Belongs here: what `cotenant objective convert` and `--objectives FILE` do. Not here: counting and judging them
(services/traces, policy/objective).
"""
