"""The hands on a real API server."""
