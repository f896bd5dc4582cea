"""A program of its own, which starts the processes of a run and ends them with it: only the standard library."""
