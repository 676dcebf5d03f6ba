"""The processes: they connect drivers to engines.

Belongs here: one folder for each process or command, over the rooms that several of them share. No process imports
another; what two of them need is a room of its own below them. The contract "floors of services" in pyproject.toml
names every folder. Not here: decisions (policy, engine), I/O itself (drivers), and the local API server with its
controllers (local).
"""
