"""What the pages draw: pure functions from what is known to SVG."""
