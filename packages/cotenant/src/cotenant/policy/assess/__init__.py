"""What a cluster's past says of its next day: what may be lent, what pods will need, and how often that was wrong.

Belongs here: predictors of use over hours, ours and rivals', the test of them on the past, and sums of money. Not here:
what the manager lends from minute to minute (policy/overcommit; its replay is engine/assess), and reading of histories
(drivers/prometheus).
"""
