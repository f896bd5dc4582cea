"""The page in a browser, on a real API server."""
