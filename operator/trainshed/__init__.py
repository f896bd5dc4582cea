"""Trainshed runs training jobs on Kubernetes."""
