"""The Helm chart and the files generated from it: values.yaml, its README, manifests/ for kustomize, and snapshots."""
