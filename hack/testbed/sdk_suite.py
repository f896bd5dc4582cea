"""Stand-ins of the images that the end-to-end tests in the SDK of training-operator v1 name.

They train the models of examples/, ignore the arguments that the tests give them, and need no data from elsewhere.
"""

from __future__ import annotations

from pathlib import Path

from . import images
from .archives import Image
from .places import digest

EXAMPLES = Path(__file__).parents[2] / "examples"
HOME = "srv/training"
TENSORFLOW_HOME, HOROVOD_HOME = "var/tf_mnist", "horovod/examples/pytorch"
#: The TFJob of those tests gives its learning rate by a flag.
WITH_SUMMARIES = f"""import os, runpy
os.environ["LEARNING_RATE"] = "0.01"
runpy.run_path("/{TENSORFLOW_HOME}/sweep.py", run_name="__main__")
"""


def stand_ins() -> tuple[Image, ...]:
    """Return the images, under the names that the tests use."""
    torch = images.stand_in(images.PYTORCH).layers
    tensorflow = images.stand_in(images.TENSORFLOW).layers
    summaries = _files(
        {
            f"{TENSORFLOW_HOME}/sweep.py": _example("tensorflow/sweep.py"),
            f"{TENSORFLOW_HOME}/mnist_with_summaries.py": WITH_SUMMARIES,
        }
    )
    horovod = _files({f"{HOROVOD_HOME}/pytorch_mnist.py": _example("mpi/allreduce.py")}, python="usr/bin/python3")
    return (
        _training("docker.io/kubeflow/pytorch-dist-mnist:latest", torch, "pytorch/distributed_pytorch_job.py"),
        _training(images.JAX, images.stand_in(images.JAX).layers, "jax/spmd.py"),
        _training(
            "docker.io/kubeflow/xgboost-dist-iris:latest", images.stand_in(images.XGBOOST).layers, "xgboost/iris.py"
        ),
        Image("docker.io/pytorch/pytorch:2.1.2-cuda11.8-cudnn8-runtime", torch, ("python3",)),
        Image("gcr.io/kubeflow-ci/tf-mnist-with-summaries:1.0", (*tensorflow, summaries), ("python3",)),
        Image("docker.io/paddlepaddle/paddle:2.4.0rc0-cpu", images.stand_in(images.PADDLE).layers, ("python3",)),
        Image("docker.io/horovod/horovod:0.28.1", (*images.stand_in(images.OPEN_MPI).layers, horovod), ("bash",)),
        Image("docker.io/library/hello-world:latest", (images.base(),), ("echo", "Hello")),
    )


def _training(name: str, layers: tuple[Path, ...], example: str) -> Image:
    """Return an image that runs a program of examples/, whatever its arguments are."""
    path = f"{HOME}/{Path(example).name}"
    return Image(name, (*layers, _files({path: _example(example)})), entrypoint=("python3", "-u", f"/{path}"))


def _example(name: str) -> str:
    return (EXAMPLES / name).read_text()


def _files(content: dict[str, str], python: str = "") -> Path:
    """The layer of these files alone; with `python` there is a `python` that links to it."""

    def write(folder: Path) -> None:
        for path, text in content.items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_text(text)
        if python:
            (folder / "usr/local/bin").mkdir(parents=True)
            (folder / "usr/local/bin/python").symlink_to(f"/{python}")

    name = f"training-{digest(repr(sorted(content.items())) + python)}"
    return images.layer(name, f"a layer of {', '.join(Path(path).name for path in content)}", write)
