"""An unmodified Trainer of Hugging Face reports by itself how far it is: real library, real pods, real tokens."""

from __future__ import annotations

import re

import pytest

from support import UserClient
from support.jobs import pod_spec, pytorchjob
from support.kubectl import Kubectl
from support.user_client import eventually
from testbed import images, kind

from .conftest import PATIENCE

pytestmark = pytest.mark.long

#: A model of a few thousand weights, made from its configuration: nothing is downloaded. A step takes a second.
PROGRAM = """
import time, torch
from transformers import LlamaConfig, LlamaForCausalLM, Trainer, TrainingArguments

class Slow(torch.utils.data.Dataset):
    def __len__(self):
        return 40
    def __getitem__(self, index):
        time.sleep(1)
        tokens = torch.randint(0, 64, (8,))
        return {"input_ids": tokens, "labels": tokens}

sizes = dict(vocab_size=64, hidden_size=16, intermediate_size=16, num_hidden_layers=1)
model = LlamaForCausalLM(LlamaConfig(**sizes, num_attention_heads=2, num_key_value_heads=2))
arguments = TrainingArguments(
    "/tmp/out", max_steps=40, per_device_train_batch_size=1, logging_steps=1, save_strategy="no", report_to="none",
    use_cpu=True,
)
Trainer(model=model, args=arguments, train_dataset=Slow()).train()
"""


@pytest.fixture(scope="module")
def image(flags: str) -> str:
    """The image of the training."""
    assert "--progress-server" in flags, "make deploy VALUES='--set progress.endpoint.enabled=true'"
    image = images.hugging_face()
    kind.load_images(image)
    return image.name


def test_hugging_faces_trainer_reports_by_itself(image: str, user: UserClient, kubectl: Kubectl):
    job = pytorchjob("trains", Master=1)
    job["metadata"]["annotations"] = {"trainshed.dev/progress": "Endpoint"}
    pod_spec(job, "Master")["containers"][0] |= {
        "image": image,
        "command": ["python3", "-c", PROGRAM],
        # Nothing is there: without NO_PROXY no report would arrive.
        "env": [{"name": "HTTPS_PROXY", "value": "http://127.0.0.1:9"}],
    }
    user.create(job)
    found: dict = {}

    def reports_on_its_way() -> bool:
        found.update(user.job("PyTorchJob", "trains").get("status", {}).get("trainerStatus", {}))
        return 0 < found.get("progressPercentage", 0) < 100

    eventually(reports_on_its_way, PATIENCE)
    assert found["totalSteps"] == 40
    assert 0 < found["step"] < 40
    assert {"loss", "learning_rate"} <= {metric["name"] for metric in found["metrics"]}
    assert found["estimatedRemainingSeconds"] > 0
    assert re.search(r"\b\d+%, \d+m?s? ?\S* left\b", kubectl("get", "pytorchjob", "trains", "-o", "wide"))
    eventually(lambda: user.state("PyTorchJob", "trains") == "Succeeded", PATIENCE)
    assert "ProgressReportRefused" not in [reason for _, reason, _ in user.events("trains")], kubectl(
        "logs", "trains-master-0"
    )
