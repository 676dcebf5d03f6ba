"""The agent's configuration, for the agent and for who reads its file beside it (doctor, nri): the file, and settings
taken over from Koordinator.

Belongs here: parsing and checking of settings into frozen values. Not here: opening what they name (services/agent).
"""
