"""Messages about jobs to people: what is sent and when, in which form, and to whom. It knows no API server."""
