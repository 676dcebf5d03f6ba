"""What a program of the fleet answers to: its own functions as methods on the bus, under its guid.

Belongs here: what a program imports (`program.Program`). Not here: how operators reach it (controller/relaying.py).
"""
