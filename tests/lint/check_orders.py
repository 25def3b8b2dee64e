#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# Copyright the rondo authors
"""Every atomic operation spells its order, and every order says what it is for.

  - a line with a memory order, in src and include, has a tag ORD(name) in a comment on the same line or at most four
    lines above;
  - a tag other than none has a release side (release, acq_rel, seq_cst) and an acquire side (acquire, acq_rel,
    seq_cst) somewhere;
  - load, store, exchange, fetch_*, test_and_set and compare_exchange_* do not leave an order out (two orders for
    compare_exchange_*); a wrapper that passes orders on calls its parameters order, success and failure;
  - no atomic_thread_fence: put the order on the operation. A signal fence, for the compiler alone, needs a tag as well.

The nearest tag counts, together with the others of its comment block, so that a compare-and-swap may have one tag for
success and one for failure.

usage: check_orders.py ROOT | check_orders.py --self-test
"""

import collections
import pathlib
import re
import sys
import tempfile

from source_text import code_only, comments_only, cpp_files

TAG = re.compile(r"\bORD\(([^)]*)\)")
TAG_NAME = re.compile(r"^[a-z0-9_]+(\.[a-z0-9_]+)*$")
TAG_LINES_ABOVE = 4
ORDER = re.compile(r"\bmemory_order(?:(?:_|::)(relaxed|consume|acquire|release|acq_rel|seq_cst))?\b")
ORDER_ARGUMENT = re.compile(r"\bmemory_order(?:_|::)\w+|\border\b|\bsuccess\b|\bfailure\b")
OPERATION = re.compile(
    r"(?:\.|->)\s*(?:template\s+)?(load|store|exchange|fetch_\w+|test_and_set|compare_exchange_(?:weak|strong))\s*\("
)
FENCE = re.compile(r"\batomic_thread_fence\b")
RELEASE_SIDE = {"release", "acq_rel", "seq_cst"}
ACQUIRE_SIDE = {"acquire", "acq_rel", "seq_cst"}

ORDER_DIRECTORIES = ("src", "include")
OPERATION_DIRECTORIES = ("src/ring/", "src/flow/", "src/queue/", "src/os/", "include/rondo/")


def call_arguments(code, opening):
    """The text between the parenthesis at `opening` and the one that closes it."""
    depth = 0
    for at in range(opening, len(code)):
        if code[at] == "(":
            depth += 1
        elif code[at] == ")":
            depth -= 1
            if depth == 0:
                return code[opening + 1 : at]
    return code[opening + 1 :]


def tags_for(line, comments, code_lines):
    """The tags that speak for a line (counted from 0): those of the nearest comment block that has any."""
    on_line = TAG.findall(comments[line])
    if on_line:
        return on_line
    for above in range(line - 1, max(-1, line - 1 - TAG_LINES_ABOVE), -1):
        tags = TAG.findall(comments[above])
        if not tags:
            continue
        if not code_lines[above].strip():
            block = above - 1
            while block >= 0 and comments[block].strip() and not code_lines[block].strip():
                tags += TAG.findall(comments[block])
                block -= 1
        return tags
    return []


def check(root):
    root = pathlib.Path(root)
    findings = []
    sides = collections.defaultdict(set)
    sites = {}
    for path in cpp_files(root, *ORDER_DIRECTORIES):
        text = (root / path).read_text()
        code = code_only(text)
        code_lines = code.split("\n")
        comments = comments_only(text).split("\n")

        for number, line in enumerate(code_lines):
            if FENCE.search(line):
                findings.append(f"{path}:{number + 1}: bare fence; put the order on the atomic operation")
            if not ORDER.search(line):
                continue
            tags = tags_for(number, comments, code_lines)
            if not tags:
                findings.append(f"{path}:{number + 1}: memory order without a tag ORD(name) within four lines above")
            orders = {match.group(1) for match in ORDER.finditer(line)} - {None}
            for tag in tags:
                if not TAG_NAME.match(tag):
                    findings.append(f"{path}:{number + 1}: ORD({tag}) is not a name like slot.publish")
                    continue
                sites.setdefault(tag, f"{path}:{number + 1}")
                sides[tag] |= orders

        if path.as_posix().startswith(OPERATION_DIRECTORIES):
            for match in OPERATION.finditer(code):
                wanted = 2 if match.group(1).startswith("compare_exchange") else 1
                given = ORDER_ARGUMENT.findall(call_arguments(code, match.end() - 1))
                if len(given) < wanted:
                    number = code.count("\n", 0, match.start(1)) + 1
                    findings.append(f"{path}:{number}: {match.group(1)}() leaves {'an order' if wanted == 1 else 'orders'} out")

    for tag, orders in sorted(sides.items()):
        if tag == "none":
            continue
        for side, wanted in (("release", RELEASE_SIDE), ("acquire", ACQUIRE_SIDE)):
            if not orders & wanted:
                findings.append(f"{sites[tag]}: ORD({tag}) has no site with the {side} side")
    return findings


