"""A release over time: applied, waited for, pruned, rolled back, stopped and started again.

Belongs here: what is done next and what an object's status means. Not here: values (model/apps), calls to the server
(services/apps).
"""
