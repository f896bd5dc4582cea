# The operator and what it runs on, nothing else: no compiler, no installer of packages, no Kubernetes client, no root.
#
#   BASE      the image below, for both stages; pin it by its digest:
#             --build-arg BASE=docker.io/library/python:3.11-slim@sha256:…
#   VERSION, REVISION
#             for the labels: the release and the commit; nothing else depends on them

ARG BASE=docker.io/library/python:3.11-slim

FROM ${BASE} AS build
WORKDIR /src
COPY constraints/build.txt constraints/operator.txt constraints/
RUN python3 -m pip install --no-cache-dir --disable-pip-version-check --require-hashes --target /build -r constraints/build.txt \
 && python3 -m pip install --no-cache-dir --disable-pip-version-check --require-hashes --no-compile --target /packages -r constraints/operator.txt
COPY pyproject.toml README.md LICENSE ./
COPY operator operator
RUN PYTHONPATH=/build python3 -m pip install --no-cache-dir --disable-pip-version-check --no-compile \
    --no-build-isolation --no-deps --no-index --target /packages . \
 && rm -rf /packages/bin \
 && find /packages -name __pycache__ -prune -exec rm -rf {} +

FROM ${BASE}
ARG VERSION=dev
ARG REVISION=unknown
LABEL org.opencontainers.image.title="trainshed" \
      org.opencontainers.image.description="A Kubernetes operator that runs kubeflow.org/v1 training jobs" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}"
# The root file system may be read-only: nothing is written when the operator runs. The user is a number without an entry in
# /etc/passwd, where kopf would look for a name.
ENV PYTHONPATH=/packages PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1 USER=trainshed
COPY --from=build /packages /packages
# What installs packages goes, in the places of Debian and of python.org. Then all modules that a start needs are compiled,
# those of Python itself too, which come without: compiling them anew at each start takes longer than all the rest. They do
# not depend on the times of files, which some builders change. If anything is here that should not be, there is no image.
RUN set -e; \
    for place in $(python3 -c 'import sys; print(*(path for path in sys.path if path.endswith("-packages")))') \
                 $(python3 -c 'import sysconfig; print(sysconfig.get_path("stdlib"))'); do \
        rm -rf "$place"/pip "$place"/pip-* "$place"/setuptools "$place"/setuptools-* "$place"/pkg_resources "$place"/wheel \
               "$place"/wheel-* "$place"/ensurepip "$place"/_distutils_hack "$place"/distutils-precedence.pth; \
    done; \
    rm -f /usr/bin/pip* /usr/bin/wheel /usr/local/bin/pip* /usr/local/bin/wheel; \
    python3 -m compileall -q --invalidation-mode unchecked-hash /packages/trainshed; \
    python3 -c 'import py_compile as p, sys, trainshed.__main__; \
[p.compile(f, invalidation_mode=p.PycInvalidationMode.UNCHECKED_HASH, quiet=1) \
 for f in {getattr(m, "__file__", None) or "" for m in list(sys.modules.values())} if f.endswith(".py")]'; \
    python3 -c 'import importlib.util as u, sys; \
sys.exit([n for n in ("pip", "setuptools", "wheel", "ensurepip", "kubernetes") if u.find_spec(n)] or 0)'
# Where training-operator v1 has its program: a Deployment of v1's in which nothing but the image is changed still starts.
# Its ClusterRole gives no right to a Lease, so that only who asks for leader election gets it.
RUN printf '#!/bin/sh\nexec python -m trainshed operator --leader-elect=false "$@"\n' > /manager && chmod 755 /manager
USER 65532:65532
WORKDIR /packages
ENTRYPOINT ["python", "-m", "trainshed"]
CMD ["operator"]