def self_test():
    pair = (
        "// ORD(slot.publish): release; pairs with acquire in take().\n"
        "word.store(1, std::memory_order_release);\n"
        "auto v = word.load(std::memory_order_acquire);  // ORD(slot.publish): acquire.\n"
    )
    good = [
        pair,
        "// ORD(none): relaxed; only this thread writes it.\n// It goes on\n// and on\n//\nx.load(std::memory_order_relaxed);\n",
        pair + "// ORD(slot.publish): acq_rel.\n// ORD(none) CAS failure: relaxed.\n"
        "x.compare_exchange_weak(a, b,\n    std::memory_order_acq_rel,\n    std::memory_order_relaxed);\n",
        "// x.load() and atomic_thread_fence are only spoken of, memory_order_relaxed too\n",
        'const char* text = "x.load() memory_order_relaxed";\n',
        "std::exchange(a, b); file.reload(); table.load_tail();\n",
        "// ORD(none): passes the order on.\nT load(std::memory_order order) { return inner.load(order); }\n",
        "// ORD(wake.word): seq_cst.\nx.fetch_add(1, std::memory_order::seq_cst);\n",
        "// ORD(none): the compiler only.\nstd::atomic_signal_fence(std::memory_order_seq_cst);\n",
        "const int n = 1'000'000;\n" + pair,
    ]
    bad = [
        ("x.load(std::memory_order_relaxed);\n", "without a tag"),
        ("// ORD(none): far.\n\n\n\n\nx.load(std::memory_order_relaxed);\n", "without a tag"),
        ('const char* t = "ORD(none)";\nx.load(std::memory_order_relaxed);\n', "without a tag"),
        ("// ORD(a.b): release.\nx.store(1, std::memory_order_release);\n", "no site with the acquire side"),
        ("// ORD(a.b): acquire.\nx.load(std::memory_order_acquire);\n", "no site with the release side"),
        ("// ORD(Slot Publish): x\nx.load(std::memory_order_relaxed);\n", "not a name"),
        ("auto v = x.load();\n", "load() leaves an order out"),
        ("x->store(1);\n", "store() leaves an order out"),
        ("x.store(f(1, 2),\n        g());\n", "store() leaves an order out"),
        ("x.fetch_add(1);\n", "fetch_add() leaves an order out"),
        ("x.exchange(1);\n", "exchange() leaves an order out"),
        ("flag.test_and_set();\n", "test_and_set() leaves an order out"),
        ("x.compare_exchange_strong(a, b);\n", "leaves orders out"),
        (pair + "// ORD(slot.publish): one.\nx.compare_exchange_weak(a, b, std::memory_order_acq_rel);\n", "leaves orders out"),
        ("std::atomic_thread_fence(order);\n", "bare fence"),
    ]
    failures = 0

    def run(text, name="src/ring/case.hpp"):
        with tempfile.TemporaryDirectory() as directory:
            path = pathlib.Path(directory, name)
            path.parent.mkdir(parents=True)
            path.write_text(text)
            return check(directory)

    for text in good:
        findings = run(text)
        if findings:
            failures += 1
            print(f"self-test: findings in good text {text!r}: {findings}")
    for text, expected in bad:
        findings = run(text)
        if len(findings) != 1 or expected not in findings[0]:
            failures += 1
            print(f"self-test: {text!r}: expected one finding with {expected!r}, got {findings}")
    if run("auto v = x.load();\n", "src/format/case.hpp"):
        failures += 1
        print("self-test: an operation outside the checked directories was reported")
    print(f"self-test: {len(good) + len(bad) + 1} cases, {failures} failed")
    return failures


def main(arguments):
    if len(arguments) != 1:
        print(__doc__)
        return 2
    if arguments[0] == "--self-test":
        return 1 if self_test() else 0
    findings = check(arguments[0])
    print(*findings, sep="\n", end="\n" if findings else "")
    print(f"orders: {len(findings)} findings")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
