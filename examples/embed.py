"""Puts each script into the ConfigMap of the examples beside it, so that script and YAML never differ.

An example is one file for `kubectl apply -f`; its script is a real file beside it. Wherever an example has a block

    name.py: |

the lines below it are those of `name.py` in the same folder, or in the one above.
"""

import re
import sys
from argparse import ArgumentParser
from pathlib import Path
from textwrap import indent

HERE = Path(__file__).parent
#: The head of a block with its indentation and the script's name, and the lines that are further in, or empty.
BLOCK = re.compile(r"^(?P<indent> *)(?P<script>\w+\.py): \|\n(?:(?P=indent) +.*\n|\n)*", re.MULTILINE)


def embed(text: str, folder: Path) -> str:
    """The text of an example with its blocks written anew from the scripts in `folder`.

    Raises OSError if a script that a block names cannot be read.
    """

    def block(found: re.Match[str]) -> str:
        above = not (folder / found["script"]).exists()
        script = ((folder.parent if above else folder) / found["script"]).read_text()
        return f"{found['indent']}{found['script']}: |\n" + indent(script, found["indent"] + "  ")

    return BLOCK.sub(block, text)


def main() -> int:
    """Write the blocks of all examples, or with `--check` only say which are stale."""
    arguments = ArgumentParser(description="Write each script into the examples beside it.")
    arguments.add_argument("--check", action="store_true", help="change nothing; fail if an example is stale")
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
