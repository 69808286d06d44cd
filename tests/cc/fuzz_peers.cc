// The target of libFuzzer: make fuzz.
#include "tests/cc/hostile_peers.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t num_bytes) {
  adasum::test::MeetHostilePeers(bytes, num_bytes);
  return 0;
}
