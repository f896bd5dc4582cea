# The image of the init container that delivers kubectl to the launcher of an MPIJob of kubeflow.org/v1. It runs beside a token
# with the right to exec into the job's workers, so both of its parts are pinned by digest.
#
# Build arguments:
#   KUBECTL   image with /bin/kubectl: the release of the Kubernetes project
#   BASE      image with a shell and cp

ARG KUBECTL=registry.k8s.io/kubectl:v1.36.1@sha256:d08f476d04d0e30f426f06bc6ff6c38913aaa4591943046b77e2f74a72d3611c
ARG BASE=docker.io/library/alpine:3.22@sha256:14358309a308569c32bdc37e2e0e9694be33a9d99e68afb0f5ff33cc1f695dce

FROM ${KUBECTL} AS kubectl

FROM ${BASE}
LABEL org.opencontainers.image.title="kubectl-delivery" \
      org.opencontainers.image.description="Copies kubectl to \$TARGET_DIR" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="v1.36.1"
COPY --from=kubectl /bin/kubectl /usr/local/bin/kubectl
USER 65532:65532
CMD ["/bin/sh", "-c", "cp /usr/local/bin/kubectl $TARGET_DIR/kubectl"]
