"""Clients of running processes, which other commands and processes ask: the agent and the scheduler.

Belongs here: requests and their decoding. Not here: the pages that answer, and how answers are shown (cli).
"""
