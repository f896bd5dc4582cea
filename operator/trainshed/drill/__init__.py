"""`trainshed drill`: runs a job on this machine under a script of faults, and says what it has survived."""
