"""Commands about Kubernetes clusters: the processes of one, and what is installed or checked by hand.

Belongs here: flags, help texts, and what these commands print. Not here: the processes (services), questions to them
(cli/ask), and commands about one node (cli/node).
"""
