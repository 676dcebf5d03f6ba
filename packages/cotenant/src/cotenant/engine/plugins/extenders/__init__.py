"""Extenders: pods about which other processes are asked over HTTP before they are judged.

Belongs here: who is asked about what, when, and what an answer allows. Not here: the calls themselves.
"""
