"""The agent's configuration: its file, and settings taken over from Koordinator.

Belongs here: parsing and checking of settings into frozen values. Not here: opening what they name (wiring.py).
"""
