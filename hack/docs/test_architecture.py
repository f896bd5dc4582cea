"""The modules named in docs/architecture.md exist."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_modules_exist() -> None:
    page = (ROOT / "docs/architecture.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`([a-z_]+/\w+\.py)`", page))
    assert named
    assert sorted(name for name in named if not (ROOT / "operator/trainshed" / name).is_file()) == []
