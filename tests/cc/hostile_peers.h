// All that this rank reads of what peers send, met by any bytes.
#ifndef TESTS_CC_HOSTILE_PEERS_H_
#define TESTS_CC_HOSTILE_PEERS_H_

#include <cstddef>
#include <cstdint>

namespace adasum {
namespace test {

// Takes part in a collective step as rank 0 of 3, whose peers send these bytes. The first byte says
// which step. It has to end, by itself or with an adasum::Error; anything else is a defect.
void MeetHostilePeers(const uint8_t* bytes, size_t num_bytes);

}  // namespace test
}  // namespace adasum

#endif  // TESTS_CC_HOSTILE_PEERS_H_
