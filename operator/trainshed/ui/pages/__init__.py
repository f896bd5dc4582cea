"""What the pages show: pure functions from what is known to HTML."""
