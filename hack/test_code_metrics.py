"""The measures of the house find what they are meant to find."""

from __future__ import annotations

import pytest

import code_metrics

SOURCE = '''"""A module."""

import os


def answer(question):
    """Say it.

    At length.
    """
    # Because it is known.
    text = """two
    lines"""

    return text
'''


def test_a_functions_length_counts_code_and_nothing_else() -> None:
    assert code_metrics.lengths(SOURCE) == {"answer:6": 4}
    assert [code_metrics.is_short(SOURCE, most) for most in (3, 100)] == [False, True]


def test_a_nested_function_counts_for_itself_and_for_the_one_around_it() -> None:
    assert code_metrics.lengths("def outer():\n    def inner():\n        return 1\n    return inner\n") == {
        "outer:1": 4,
        "inner:2": 2,
    }


def test_every_way_to_catch_everything_is_seen() -> None:
    bodies = ("", " Exception", " BaseException as error", " (OSError, Exception)", " builtins.Exception", " OSError")
    found = [code_metrics.broad_excepts(f"try:\n    pass\nexcept{body}:\n    pass\n") for body in bodies]
    assert found == [(3,), (3,), (3,), (3,), (3,), ()]


@pytest.mark.parametrize(
    ("source", "calls", "found"),
    [
        ('def f(x):\n    """Say it."""\n    return f"{x} is gone"', (), ("\0 is gone",)),
        ("f(a='the pod' if b else f'{c}' + (', and on' if d else ''))", (), ("the pod", ", and on")),
        ('X = "a/b", f"{a} {b}", "word", "spec.replicas", "%s"', (), ()),
        ('NO = "no pod"\nlog("not a pod")\nm.Event(k, f"{NO}: {e}")', ("Event",), ("no pod",)),
        ('NO = "no pod"\ntext = NO if a else B\nraise Reverted(text.format(a))', ("Reverted",), ("no pod",)),
        ('Event("a b")\nraise Reverted(name, text="was changed")', ("Reverted",), ("was changed",)),
    ],
)
def test_sentences_are_literals_with_two_words(source: str, calls: tuple[str, ...], found: tuple[str, ...]) -> None:
    assert code_metrics.sentences(source, calls) == found


def test_imports_are_found_absolute_relative_and_within_functions() -> None:
    sources = {
        "pkg/__init__.py": "from .a import x",
        "pkg/a.py": "import os\nfrom pkg import b\n",
        "pkg/b.py": "def f():\n    from .sub.c import y\n",
        "pkg/sub/__init__.py": "",
        "pkg/sub/c.py": "from .. import b as other\nimport pkg.a\n",
    }
    assert code_metrics.imports(sources) == {
        "pkg": {"pkg.a"},
        "pkg.a": {"pkg.b"},
        "pkg.b": {"pkg.sub.c"},
        "pkg.sub": set(),
        "pkg.sub.c": {"pkg.a", "pkg.b"},
    }


def test_the_longest_chain_is_found_and_a_cycle_is_an_error() -> None:
    graph = {"a": frozenset("bc"), "b": frozenset("c"), "c": frozenset("d"), "d": frozenset()}
    assert code_metrics.longest_chain(graph) == ("a", "b", "c", "d")
    with pytest.raises(ValueError, match="d > b"):
        code_metrics.longest_chain(graph | {"d": frozenset("b")})
