# The operator and its runtime dependencies only: no compiler, no package installer, no Kubernetes client, no root user.
#
# Build arguments:
#   BASE      base image of both stages, pinned by digest
#   VERSION, REVISION
#             release, also of the package, and commit, for the labels only: there is no git here that knows them

ARG BASE=docker.io/library/python:3.13-slim@sha256:7c61056e61ac89e852de05f3dc6fa51a6dd2181797bceed46aa725dd7cb2cd3b

FROM ${BASE} AS build
WORKDIR /src
COPY constraints/build.txt constraints/operator.txt constraints/
RUN python3 -m pip install --no-cache-dir --disable-pip-version-check --no-deps --require-hashes --target /build -r constraints/build.txt \
 && python3 -m pip install --no-cache-dir --disable-pip-version-check --no-deps --require-hashes --no-compile --target /packages -r constraints/operator.txt
COPY pyproject.toml README.md LICENSE ./
COPY operator operator
ARG VERSION=0.0.0
RUN SETUPTOOLS_SCM_PRETEND_VERSION_FOR_TRAINSHED="${VERSION}" PYTHONPATH=/build python3 -m pip install --no-cache-dir --disable-pip-version-check --no-compile \
    --no-build-isolation --no-deps --no-index --target /packages . \
 && mkdir /programs && mv /packages/bin/py-spy /programs && rm -rf /packages/bin \
 && find /packages -name __pycache__ -prune -exec rm -rf {} +

FROM ${BASE}
ARG VERSION=0.0.0
ARG REVISION=unknown
LABEL org.opencontainers.image.title="trainshed" \
      org.opencontainers.image.description="A Kubernetes operator that runs kubeflow.org/v1 training jobs" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}"
# The root file system can be read-only, because the operator writes no files. The numeric user has no entry in /etc/passwd,
# where kopf would look for a user name, so USER is set.
ENV PYTHONPATH=/packages PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1 USER=trainshed
COPY --from=build /packages /packages
COPY --from=build /programs /usr/local/bin
# Remove package installers from the directories of Debian and of python.org. Then compile all modules that the start needs,
# including those of Python itself, which the base image does not compile: compiling them at each start takes longer than the
# rest of it. The .pyc files are validated by hash, because some builders change file times. Finally fail the build if a
# removed package can still be found.
RUN set -e; \
    for dir in $(python3 -c 'import sys; print(*(path for path in sys.path if path.endswith("-packages")))') \
                 $(python3 -c 'import sysconfig; print(sysconfig.get_path("stdlib"))'); do \
        rm -rf "$dir"/pip "$dir"/pip-* "$dir"/setuptools "$dir"/setuptools-* "$dir"/pkg_resources "$dir"/wheel \
               "$dir"/wheel-* "$dir"/ensurepip "$dir"/_distutils_hack "$dir"/distutils-precedence.pth; \
    done; \
    rm -f /usr/bin/pip* /usr/bin/wheel /usr/local/bin/pip* /usr/local/bin/wheel; \
    python3 -m compileall -q --invalidation-mode unchecked-hash /packages/trainshed; \
    python3 -c 'import py_compile as p, sys, trainshed.__main__; \
[p.compile(f, invalidation_mode=p.PycInvalidationMode.UNCHECKED_HASH, quiet=1) \
 for f in {getattr(m, "__file__", None) or "" for m in list(sys.modules.values())} if f.endswith(".py")]'; \
    python3 -c 'import importlib.util as u, sys; \
sys.exit([n for n in ("pip", "setuptools", "wheel", "ensurepip", "kubernetes") if u.find_spec(n)] or 0)'
# The path of training-operator v1's binary, so that a Deployment of v1 starts with this image and no other change. v1's
# ClusterRole grants no right to Leases, so leader election is off unless a flag enables it.
RUN printf '#!/bin/sh\nexec python -m trainshed operator --leader-elect=false "$@"\n' > /manager && chmod 755 /manager
USER 65532:65532
WORKDIR /packages
ENTRYPOINT ["python", "-m", "trainshed"]
CMD ["operator"]
