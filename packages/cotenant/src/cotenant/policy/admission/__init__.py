"""Admission of API objects: what a new or changed pod, reservation or node becomes, and why it is refused.

Belongs here: pure rules over API documents, their differences as JSON patches, reasons and refusals.
Not here: rules of quotas (`policy/quota`), AdmissionReview and certificates (`services/webhook`), reading of custom
kinds (`drivers/kube/kinds`).
"""
