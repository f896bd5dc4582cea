"""The unmodified v1 SDK, in an environment of its own, against our operator."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_v1_sdk_does_all_it_does_with_v1(kubeconfig: str, kubectl: Callable[..., str]) -> None:
    python = ROOT / ".venv-sdk" / "bin" / "python"
    assert python.exists(), "make venv-sdk"
    namespace = kubectl.command[-1]  # type: ignore[attr-defined]
    script = Path(__file__).with_name("sdk_session.py")
    result = subprocess.run(
        [python, script, kubeconfig, namespace], check=False, capture_output=True, text=True, timeout=240
    )
    assert result.returncode == 0, result.stdout[-3000:] + result.stderr[-3000:]
    assert "the SDK is content" in result.stdout
