"""Commands that this package adds to `cotenant`: `up` and `demo`.

Belongs here: parsing and printing of these commands; pyproject.toml names them. Not here: what they do (up, demo).
"""
