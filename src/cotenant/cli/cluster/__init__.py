"""Commands about Kubernetes clusters: `cotenant scheduler`, `extender`, `up`, `demo`, `explain`, `crds` and `warm`.

Belongs here: flags, help texts, and how a scheduler's answers are shown.
Not here: the processes (services), and commands about one node (cli/node).
"""
