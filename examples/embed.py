"""Embed each script in the ConfigMap of its example, so that the script and the YAML file never differ.

An example is one file for `kubectl apply -f`; its script is a separate file in the same folder. In every block

    name.py: |

of an example, the lines are replaced with those of `name.py` from the same folder or its parent.
"""

import re
import sys
from argparse import ArgumentParser
from pathlib import Path
from textwrap import indent

HERE = Path(__file__).parent
#: A block: its header with the indentation and the name of the script, and lines that are indented further or empty.
BLOCK = re.compile(r"^(?P<indent> *)(?P<script>\w+\.py): \|\n(?:(?P=indent) +.*\n|\n)*", re.MULTILINE)


def embed(text: str, folder: Path) -> str:
    """Return the text of an example with its blocks replaced with the scripts in `folder`.

    Raises:
        OSError: a script that a block names cannot be read.
    """

    def block(found: re.Match[str]) -> str:
        above = not (folder / found["script"]).exists()
        script = ((folder.parent if above else folder) / found["script"]).read_text()
        return f"{found['indent']}{found['script']}: |\n" + indent(script, found["indent"] + "  ")

    return BLOCK.sub(block, text)


def main() -> int:
    """Write the blocks of all examples, or with `--check` only list the stale ones."""
    arguments = ArgumentParser(description="Embed each script in its examples.")
    arguments.add_argument("--check", action="store_true", help="Write nothing; fail if an example is stale.")
    check = arguments.parse_args().check
    stale = []
    for example in sorted(HERE.glob("*/**/*.yaml")):
        old = example.read_text()
        new = embed(old, example.parent)
        if new == old:
            continue
        stale.append(example)
        if not check:
            example.write_text(new)
        print(f"{example.relative_to(HERE.parent)}: {'stale, run python examples/embed.py' if check else 'written'}")
    return 1 if check and stale else 0


if __name__ == "__main__":
    sys.exit(main())
