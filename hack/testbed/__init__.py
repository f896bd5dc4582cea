"""The test bed: a real Kubernetes, built from source and run on this machine alone, or kind where docker runs."""
