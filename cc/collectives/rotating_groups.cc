#include "cc/collectives/rotating_groups.h"

#include <algorithm>

namespace adasum {
namespace {

int LogOf(int power) {
  int log = 0;
  while ((1 << (log + 1)) <= power) ++log;
  return log;
}

// The bits in which members of a group differ, in a block of 2^num_bits.
int BitsOfRound(int num_bits, int group_size, int64_t round) {
  const int num_chosen = std::min(LogOf(group_size), num_bits);
  int bits = 0;
  for (int i = 0; i < num_chosen; ++i) {
    bits |= 1 << ((round % num_bits * num_chosen + i) % num_bits);
  }
  return bits;
}

}  // namespace

std::vector<int> RotatingGroup(int rank, int size, int group_size, int64_t round) {
  const bool has_one_block = (size & (size - 1)) == 0;
  const int moved = has_one_block ? 0 : static_cast<int>(round % size);
  int place = (rank + moved) % size;
  int begin = 0;
  int block = 1 << LogOf(size);
  while (place >= begin + block) {
    begin += block;
    block = 1 << LogOf(size - begin);
  }
  const int bits = block == 1 ? 0 : BitsOfRound(LogOf(block), group_size, round);
  place -= begin;
  std::vector<int> members;
  for (int other = 0; other < block; ++other) {
    if ((other & ~bits) != (place & ~bits)) continue;
    members.push_back((begin + other - moved + size) % size);
  }
  std::sort(members.begin(), members.end());
  return members;
}

}  // namespace adasum
