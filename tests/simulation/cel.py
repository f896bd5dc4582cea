"""As much of the Common Expression Language as the rules in our CRDs speak: text in, a function of `self` out."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable
from functools import cache
from typing import Any

#: What an expression comes to, given its variables.
Value = Callable[[dict[str, Any]], Any]
TOKEN = re.compile(
    r"\s*(?:(\d+)|([A-Za-z_]\w*)|('(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\")|(&&|\|\||[=!<>]=|[-+<>!?:.,()\[\]]))"
)
COMPARE: dict[str, Callable[[Any, Any], Any]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<=": operator.le,
    ">=": operator.ge,
    "<": operator.lt,
    ">": operator.gt,
    "in": lambda item, holder: item in holder,
}
CONSTANTS = {"true": True, "false": False, "null": None}
FUNCTIONS: dict[str, Callable[[Any], Any]] = {"size": len, "string": str}
METHODS: dict[str, Callable[..., Any]] = {
    "max": max,
    "sum": sum,
    "lowerAscii": str.lower,
    "matches": lambda text, pattern: re.search(pattern, text) is not None,
    "startsWith": str.startswith,
}
#: Methods that bind a variable to each item in turn.
MACROS: dict[str, Callable[[list[Any]], Any]] = {
    "all": all,
    "exists": any,
    "exists_one": lambda found: sum(map(bool, found)) == 1,
    "map": list,
}


@cache
def compiled(text: str) -> Value:
    """The function that a rule is."""
    return _Parser(text).whole()


class _Parser:
    """Reads an expression from left to right, the weakest operators outermost."""

    def __init__(self, text: str) -> None:
        self._tokens = [next(part for part in found if part) for found in TOKEN.findall(text)] + [""]
        self._at = 0

    def whole(self) -> Value:
        """All of it."""
        value = self._choice()
        assert self._peek() == "", f"not understood: {self._tokens[self._at :]}"
        return value

    def _peek(self) -> str:
        return self._tokens[self._at]

    def _take(self, wanted: str = "") -> str:
        token = self._tokens[self._at]
        assert not wanted or token == wanted, f"{wanted} expected, not {token}"
        self._at += 1
        return token

    def _took(self, *wanted: str) -> str:
        return self._take() if self._peek() in wanted else ""

    def _choice(self) -> Value:
        test = self._either()
        if not self._took("?"):
            return test
        yes = self._choice()
        self._take(":")
        no = self._choice()
        return lambda env: yes(env) if test(env) else no(env)

    def _either(self) -> Value:
        value = self._both()
        while self._took("||"):
            value = _either(value, self._both())
        return value

    def _both(self) -> Value:
        value = self._relation()
        while self._took("&&"):
            value = _both(value, self._relation())
        return value

    def _relation(self) -> Value:
        value = self._sum()
        while how := self._took(*COMPARE):
            value = _applied(COMPARE[how], value, self._sum())
        return value

    def _sum(self) -> Value:
        value = self._signed()
        while how := self._took("+", "-"):
            value = _applied(operator.add if how == "+" else operator.sub, value, self._signed())
        return value

    def _signed(self) -> Value:
        if self._took("!"):
            value = self._signed()
            return lambda env: not value(env)
        return self._steps(self._first())

    def _first(self) -> Value:
        token = self._take()
        if token == "(":
            value = self._choice()
            self._take(")")
            return value
        if token == "[":
            items = self._items("]")
            return lambda env: [item(env) for item in items]
        if token[0] in "'\"":
            text = token[1:-1]
            return lambda _env: text
        if token.isdecimal():
            number = int(token)
            return lambda _env: number
        return self._named(token)

    def _named(self, name: str) -> Value:
        if name in CONSTANTS:
            constant = CONSTANTS[name]
            return lambda _env: constant
        if not self._took("("):
            return lambda env: env[name]
        if name == "has":
            return self._has()
        (argument,) = self._items(")")
        function = FUNCTIONS[name]
        return lambda env: function(argument(env))

    def _has(self) -> Value:
        """`has(a.b.c)`: the last step is asked for, not made."""
        end = self._at
        while self._tokens[end] != ")" or self._depth(end) != 0:
            end += 1
        field = self._tokens[end - 1]
        self._tokens[end - 2 : end] = []
        holder = self._choice()
        self._take(")")
        return lambda env: field in holder(env)

    def _depth(self, end: int) -> int:
        inside = self._tokens[self._at : end]
        return inside.count("(") - inside.count(")")

    def _steps(self, value: Value) -> Value:
        while how := self._took(".", "["):
            if how == "[":
                value = _applied(operator.getitem, value, self._choice())
                self._take("]")
                continue
            name = self._take()
            value = self._method(value, name) if self._took("(") else _field(value, name)
        return value

    def _method(self, value: Value, name: str) -> Value:
        if name in MACROS:
            variable = self._take()
            self._take(",")
            body = self._choice()
            self._take(")")
            gather = MACROS[name]
            return lambda env: gather([body({**env, variable: item}) for item in value(env)])
        arguments = self._items(")")
        method = METHODS[name]
        return lambda env: method(value(env), *(argument(env) for argument in arguments))

    def _items(self, end: str) -> list[Value]:
        items = []
        while not self._took(end):
            items.append(self._choice())
            self._took(",")
        return items


def _either(one: Value, other: Value) -> Value:
    return lambda env: one(env) or other(env)


def _both(one: Value, other: Value) -> Value:
    return lambda env: one(env) and other(env)


def _applied(how: Callable[[Any, Any], Any], one: Value, other: Value) -> Value:
    return lambda env: how(one(env), other(env))


def _field(value: Value, name: str) -> Value:
    return lambda env: value(env)[name]
