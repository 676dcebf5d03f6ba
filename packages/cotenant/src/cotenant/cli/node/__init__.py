"""Commands about the machine they run on: `cotenant agent`, `keeper` and `node`.

Belongs here: flags, help texts, and how measurements, held knobs and experiments are shown.
Not here: what the agent and the keeper do (services), and commands about clusters (cli/cluster).
"""
