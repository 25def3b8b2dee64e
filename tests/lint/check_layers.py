#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# Copyright the rondo authors
"""Layers point down only, and the operating system is met in one place.

  - a file in src/<layer> includes only its own layer, the layers below it and public headers of those;
  - a public header includes only the standard library, tl/expected.hpp and rondo/...;
  - <sys/...>, <linux/...>, <unistd.h>, <fcntl.h>, <liburing.h> and syscall() appear only in src/os, in tests, in
    tools/demo, in ring-ctl's own os_ files (it starts commands for --exec) and in perf.

usage: check_layers.py ROOT | check_layers.py --self-test
"""

import pathlib
import re
import sys
import tempfile

from source_text import code_only, cpp_files, includes

# layer: the layers directly below. Keep in step with the rondo_add_layer() lines in CMakeLists.txt.
LAYERS = {
    "base": [],
    "os": ["base"],
    "format": ["base"],
    "ring": ["os", "format"],
    "flow": ["ring"],
    "queue": ["flow"],
}

# Public headers that belong to a layer above the lowest. A header that includes one of them belongs there as well.
PUBLIC_HEADERS = {
    "rondo/format.hpp": "format",
    "rondo/rondo.hpp": "queue",
    "rondo/queue.hpp": "queue",
    "rondo/producer.hpp": "queue",
    "rondo/consumer.hpp": "queue",
}

OS_HEADER = re.compile(r"^(sys/.*|linux/.*|unistd\.h|fcntl\.h|liburing(/.*)?\.?h?)$")
OS_ALLOWED = ("src/os/", "tests/", "tools/demo/", "tools/ring_ctl/os_", "perf/")

STANDARD_HEADERS = set(
    """algorithm any array atomic barrier bit bitset charconv chrono codecvt compare complex concepts
    condition_variable coroutine deque exception execution filesystem format forward_list fstream functional future
    initializer_list iomanip ios iosfwd iostream istream iterator latch limits list locale map memory
    memory_resource mutex new numbers numeric optional ostream queue random ranges ratio regex scoped_allocator
    semaphore set shared_mutex source_location span sstream stack stdexcept stop_token streambuf string string_view
    strstream syncstream system_error thread tuple type_traits typeindex typeinfo unordered_map unordered_set utility
    valarray variant vector version cassert cctype cerrno cfenv cfloat cinttypes climits clocale cmath csetjmp
    csignal cstdarg cstddef cstdint cstdio cstdlib cstring ctime cuchar cwchar cwctype""".split()
)


def below(layer):
    """The layer itself and all layers it may include."""
    result = {layer}
    for direct in LAYERS[layer]:
        result |= below(direct)
    return result


def public_layers(root):
    """The layer of each public header: the highest of its own and of those that it includes."""
    height = {layer: len(below(layer)) for layer in LAYERS}
    names = {str(path.relative_to("include")): path for path in cpp_files(root, "include/rondo")}
    layers = {name: PUBLIC_HEADERS.get(name, "base") for name in names}
    changed = True
    while changed:
        changed = False
        for name, path in names.items():
            for _, target, _ in includes((root / path).read_text()):
                if target in layers and height[layers[target]] > height[layers[name]]:
                    layers[name] = layers[target]
                    changed = True
    return layers


def check_public(path, line, target):
    if target in STANDARD_HEADERS or target == "tl/expected.hpp" or target.startswith("rondo/"):
        return None
    return f"{path}:{line}: a public header includes {target}; only std, tl/expected.hpp and rondo/ are allowed"


def check_internal(path, line, target, quoted, public):
    layer = path.parts[1]
    if layer not in LAYERS:
        return f"{path}:{line}: src/{layer} is not a layer; add it to LAYERS here and to CMakeLists.txt"
    if ".." in pathlib.PurePath(target).parts:
        return f"{path}:{line}: {target}: write the path from src/, not from this file"
    if target.startswith("rondo/"):
        other = public.get(target)
        if other is None:
            return f"{path}:{line}: there is no public header {target}"
    elif quoted and "/" in target:
        other = target.split("/")[0]
        if other not in LAYERS:
            return f"{path}:{line}: {target} belongs to no layer; libraries are included with <>"
    else:
        return None
    if other not in below(layer):
        return f"{path}:{line}: {layer} includes {target} of the layer {other}, which is not below it"
    return None


