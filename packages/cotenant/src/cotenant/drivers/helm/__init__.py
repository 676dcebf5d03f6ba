"""The user's own `helm`: its commands as functions.

Belongs here: arguments, output, errors of the program. Not here: what a release's objects mean (services/apps).
"""
