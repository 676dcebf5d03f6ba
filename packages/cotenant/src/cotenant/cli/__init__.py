"""The command line: parses arguments, calls the layers below, prints the results.

Belongs here: the `cotenant` command with its exit statuses, and what all commands share, those of other packages too
(further.py). Not here: what a command does (services), or any judgement of values that the layers below can refuse
themselves.
"""
