"""Certificates that the cluster's own processes make: an authority and a server certificate in a Secret, renewed in
time.

Belongs here: what is due when (`material`), the Secret and the files of one Service (`keeper`), those of all parts and
their bundle (`parts`). Not here: how a certificate is signed (`drivers/http/certificates`), how a server loads it
(`drivers/http/tls`), the webhook configurations (`services/webhook`).
"""
