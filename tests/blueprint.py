"""Measures source code by the house's rules: what counts as a line, a function, a broad except, a repetition."""

from __future__ import annotations

import ast
import io
import tokenize
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping

Function = ast.FunctionDef | ast.AsyncFunctionDef

#: Tokens that make no line a line of code.
SILENT = frozenset(
    (tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER)
)


def functions(tree: ast.Module) -> Iterator[Function]:
    """Every function and method, nested ones too."""
    return (node for node in ast.walk(tree) if isinstance(node, Function))


def code_lines(source: str) -> frozenset[int]:
    """The numbers of the lines that hold code: neither blank nor only a comment nor part of a docstring."""
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in SILENT:
            lines.update(range(token.start[0], token.end[0] + 1))
    return frozenset(lines) - docstring_lines(ast.parse(source))


def docstring_lines(tree: ast.Module) -> frozenset[int]:
    """The numbers of the lines that belong to docstrings."""
    lines: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | Function) and ast.get_docstring(node) is not None:
            lines.update(span(node.body[0]))
    return frozenset(lines)


def span(node: ast.stmt) -> range:
    """The numbers of the lines from a statement's first to its last; decorators do not count."""
    return range(node.lineno, (node.end_lineno or node.lineno) + 1)


def lengths(source: str) -> dict[str, int]:
    """Each function with its number of lines of code, its signature among them."""
    code = code_lines(source)
    return {f"{node.name}:{node.lineno}": len(code.intersection(span(node))) for node in functions(ast.parse(source))}


def has_functions(source: str) -> bool:
    """Whether there is anything to test: a module of mere values has no function with more than a docstring."""
    return any(True for _ in functions(ast.parse(source)))


def broad_excepts(source: str) -> tuple[int, ...]:
    """The lines of the handlers that catch everything: bare, Exception, BaseException, alone or among others."""
    return tuple(
        node.lineno
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.ExceptHandler) and is_broad(node.type)
    )


def is_broad(caught: ast.expr | None) -> bool:
    """Whether an `except` with this expression catches every error."""
    if caught is None:
        return True
    names = {node.id for node in ast.walk(caught) if isinstance(node, ast.Name)}
    names |= {node.attr for node in ast.walk(caught) if isinstance(node, ast.Attribute)}
    return not names.isdisjoint(("Exception", "BaseException"))


def repetitions(sources: Mapping[str, str], run: int) -> tuple[tuple[str, ...], ...]:
    """The places, as `file:line`, where the same `run` lines of code stand more than once.

    Imports and bare declarations of fields do not count, nor do lines without a letter or a digit, nor how far a line
    is indented.
    """
    places: defaultdict[tuple[str, ...], list[str]] = defaultdict(list)
    for name, source in sources.items():
        lines = telling_lines(source)
        for start in range(len(lines) - run + 1):
            window = lines[start : start + run]
            places[tuple(text for _, text in window)].append(f"{name}:{window[0][0]}")
    return tuple(tuple(found) for found in places.values() if len(found) > 1)


def telling_lines(source: str) -> tuple[tuple[int, str], ...]:
    """The lines that could be a repetition, with their numbers."""
    quiet = lines_of(
        node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.stmt) and is_declaration(node)
    )
    lines = source.splitlines()
    numbers = sorted(code_lines(source) - quiet)
    telling = ((number, lines[number - 1].strip()) for number in numbers)
    return tuple((number, text) for number, text in telling if any(char.isalnum() for char in text))


def is_declaration(node: ast.stmt) -> bool:
    """Whether a statement only says what there is: an import, or a field without a value."""
    return isinstance(node, ast.Import | ast.ImportFrom) or (isinstance(node, ast.AnnAssign) and node.value is None)


def lines_of(statements: Iterable[ast.stmt]) -> frozenset[int]:
    """The numbers of all lines of these statements."""
    return frozenset(number for statement in statements for number in span(statement))
