# SPDX-License-Identifier: MIT
# Copyright the rondo authors
"""Shared by the checks in this directory: finding C++ files, taking comments and literals out of their text."""

import pathlib
import re

_TOKEN = re.compile(
    r'//[^\n]*|/\*.*?\*/|R"(?P<delim>[^ ()\\\n]*)\(.*?\)(?P=delim)"'
    r'|"(?:\\.|[^"\\\n])*"|(?<![0-9A-Za-z_])\'(?:\\.|[^\'\\\n])+\'',
    re.DOTALL,
)
_INCLUDE_LINE = re.compile(r"^[ \t]*#[ \t]*include\b[^\n]*", re.MULTILINE)


def cpp_files(root, *directories):
    """All C++ files below the given directories, in a fixed order, as paths relative to root."""
    root = pathlib.Path(root)
    found = []
    for directory in directories:
        for path in (root / directory).rglob("*"):
            if path.suffix in (".hpp", ".cpp", ".h", ".cc", ".ipp") and path.is_file():
                found.append(path.relative_to(root))
    return sorted(found)


def _blank(text):
    return re.sub(r"[^\n]", " ", text)


def code_only(text):
    """The text with comments and literals blanked out; every line keeps its number and length."""
    return _TOKEN.sub(lambda match: _blank(match.group()), text)


def comments_only(text):
    """The text with everything but comments blanked out."""
    parts = []
    end = 0
    for match in _TOKEN.finditer(text):
        parts.append(_blank(text[end : match.start()]))
        is_comment = match.group().startswith(("//", "/*"))
        parts.append(match.group() if is_comment else _blank(match.group()))
        end = match.end()
    parts.append(_blank(text[end:]))
    return "".join(parts)


def includes(text):
    """(line number, included path, True if in quotes) of each #include that is not commented out."""
    code = code_only(text)
    for match in _INCLUDE_LINE.finditer(text):
        line = text.count("\n", 0, match.start()) + 1
        # In a block comment the directive itself is blanked out.
        if "include" not in code[match.start() : match.end()]:
            continue
        target = re.search(r'include\s*(?:"([^"]+)"|<([^>]+)>)', match.group())
        if target:
            yield line, target.group(1) or target.group(2), target.group(1) is not None
