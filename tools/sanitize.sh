#!/bin/sh
# Runs the C++ tests under the sanitizers, and says in a line each what they found.
# Usage: sanitize.sh BAZEL [further flags of bazel test]
set -u
bazel="$1"
shift
log=$(mktemp)
trap 'rm -f "$log"' EXIT
code=0
for config in asan tsan; do
  case "$config" in
  asan) name="AddressSanitizer and UndefinedBehaviorSanitizer" skipped=no-test-has-this-tag ;;
  tsan) name="ThreadSanitizer" skipped=notsan ;;
  esac
  # The same C++ tests as `make test` runs.
  "$bazel" test --config="$config" --test_summary=short "$@" //tests/cc/... 2>&1 | tee "$log"
  passed=$(grep -c -E '^//.* PASSED in ' "$log")
  failed=$(grep -c -E '^//.* (FAILED|TIMEOUT|NO STATUS|FAILED TO BUILD)' "$log")
  without=$("$bazel" query --noshow_progress "attr(tags, '\\b$skipped\\b', tests(//tests/cc/...))" 2>/dev/null | tr '\n' ' ')
  echo "make sanitize: $name: $passed targets passed, $failed failed. Left out: ${without:-none}"
  [ "$failed" = 0 ] && [ "$passed" -gt 0 ] || code=1
done
exit $code
