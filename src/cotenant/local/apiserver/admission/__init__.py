"""External admission: webhooks that change or refuse what is written."""