def check(root):
    root = pathlib.Path(root)
    findings = []
    public = public_layers(root)
    for path in cpp_files(root, "include", "src", "tools", "bench", "perf", "tests"):
        name = path.as_posix()
        text = (root / path).read_text()
        os_allowed = name.startswith(OS_ALLOWED)
        for line, target, quoted in includes(text):
            if name.startswith("include/"):
                findings.append(check_public(path, line, target))
            elif name.startswith("src/"):
                findings.append(check_internal(path, line, target, quoted, public))
            if OS_HEADER.match(target) and not os_allowed and not name.startswith("include/"):
                findings.append(f"{path}:{line}: <{target}> may be included only in src/os")
        if not os_allowed:
            for number, code in enumerate(code_only(text).split("\n"), 1):
                if re.search(r"\bsyscall\s*\(", code):
                    findings.append(f"{path}:{number}: syscall() may be called only in src/os")
    return [finding for finding in findings if finding]


def self_test():
    good = {
        "include/rondo/version.hpp": "#include <string_view>\n",
        "include/rondo/result.hpp": "#include <tl/expected.hpp>\n#include <rondo/version.hpp>\n",
        "include/rondo/queue.hpp": '#include "rondo/result.hpp"\n',
        "src/base/a.hpp": '#include <rondo/version.hpp>\n// #include "queue/q.hpp"\n/*\n#include "queue/q.hpp"\n*/\n',
        "src/os/file.cpp": '#include <unistd.h>\n#include "os/file.hpp"\nint f() { return syscall(1); }\n',
        "src/ring/r.hpp": '#include "os/file.hpp"\n#include "format/f.hpp"\n#include "base/a.hpp"\n',
        "src/queue/q.cpp": '#include "rondo/queue.hpp"\n#include "flow/f.hpp"\n#include "local.hpp"\n',
        "tests/unit/t.cpp": '#include <sys/mman.h>\n#include "queue/q.hpp"\n',
        "tools/demo/main.cpp": "#include <sys/wait.h>\n",
        "tools/ring_ctl/main.cpp": '#include "queue/q.hpp"\nconst char* s = "syscall(1)";  // syscall(2)\n',
    }
    bad = [
        ("src/base/bad.cpp", '#include "os/file.hpp"\n', "not below"),
        ("src/os/bad.cpp", '#include "format/f.hpp"\n', "not below"),
        ("src/format/bad.cpp", '#include "os/file.hpp"\n', "not below"),
        ("src/ring/bad.hpp", '#include "queue/q.hpp"\n', "not below"),
        ("src/flow/bad.cpp", "#include <rondo/queue.hpp>\n", "not below"),
        ("src/ring/bad.cpp", '#include "../queue/q.hpp"\n', "from src/"),
        ("src/ring/bad.cpp", '#include "rondo/nowhere.hpp"\n', "no public header"),
        ("src/ring/bad.cpp", '#include "boost/version.hpp"\n', "no layer"),
        ("src/extra/bad.cpp", "#include <vector>\n", "not a layer"),
        ("src/ring/bad.cpp", "#include <sys/mman.h>\n", "only in src/os"),
        ("src/queue/bad.cpp", "#  include <linux/futex.h>\n", "only in src/os"),
        ("tools/ring_ctl/bad.cpp", "#include <fcntl.h>\n", "only in src/os"),
        ("bench/bad.cpp", "#include <unistd.h>\n", "only in src/os"),
        ("src/flow/bad.cpp", "int f() { return ::syscall (202); }\n", "only in src/os"),
        ("include/rondo/bad.hpp", "#include <fmt/core.h>\n", "public header"),
        ("include/rondo/bad.hpp", '#include "ring/r.hpp"\n', "public header"),
        ("include/rondo/bad.hpp", "#include <unistd.h>\n", "public header"),
    ]
    failures = 0

    def run(extra):
        with tempfile.TemporaryDirectory() as directory:
            for name, text in {**good, **extra}.items():
                path = pathlib.Path(directory, name)
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text)
            return check(directory)

    findings = run({})
    if findings:
        failures += 1
        print("self-test: findings in a good tree:", *findings, sep="\n  ")
    for name, text, expected in bad:
        findings = run({name: text})
        if len(findings) != 1 or expected not in findings[0] or not findings[0].startswith(name):
            failures += 1
            print(f"self-test: {name} with {text!r}: expected one finding with {expected!r}, got {findings}")
    # A header that includes a facade header is itself of that layer.
    findings = run({"include/rondo/up.hpp": "#include <rondo/queue.hpp>\n", "src/ring/x.cpp": "#include <rondo/up.hpp>\n"})
    if len(findings) != 1 or "not below" not in findings[0]:
        failures += 1
        print("self-test: an upward include through a public header was not found:", findings)
    print(f"self-test: {len(bad) + 2} cases, {failures} failed")
    return failures


def main(arguments):
    if len(arguments) != 1:
        print(__doc__)
        return 2
    if arguments[0] == "--self-test":
        return 1 if self_test() else 0
    findings = check(arguments[0])
    print(*findings, sep="\n", end="\n" if findings else "")
    print(f"layers: {len(findings)} findings")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
