# The operator and what it runs on, nothing else: no compiler, no Kubernetes client, no root.

FROM docker.io/library/python:3.11-slim AS build
WORKDIR /src
COPY constraints/build.txt constraints/operator.txt constraints/
RUN python3 -m pip install --no-cache-dir --disable-pip-version-check --require-hashes --target /build -r constraints/build.txt \
 && python3 -m pip install --no-cache-dir --disable-pip-version-check --require-hashes --target /packages -r constraints/operator.txt
COPY pyproject.toml README.md LICENSE ./
COPY operator operator
RUN PYTHONPATH=/build python3 -m pip install --no-cache-dir --disable-pip-version-check \
    --no-build-isolation --no-deps --no-index --target /packages .

FROM docker.io/library/python:3.11-slim
# The root file system may be read-only: nothing is written when the operator runs. The user is a number without an entry in
# /etc/passwd, where kopf would look for a name.
ENV PYTHONPATH=/packages PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1 USER=trainshed
COPY --from=build /packages /packages
# Where training-operator v1 has its program: a Deployment of v1's in which nothing but the image is changed still starts.
# Its ClusterRole gives no right to a Lease, so that only who asks for leader election gets it.
RUN printf '#!/bin/sh\nexec python -m trainshed operator --leader-elect=false "$@"\n' > /manager && chmod 755 /manager
USER 65532:65532
WORKDIR /packages
ENTRYPOINT ["python", "-m", "trainshed"]
CMD ["operator"]
