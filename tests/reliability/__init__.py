"""What was tried to break the operator and what came of it: the fault matrix, the runs' figures, and their page."""
