// What suits one kind of host and another does not: found by a measurement (collectives/tuner.h).
#ifndef ADASUM_CORE_TUNING_H_
#define ADASUM_CORE_TUNING_H_

#include <cstdint>
#include <string>

namespace adasum {

// Results of so many bytes have left the caches before their user reads them.
constexpr int64_t kMoreThanCached = int64_t{8} << 20;

// Where ranks read each other's memory. No bit of a result depends on any of it; what bits depend
// on (the algorithm, how a list is cut in blocks) is not for a clock to choose.
struct Tuning {
  // Chunks are multiples of it: all sums are made in tiles that divide it.
  static constexpr int64_t kChunkUnit = int64_t{64} << 10;

  // What a core's cache holds of each of the things that are read and written in one chunk.
  int64_t chunk_bytes = int64_t{256} << 10;
  // So many chunks stay packed from the moments to the combination: a peer may still have them in
  // its cache. With more of them long vectors leave the caches; with fewer a peer that shares no
  // cache fetches twice what it could have kept.
  int64_t packed_chunks = 8;
};

inline bool operator==(const Tuning& a, const Tuning& b) {
  return a.chunk_bytes == b.chunk_bytes && a.packed_chunks == b.packed_chunks;
}

// Whether ranks of a host measure what suits it (collectives/tuner.h), as the
// environment sets it.
struct TuningSettings {
  bool is_on = false;
  std::string path;         // of the file that keeps what was measured; empty for none
  bool is_verbose = false;  // rank 0 tells the user what was chosen
};

}  // namespace adasum

#endif  // ADASUM_CORE_TUNING_H_
