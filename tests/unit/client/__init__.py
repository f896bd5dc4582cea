"""The client, on a real API server and on simulated ones."""
