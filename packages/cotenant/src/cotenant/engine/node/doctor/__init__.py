"""What would be refused, fought over or missing on a node before an agent acts there, judged from what was found.

Belongs here: the facts as values, and the findings that follow from them. Not here: looking at a machine
(services/nodeview/doctor), printing (cli/node).
"""
