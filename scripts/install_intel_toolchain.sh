#!/bin/sh
# Install Intel's compiler (ocloc, IGC) and Level Zero driver in a Debian root of their own.
#
#   scripts/install_intel_toolchain.sh [DIR]
#
# DIR defaults to $TRITON_XE_TOOLCHAIN, else toolchain/ in the triton-xe cache folder.  Nothing
# outside DIR is touched, and the programs run there without chroot (triton_xe/tools/intel.py).
# Does nothing when the system has Intel's tools, or when DIR is already complete.
# Needs root and debootstrap; takes about a minute.
set -eu

default="${TRITON_XE_TOOLCHAIN:-${TRITON_XE_CACHE:-${HOME:-/root}/.cache/triton-xe}/toolchain}"
root="${1:-$default}"
lib=usr/lib/x86_64-linux-gnu

say() { printf 'install_intel_toolchain: %s\n' "$*"; }
fail() { say "$*" >&2; exit 1; }

complete() {  # the root in $1 holds every tool
    for pattern in "usr/bin/ocloc-*" "$lib/libigc.so.2" "$lib/libze_intel_gpu.so.1" \
        "$lib/libze_loader.so.1" usr/bin/spirv-val "usr/bin/llvm-spirv-*"; do
        # shellcheck disable=SC2086  # the pattern must expand
        set -- "$1" $(ls -d "$1"/$pattern 2>/dev/null || true)
        [ $# -ge 2 ] || return 1
        set -- "$1"
    done
}

system_has_tools() {
    command -v ocloc >/dev/null 2>&1 || return 1
    PATH="$PATH:/sbin:/usr/sbin" ldconfig -p 2>/dev/null | grep -q 'libze_loader\.so\.1'
}

if [ $# -eq 0 ] && system_has_tools; then
    say "this system has ocloc ($(command -v ocloc)) and the Level Zero loader; nothing to do"
    exit 0
fi
if complete "$root"; then
    say "already complete: $root"
    exit 0
fi

marker=.triton-xe-toolchain
if [ -n "$(ls -A "$root" 2>/dev/null)" ] && [ ! -e "$root/$marker" ]; then
    fail "$root holds something else; remove it or name another folder"
fi
[ "$(uname -m)" = x86_64 ] || fail "Intel's tools exist for x86_64 only; this is $(uname -m)"
PATH="$PATH:/usr/sbin:/sbin"
command -v debootstrap >/dev/null 2>&1 ||
    fail "debootstrap is missing; install it (apt-get install debootstrap), or install Intel's \
packages intel-ocloc, libze-intel-gpu1 and libze1 on the system"
[ "$(id -u)" -eq 0 ] ||
    fail "debootstrap needs root; run: sudo $0 $root"

mkdir -p "$(dirname "$root")"
partial="$root.partial.$$"
trap 'rm -rf "$partial"' EXIT
trap 'exit 1' INT TERM HUP

inside() { chroot "$partial" env DEBIAN_FRONTEND=noninteractive LC_ALL=C "$@"; }

say "making a Debian sid root in $root"
debootstrap --variant=minbase sid "$partial" >"$root.log" 2>&1 ||
    fail "debootstrap failed; see $root.log"
inside apt-get -o Acquire::Check-Valid-Until=false update >>"$root.log" 2>&1 ||
    fail "apt-get update failed; see $root.log"
translator=$(inside apt-cache search --names-only '^llvm-spirv-[0-9]+$' |
    cut -d' ' -f1 | sort -V | tail -n 1)
[ -n "$translator" ] || fail "no llvm-spirv package in Debian sid; see $root.log"
say "installing intel-ocloc, libigc2, libze-intel-gpu1, libze1, spirv-tools, $translator"
inside apt-get install -y --no-install-recommends intel-ocloc libigc2 libze-intel-gpu1 libze1 \
    spirv-tools "$translator" >>"$root.log" 2>&1 ||
    fail "apt-get install failed; see $root.log"
inside apt-get clean
complete "$partial" || fail "the packages are installed, but a tool is missing; see $root.log"

date -u >"$partial/$marker"

rm -rf "$root"
mv "$partial" "$root"
say "done: $root"
