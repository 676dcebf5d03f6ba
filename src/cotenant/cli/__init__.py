"""The command line: parses arguments, calls the layers below, prints the results.

Belongs here: the `cotenant` command with its exit statuses, and what the commands in lab/, node/ and cluster/ share.
Not here: what a command does (services, lab, local), or any judgement of values that the layers below can refuse themselves.
"""
