"""The fault matrix, checked against the tests that it names, and the result files of the long runs."""
