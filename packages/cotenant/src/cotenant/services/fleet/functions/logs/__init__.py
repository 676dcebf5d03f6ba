"""The function `logs`: which logs are on this host, following and keeping them, answering readers, sending them on.

Belongs here: what joins files, rings and the collector. Not here: what a record means (engine/logs), files
(drivers/logs).
"""
