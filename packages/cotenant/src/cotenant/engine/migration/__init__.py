"""The engine of migrations: PodMigrationJobs and what is observed of their pods and reservations go in, API writes come
out one at a time for each job.

Belongs here: the steps of one job, all jobs with their order and limits, cleaning up, and whether a move helped.
Not here: which pods should move (engine/rebalancer), rules and limits as formulas (policy/rebalance/migration), and the
API calls (services/rebalancer).
"""
