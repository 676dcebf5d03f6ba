"""The loads of the experiments: services and batch programs that run as child processes, and their generators.

Belongs here: programs that do work and report what they did. Not here: the experiments that start them (studies).
"""
