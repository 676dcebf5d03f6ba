"""Commands about Kubernetes clusters: the processes of one, the local cluster (`cotenant up`, `demo`), questions to
them, and what is installed or checked by hand.

Belongs here: flags, help texts, and how a scheduler's answers are shown.
Not here: the processes (services), and commands about one node (cli/node).
"""
