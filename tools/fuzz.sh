#!/bin/sh
# Lets libFuzzer look for bytes of peers that do harm, and adds what it learns to tests/cc/corpus.
# Usage: fuzz.sh BAZEL SECONDS
set -eu
bazel="$1"
seconds="$2"
corpus=tests/cc/corpus

if ! command -v clang++-14 >/dev/null; then
  if ! command -v apt-get >/dev/null || [ "$(id -u)" != 0 ]; then
    echo "make fuzz: expected clang++-14 on PATH, or root and apt-get to install it. Received: neither." >&2
    exit 1
  fi
  echo "make fuzz: installing clang-14"
  export DEBIAN_FRONTEND=noninteractive
  apt-get update -q && apt-get install -q -y --no-install-recommends clang-14 libclang-rt-14-dev
fi

# Another compiler is another repository: the ordinary build keeps its own.
base="${XDG_CACHE_HOME:-$HOME/.cache}/tf_adasum/fuzz"
mkdir -p "$base" "$corpus"
"$bazel" --output_base="$base" build --config=fuzz //tests/cc:fuzz_peers
fuzzer=$("$bazel" --output_base="$base" info --config=fuzz bazel-bin 2>/dev/null)/tests/cc/fuzz_peers
"$bazel" --output_base="$base" shutdown

found=$(mktemp -d)
trap 'rm -rf "$found"' EXIT
# No leak checks: MPI keeps what it has. Two GiB and ten seconds are more than any input may take.
export ASAN_OPTIONS=detect_leaks=0
code=0
"$fuzzer" -max_total_time="$seconds" -max_len=4096 -rss_limit_mb=2048 -timeout=10 -print_final_stats=1 \
  -artifact_prefix="$found/" "$found" "$corpus" || code=$?
if [ "$code" != 0 ]; then
  mkdir -p fuzz-findings && cp "$found"/crash-* "$found"/oom-* "$found"/timeout-* fuzz-findings/ 2>/dev/null || true
  echo "make fuzz: found bytes that do harm; they are in fuzz-findings" >&2
  exit "$code"
fi
# Only what reaches code that nothing else in the corpus reaches.
smallest=$(mktemp -d)
"$fuzzer" -merge=1 "$smallest" "$corpus" "$found" 2>/dev/null
rm -f "$corpus"/*
cp "$smallest"/* "$corpus"/
rm -rf "$smallest"
echo "make fuzz: $seconds s, nothing found; $(ls "$corpus" | wc -l) inputs in $corpus"
