"""`cotenant assess`: its flags, and its report as tables.

Belongs here: what is asked on the command line, and how a report and what-ifs are printed. Not here: the report itself
(services/assess).
"""
