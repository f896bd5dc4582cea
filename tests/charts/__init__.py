"""The chart and what is made from it: the page of its values, the manifests for kustomize, renderings to look at."""
