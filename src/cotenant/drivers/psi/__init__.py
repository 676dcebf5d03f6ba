"""Pressure stall information (PSI): parsing of its files, and triggers that fire when it rises.

Belongs here: the files' format and the kernel's triggers. Not here: what the agent does when one fires (services/agent/loop).
"""
