"""Triggers of pressure stall information (PSI), which fire when tasks wait for long.

Belongs here: opening the kernel's triggers and waiting for them. Not here: the files' format
(drivers/proc/pressure.py), or what the agent does when one fires (services/agent/loop).
"""
