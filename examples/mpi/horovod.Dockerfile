# The image of the Horovod examples: TensorFlow 2.13 for CPUs, Open MPI 4.1, and Horovod with both MPI and Gloo. Horovod 0.28.1, the
# last release, is compiled for one version of TensorFlow; 2.13 is one that it was released for. It takes minutes to compile.
# The setuptools stays in the image: TensorFlow imports distutils, which Debian's python3 lacks.
FROM debian:bookworm-slim AS build

RUN apt-get update \
    && apt-get install -y --no-install-recommends g++ cmake make libopenmpi-dev python3-dev python3-pip \
    && rm -rf /var/lib/apt/lists/*
RUN pip install --break-system-packages --no-cache-dir tensorflow-cpu==2.13.1 cloudpickle psutil pyyaml packaging "setuptools<70" wheel
RUN HOROVOD_WITH_TENSORFLOW=1 HOROVOD_WITH_MPI=1 HOROVOD_WITH_GLOO=1 HOROVOD_WITHOUT_PYTORCH=1 HOROVOD_WITHOUT_MXNET=1 \
    pip install --break-system-packages --no-cache-dir --no-build-isolation --no-deps horovod==0.28.1

FROM debian:bookworm-slim

RUN apt-get update \
    && apt-get install -y --no-install-recommends openmpi-bin openssh-server python3 \
    && rm -rf /var/lib/apt/lists/* \
    && mkdir -p /run/sshd \
    && printf 'StrictHostKeyChecking no\nUserKnownHostsFile /dev/null\nLogLevel ERROR\n' > /etc/ssh/ssh_config.d/pods.conf \
    && printf 'StrictModes no\n' > /etc/ssh/sshd_config.d/pods.conf
COPY --from=build /usr/local /usr/local
