"""The site of an experiment: its cgroups, cores, child processes and the agent, and measurement of disturbance.

Belongs here: what every experiment needs from the machine. Not here: loads, or what is concluded from them.
"""
