"""What becomes of a job when nodes and programs fail: its own spec, decided by the planner, in virtual time.

The failures are drawn at random, and all that the operator would do about them is what `plan` says. Nothing here reads
a clock, a cluster or a file: a prediction follows from a job, assumptions and a seed.
"""
