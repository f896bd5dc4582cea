"""The whole operator on a real API server."""
