"""The command line: parses arguments, calls the layers below, prints the results.

Belongs here: one module per command or group of commands, its flags, help texts and tables, and exit statuses.
Not here: what a command does (services, lab, local), or any judgement of values that the layers below can refuse themselves.
"""
