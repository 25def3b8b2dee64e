#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Copyright the rondo authors
#
# Installs the build into a directory of its own, moves that (an installation must not depend on its place), and builds
# and runs the project beside this script against it: once through find_package, once through pkg-config.
#
# usage: run.sh SOURCE_DIR BUILD_DIR CXX
set -euo pipefail

source_dir=$1
build_dir=$2
cxx=$3

command -v pkg-config >/dev/null || {
    echo "skipped: no pkg-config here"
    exit 77
}

work=$(mktemp -d)
trap 'rm -rf -- "$work"' EXIT

cmake --install "$build_dir" --prefix "$work/staged" >"$work/install.log" || {
    cat "$work/install.log"
    exit 1
}
mv "$work/staged" "$work/prefix"
prefix=$work/prefix

# Everything of the public interface is there, nothing internal is.
diff <(cd "$source_dir/include" && find . -name '*.hpp' | sort) <(cd "$prefix/include" && find . -type f | sort)
if grep -rlF -e "$source_dir" -e "$build_dir" "$prefix/include" "$prefix"/lib*/pkgconfig "$prefix"/lib*/cmake \
    "$prefix"/lib/*/cmake "$prefix"/lib/*/pkgconfig 2>/dev/null; then
    echo "these installed files name the source or build tree"
    exit 1
fi

# Every header compiles alone, with the strictest warnings a user may have.
while IFS= read -r header; do
    printf '#include "%s"\n' "$header" |
        "$cxx" -std=c++20 -Wall -Wextra -Wpedantic -Wconversion -Wshadow -Werror -fsyntax-only -I"$prefix/include" -x c++ -
done < <(cd "$prefix/include" && find rondo -name '*.hpp' | sort)

echo "-- find_package"
generator=()
if command -v ninja >/dev/null; then generator=(-G Ninja); fi
cmake -S "$source_dir/tests/package" -B "$work/found" "${generator[@]}" -DCMAKE_PREFIX_PATH="$prefix" \
    -DCMAKE_CXX_COMPILER="$cxx"
cmake --build "$work/found"
"$work/found/package-test"

echo "-- pkg-config"
pc=$(find "$prefix" -name rondo.pc)
PKG_CONFIG_PATH=$(dirname "$pc")
export PKG_CONFIG_PATH
version=$(pkg-config --modversion rondo)
read -ra compile_flags <<<"$(pkg-config --cflags rondo)"
read -ra link_flags <<<"$(pkg-config --libs rondo)"
"$cxx" -std=c++20 "-DFOUND_VERSION=\"$version\"" "${compile_flags[@]}" "$source_dir/tests/package/main.cpp" \
    -o "$work/configured" "${link_flags[@]}"
"$work/configured"

echo "-- tools"
for tool in ring-dump ring-ctl; do
    if [[ -x $build_dir/bin/$tool ]]; then
        "$prefix/bin/$tool" --help >/dev/null
        echo "$tool --help: ok"
    fi
done
