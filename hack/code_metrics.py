"""Measures source code: lines of code, lengths of functions, broad excepts, sentences, imports."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping

Function = ast.FunctionDef | ast.AsyncFunctionDef

#: Tokens that do not make a line a line of code.
SILENT = frozenset(
    (tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER)
)
#: Two words with a space between them, of which one may be computed; a NUL stands for that.
WORDS = re.compile(r"[a-z]{2,}[,;:.]? [\w(\0]|[\w)\0] [a-z]{2,}")


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


def is_short(source: str, most: int) -> bool:
    """Return whether all functions have at most this number of lines, whatever these are: it is known fast."""
    return all(len(span(node)) <= most for node in functions(ast.parse(source)))


def broad_excepts(source: str) -> tuple[int, ...]:
    """The lines of the handlers that catch everything: bare, Exception, BaseException, alone or among others."""
    return tuple(
        node.lineno
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.ExceptHandler) and is_broad(node.type)
    )


def is_broad(caught: ast.expr | None) -> bool:
    """Return whether an `except` with this expression catches every error."""
    if caught is None:
        return True
    names = {node.id for node in ast.walk(caught) if isinstance(node, ast.Name)}
    names |= {node.attr for node in ast.walk(caught) if isinstance(node, ast.Attribute)}
    return not names.isdisjoint(("Exception", "BaseException"))


def sentences(source: str, calls: Collection[str] = ()) -> tuple[str, ...]:
    """The literals that are sentences or parts of them, each f-string as one, with a NUL for what is computed.

    They have two words with a space between them; a sentence that is joined from single words is not recognised.
    Docstrings are none. With `calls` only the arguments of these count, and what the names in these are assigned.
    """
    tree = ast.parse(source)
    roots = _arguments(tree, calls) if calls else [tree]
    texts = (text for root in roots for text in _texts(root, docstring_lines(tree)))
    return tuple(dict.fromkeys(text for text in texts if WORDS.search(text)))


def _arguments(tree: ast.Module, calls: Collection[str]) -> list[ast.AST]:
    assigned: defaultdict[str, list[ast.expr]] = defaultdict(list)
    for node in ast.walk(tree):
        for target in node.targets if isinstance(node, ast.Assign) else ():
            if isinstance(target, ast.Name):
                assigned[target.id].append(node.value)
    found = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and _name(node.func) in calls]
    roots: list[ast.AST] = [part for call in found for part in (*call.args, *call.keywords)]
    for root in roots:  # which grows
        names = (node.id for node in ast.walk(root) if isinstance(node, ast.Name))
        roots += [value for name in names for value in assigned.pop(name, ())]
    return roots


def _name(function: ast.expr) -> str:
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")


def _texts(root: ast.AST, docstrings: frozenset[int]) -> Iterator[str]:
    nodes = list(ast.walk(root))
    parts = {id(part) for node in nodes if isinstance(node, ast.JoinedStr) for part in node.values}
    for node in nodes:
        if isinstance(node, ast.JoinedStr):
            yield "".join(str(part.value) if isinstance(part, ast.Constant) else "\0" for part in node.values)
        elif isinstance(node, ast.Constant) and not (id(node) in parts or node.lineno in docstrings):
            yield node.value if isinstance(node.value, str) else ""


def module(path: str) -> str:
    """The name of the module in the file at this path, which begins at the folder of the top package."""
    return path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def imports(sources: Mapping[str, str]) -> dict[str, frozenset[str]]:
    """The modules in these files, by path, each with those of them that it imports, at its top or in a function."""
    names = {module(path) for path in sources}
    return {
        module(path): frozenset(_imported(path, source, names)) - {module(path)} for path, source in sources.items()
    }


def _imported(path: str, source: str, names: set[str]) -> Iterator[str]:
    package = module(path) if path.endswith("__init__.py") else module(path).rpartition(".")[0]
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in names)
        elif isinstance(node, ast.ImportFrom):
            above = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            base = ".".join((*above, *([node.module] if node.module else [])))
            found = {f"{base}.{alias.name}" if f"{base}.{alias.name}" in names else base for alias in node.names}
            yield from found & names


def longest_chain(graph: Mapping[str, frozenset[str]]) -> tuple[str, ...]:
    """The longest chain of modules of which each imports the next; raises `ValueError` if there is a cycle."""
    known: dict[str, tuple[str, ...]] = {}

    def chain(name: str, above: tuple[str, ...]) -> tuple[str, ...]:
        if name in above:
            raise ValueError(f"import cycle: {' > '.join((*above, name))}")
        if name not in known:
            below = (chain(target, (*above, name)) for target in sorted(graph[name]))
            known[name] = (name, *max(below, key=len, default=()))
        return known[name]

    return max((chain(name, ()) for name in graph), key=len, default=())
