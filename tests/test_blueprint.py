"""The measures of the house find what they are meant to find."""

from __future__ import annotations

import blueprint

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
    assert blueprint.lengths(SOURCE) == {"answer:6": 4}


def test_a_nested_function_counts_for_itself_and_for_the_one_around_it() -> None:
    assert blueprint.lengths("def outer():\n    def inner():\n        return 1\n    return inner\n") == {
        "outer:1": 4,
        "inner:2": 2,
    }


def test_a_module_of_values_has_nothing_to_test() -> None:
    assert not blueprint.has_functions("class Value:\n    size: int = 0\n")
    assert blueprint.has_functions("class Value:\n    def size(self):\n        return 0\n")


def test_every_way_to_catch_everything_is_seen() -> None:
    bodies = ("", " Exception", " BaseException as error", " (OSError, Exception)", " builtins.Exception", " OSError")
    found = [blueprint.broad_excepts(f"try:\n    pass\nexcept{body}:\n    pass\n") for body in bodies]
    assert found == [(3,), (3,), (3,), (3,), (3,), ()]


def test_six_equal_lines_are_found_wherever_they_stand_and_however_deep() -> None:
    run = [f"step_{number}()" for number in range(6)]
    other = ["def twin():", *(f"    {line}" for line in run)]
    sources = {"one.py": "\n".join(run), "two.py": "\n".join(other)}
    assert blueprint.repetitions(sources, 6) == (("one.py:1", "two.py:2"),)


def test_five_equal_lines_are_no_repetition_and_imports_and_fields_never_are() -> None:
    imports = [f"import module_{number}\nfield_{number}: str" for number in range(9)]
    steps = [f"step_{number}()" for number in range(5)]
    assert blueprint.repetitions(dict.fromkeys(("one.py", "two.py"), "\n".join(imports + steps)), 6) == ()


def test_a_comment_or_a_bracket_between_equal_lines_does_not_hide_them() -> None:
    run = [f"step_{number}(\n)" for number in range(6)]
    sources = {"one.py": "\n".join(run), "two.py": "\n# why\n".join(run)}
    assert len(blueprint.repetitions(sources, 6)) == 1
