"""Dynamic admission: webhooks that mutate or deny writes.

Belongs here: reading webhook configurations, the AdmissionReview exchange, the HTTPS client, and the `Admission` that
the verbs call. Not here: built-in admission of one kind (`kinds`), and the order of the write path (`verbs/write.py`).
"""
