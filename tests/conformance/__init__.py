"""The conformance list: each row of training-operator v1's behaviour, decided, and the decision shown by a test."""
