"""The highest use of the next hours, at a stated risk, from the hours that were seen.

Belongs here: what is learned of series of use by the hour, as arrays, and the amounts that follow from it. Not here:
when an hour is over and which series there are (engine/prediction), what is lent by it (policy/overcommit), and
predictions from a history that is at hand as a whole (policy/assess).
"""
