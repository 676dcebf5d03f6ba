"""Programs for maintainers of the repository.

Belongs here: what reads the source tree and writes pages of docs/. Not here: anything that the package imports
(packages/cotenant/src/cotenant), measurements of speed (bench), or checks (tests).
"""
