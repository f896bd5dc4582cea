"""The rules of Kubernetes for names, keys and paths, from apimachinery's util/validation and core/validation."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator

#: Returns what is wrong with a value, nothing if it is valid.
Rule = Callable[[str], list[str]]
LABEL = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
SUBDOMAIN = rf"{LABEL}(\.{LABEL})*"
KEY = r"[-._a-zA-Z0-9]+"
NAME = r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
#: The most characters of a label, of the name of a port, and of all other names.
LONGEST_LABEL, LONGEST_PORT, LONGEST = 63, 15, 253
#: The bits that the mode of a file may have.
MODES = 0o777
#: Characters of a value in a message.
SHOWN = 100


def label(value: str) -> list[str]:
    """Return why a value is not a label as in DNS (RFC 1123), the rule for namespaces, volumes and containers."""
    found = _too_long(value, LONGEST_LABEL)
    if not re.fullmatch(LABEL, value):
        if re.fullmatch(SUBDOMAIN, value):
            return [*found, "must not contain dots"]
        what = (
            "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and"
        )
        found.append(_form(f"{what} end with an alphanumeric character", LABEL, "my-name", "123-abc"))
    return found


def subdomain(value: str) -> list[str]:
    """Return why a value is not a subdomain as in DNS (RFC 1123), the rule for the names of most objects."""
    found = _too_long(value, LONGEST)
    if not re.fullmatch(SUBDOMAIN, value):
        what = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must"
        found.append(_form(f"{what} start and end with an alphanumeric character", SUBDOMAIN, "example.com"))
    return found


def key(value: str) -> list[str]:
    """Return why a value is not a key of a ConfigMap or a Secret."""
    found = _too_long(value, LONGEST)
    if not re.fullmatch(KEY, value):
        what = "a valid config key must consist of alphanumeric characters, '-', '_' or '.'"
        found.append(_form(what, KEY, "key.name", "KEY_NAME", "key-name"))
    if value in (".", ".."):
        found.append(f"must not be '{value}'")
    elif value.startswith(".."):
        found.append("must not start with '..'")
    return found


def qualified(value: str) -> list[str]:
    """Return why a value is not the key of a label: a name, perhaps with a domain before a slash."""
    *prefix, name = value.split("/")
    if prefix[1:]:
        what = "a valid label key must consist of alphanumeric characters, '-', '_' or '.', and must start and end with"
        text = _form(f"{what} an alphanumeric character", NAME, "MyName", "my.name", "123-abc")
        return [f"{text} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"]
    found = [f"prefix part {problem}" for part in prefix for problem in _of_part(part, subdomain)]
    return [*found, *(f"name part {problem}" for problem in _of_part(name, _name))]


def annotation(value: str) -> list[str]:
    """Return why a value is not the key of an annotation, whose domain may have capitals."""
    return qualified(value.lower())


def label_value(value: str) -> list[str]:
    """Return why a value is not that of a label; it may be empty."""
    found = _too_long(value, LONGEST_LABEL)
    if value and not re.fullmatch(NAME, value):
        what = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must"
        text = f"{what} start and end with an alphanumeric character"
        found.append(_form(text, f"({NAME})?", "MyValue", "my_value", "12345"))
    return found


def variable(value: str) -> list[str]:
    """Return why a value is not the name of an environment variable."""
    if value.isascii() and value.isprintable() and "=" not in value:
        return []
    return ["a valid environment variable name must consist only of printable ASCII characters other than '='"]


def port(value: str) -> list[str]:
    """Return why a value is not the name of a port (RFC 6335)."""
    found = [] if len(value) <= LONGEST_PORT else [f"must be no more than {LONGEST_PORT} characters"]
    if not re.fullmatch("[-a-z0-9]+", value):
        found.append("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)")  # codespell:ignore
    if not re.search("[a-z]", value):
        found.append("must contain at least one letter (a-z)")
    if "--" in value:
        found.append("must not contain consecutive hyphens")
    if value.startswith("-") or value.endswith("-"):
        found.append("must not begin or end with a hyphen")
    return found


def without_backsteps(value: str) -> list[str]:
    """Return why a value is not the path of a node."""
    return ["must not contain '..'"] if ".." in value.split("/") else []


def descending(value: str) -> list[str]:
    """Return why a value is not a path in a volume."""
    absolute = ["must be a relative path"] if value.startswith("/") else []
    return [*absolute, *without_backsteps(value)]


def projected(value: str) -> list[str]:
    """Return why a value is not the path of a file that a kubelet writes, which keeps names with '..' for itself."""
    reserved = value.startswith("..") and not value.startswith("../")
    return [*descending(value), *(["must not start with '..'"] if reserved else ())]


def writable(value: str) -> list[str]:
    """Return why a value cannot be passed to the system as a path, an argument or a variable."""
    if "\0" in value:
        return ["must not contain a zero byte"]
    try:
        value.encode()
    except UnicodeEncodeError:
        return ["must be text in UTF-8"]
    return []


def invalid(path: str, value: object, rule: Rule) -> Iterator[str]:
    """Yield the problems of a text at a path as the API server writes them."""
    if not isinstance(value, str):
        yield f"{path}: Invalid value: must be of type string"
    elif not value:
        yield f"{path}: Required value"
    else:
        yield from (
            f"{path}: Invalid value: {quoted(value)}: {problem}" for problem in (*rule(value), *writable(value))
        )


def invalid_mode(path: str, value: object) -> Iterator[str]:
    """Yield the problem of the mode of a file."""
    if value is not None and not (isinstance(value, int) and 0 <= value <= MODES):
        yield f"{path}: Invalid value: {value}: must be a number between 0 and 0777 (octal), both inclusive"


def quoted(value: str) -> str:
    """Return a text in quotes, without its end if it is long."""
    return json.dumps(value if len(value) <= SHOWN else f"{value[:SHOWN]}…", ensure_ascii=False)


def _of_part(part: str, rule: Rule) -> list[str]:
    return rule(part) if part else ["must be non-empty"]


def _name(value: str) -> list[str]:
    found = _too_long(value, LONGEST_LABEL)
    if not re.fullmatch(NAME, value):
        what = "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric"
        found.append(_form(f"{what} character", NAME, "MyName", "my.name", "123-abc"))
    return found


def _too_long(value: str, most: int) -> list[str]:
    return [f"must be no more than {most} characters"] if len(value.encode(errors="replace")) > most else []


def _form(what: str, pattern: str, *examples: str) -> str:
    named = " or ".join(f"'{example}', " for example in examples)
    return f"{what} (e.g. {named}regex used for validation is '{pattern}')"
