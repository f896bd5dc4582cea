r"""Manifests as kubectl reads and writes them.

kubectl reads YAML with sigs.k8s.io/yaml, which is YAML 1.1 with rules of its own, and sends JSON. No library for Python
has these rules: PyYAML reads `1:3` as 63, ruamel.yaml reads `y` and `017` by YAML 1.2. PyYAML's scanner can be changed
where Go's differs (`scanner.py`). libyaml, the faster one in C, cannot: it refuses `[a:]` and `"\'"`. So it only
reads long files, and what it refuses or may read otherwise is left to the scanner, up to a MiB (`nodes.py`). Values are
found here (`scalars.py`, `reader.py`). hack/testbed/tools/kubeyaml compares the result with sigs.k8s.io/yaml itself.
"""
