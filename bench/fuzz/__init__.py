"""Random and damaged input for every reader of foreign text.

Belongs here: generators of input, the list of readers with the errors that each documents. Not here: tests of what a
reader makes of valid input (tests/unit).
"""
