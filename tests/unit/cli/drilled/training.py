"""A training in plain Python that drills run: it saves and loads checkpoints, well or with one of four flaws.

The flaw is the first argument: `none`, `never-loads`, `torn`, `ignores-sigterm` or `one-size`. It prints its steps, or
sends them where there is an endpoint.
"""

import json
import os
import signal
import ssl
import sys
import time
import urllib.request
from pathlib import Path

FLAW, LAST, EVERY = sys.argv[1], 100, 5
STEP = float(os.environ.get("STEP_SECONDS", "0.03"))
RANK, WORLD = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
FILE = Path(os.environ["CHECKPOINTS"]) / "checkpoint.json"
asked = []


def save(state):
    """Write the checkpoint, which takes a while as that of a large model does."""
    target = FILE if FLAW == "torn" else FILE.with_suffix(".new")
    text = json.dumps(state)
    with target.open("w") as file:
        for start in range(0, len(text), 8):
            file.write(text[start : start + 8])
            file.flush()
            time.sleep(0.01)
    if target != FILE:
        target.rename(FILE)


def load():
    """Return the state that was saved, or a new one."""
    if FLAW == "never-loads" or not FILE.exists():
        return {"step": 0, "loss": 2.0, "world": WORLD}
    state = json.loads(FILE.read_text())
    if FLAW == "one-size" and state["world"] != WORLD:
        sys.exit(f"checkpoint of {state['world']} ranks cannot be loaded by {WORLD}")
    return state | {"world": WORLD}


def report(step, loss):
    """Say a step: print it, or send it as docs/progress.md shows."""
    if not (url := os.environ.get("KUBEFLOW_TRAINER_SERVER_URL")):
        print(f"step={step}/{LAST} loss={loss:.4f}", flush=True)
        return
    found = {"current_step": step, "total_steps": LAST, "loss": loss}
    status = {"metrics": [{"name": name, "value": str(value)} for name, value in found.items()]}
    token = Path(os.environ["KUBEFLOW_TRAINER_SERVER_TOKEN"]).read_text()
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    request = urllib.request.Request(url, json.dumps({"trainerStatus": status}).encode(), headers)
    context = ssl.create_default_context(cafile=os.environ["KUBEFLOW_TRAINER_SERVER_CA_CERT"])
    urllib.request.urlopen(request, context=context).close()


def main():
    """Train: only the first rank reports and saves."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN if FLAW == "ignores-sigterm" else lambda *_: asked.append(True))
    state = load()
    while state["step"] < LAST:
        time.sleep(STEP)
        state |= {"step": state["step"] + 1, "loss": state["loss"] * 0.985}
        if RANK == 0:
            report(state["step"], state["loss"])
            if asked or state["step"] % EVERY == 0:
                save(state)
        if asked:
            sys.exit(143)


main()
