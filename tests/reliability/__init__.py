"""The check of the fault matrix, and the result files of the long runs."""
