// Groups of ranks that change from round to round, so that what one rank knows reaches all.
#ifndef ADASUM_COLLECTIVES_ROTATING_GROUPS_H_
#define ADASUM_COLLECTIVES_ROTATING_GROUPS_H_

#include <cstdint>
#include <vector>

namespace adasum {

// The ranks, ascending, that rank `rank` of `size` meets in round number `round`, itself included.
// `group_size` is a power of two.
//
// A power of two of ranks, 2^n, is grouped by the butterfly: with s = log2(group_size), the members
// of a group differ in bits (round * s + i) mod n, i < s, alone. Other numbers of ranks are cut
// into blocks of powers of two, the largest first, and each block goes by a butterfly of its own;
// where the cuts lie moves on by a rank each round, so that no rank is alone for long.
//
// Source: Li et al., "Breaking (Global) Barriers in Parallel Stochastic Optimization with
// Wait-Avoiding Group Averaging", IEEE TPDS 2021 (arXiv:2005.00124), section 3; the blocks are
// ours.
std::vector<int> RotatingGroup(int rank, int size, int group_size, int64_t round);

}  // namespace adasum

#endif  // ADASUM_COLLECTIVES_ROTATING_GROUPS_H_
