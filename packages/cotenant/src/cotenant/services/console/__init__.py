"""The console: a web page about a running cluster, and the process that serves it.

Belongs here: the state that the page shows, its events, log-in, questions to the other processes, and the built page
(`page/`). Not here: what those processes answer (services/scheduler/pages, services/traces, services/manager), and the
page's sources (the folder `console` of the repository).
"""
