#include "cc/collectives/run_tables.h"

#include <cstring>

#include "cc/algorithms/shared_tensors.h"
#include "cc/core/bytes.h"
#include "cc/core/copy_bytes.h"

namespace adasum {
namespace {

// Shorter tensors never lie in an arena.
constexpr int64_t kLeastBytes = SharedTensors::kLeastBytes;

// A table is this in a line of its own, the norms, the places, the copies.
struct Header {
  bool is_in_reach;
};

struct Place {
  int64_t location;  // Transport::Locate
  int64_t address;   // in the rank's process
};

// It lies in a peer's memory.
Place PlaceAt(const char* places, int64_t index) {
  Place place;
  std::memcpy(&place, places + index * sizeof(Place), sizeof(place));
  return place;
}

}  // namespace

RunTables::RunTables(Transport& host, const std::vector<Range>& runs, const StageTensors& tensors)
    : host_(host),
      runs_(runs),
      tensors_(tensors),
      copy_offsets_(tensors.segments.size(), kElsewhere),
      copies_bytes_(runs.size(), 0),
      tables_(runs.size(), nullptr),
      is_in_reach_(runs.size(), false) {
  // A message of less is soon packed.
  if (tensors.Bytes(tensors.segments.all()) < kLeastBytes) return;
  may_map_ = AllShareTensors(host);
  may_copy_ = AllCopyTensors(host);
  for (int rank = 0; HasPlaces() && rank < host.size(); ++rank) PlaceCopies(rank);
}

void RunTables::PlaceCopies(int rank) {
  const Range run = runs_[rank];
  int64_t total = 0;
  for (int64_t i = run.begin; i < run.end; ++i) {
    if (Bytes(i) < kLeastBytes) total += InLines(Bytes(i));
  }
  if (total > kLeastBytes && 4 * total > tensors_.Bytes(tensors_.segments.Elements(run))) return;
  for (int64_t i = run.begin; i < run.end; ++i) {
    if (Bytes(i) >= kLeastBytes) continue;
    copy_offsets_[i] = copies_bytes_[rank];
    copies_bytes_[rank] += InLines(Bytes(i));
  }
}

int64_t RunTables::PlacesBegin(int rank) const {
  const int64_t num_norms = tensors_.norms == nullptr ? 0 : runs_[rank].size();
  return kLineBytes + InLines(num_norms * sizeof(SquaredNorms));
}

int64_t RunTables::CopiesBegin(int rank) const {
  const int64_t num_places = HasPlaces() ? runs_[rank].size() : 0;
  return PlacesBegin(rank) + InLines(num_places * sizeof(Place));
}

int64_t RunTables::TableBytes(int rank) const {
  const bool has_table = HasPlaces() || tensors_.norms != nullptr;
  return has_table && runs_[rank].size() > 0 ? CopiesBegin(rank) + copies_bytes_[rank] : 0;
}

void RunTables::Fill(char* table) {
  const int rank = host_.rank();
  const Range run = runs_[rank];
  if (tensors_.norms != nullptr) {
    std::memcpy(table + kLineBytes, tensors_.norms + run.begin, run.size() * sizeof(SquaredNorms));
  }
  for (int64_t i = run.begin; HasPlaces() && i < run.end; ++i) {
    const void* const tensor = tensors_.addresses[i];
    const bool is_copy = copy_offsets_[i] != kElsewhere;
    const Place place{is_copy || !may_map_ ? -1 : host_.Locate(tensor, Bytes(i)),
                      reinterpret_cast<intptr_t>(tensor)};
    std::memcpy(table + PlacesBegin(rank) + (i - run.begin) * sizeof(Place), &place, sizeof(place));
    if (is_copy && Bytes(i) > 0) {
      CopyBytes(table + CopiesBegin(rank) + copy_offsets_[i], tensor, Bytes(i));
    }
  }
  is_in_reach_[rank] = HasPlaces() && IsOwnInReach(table);
  const Header header{is_in_reach_[rank]};
  std::memcpy(table, &header, sizeof(header));
}

bool RunTables::IsOwnInReach(const char* table) const {
  const Range run = runs_[host_.rank()];
  std::vector<const void*> fetched;
  for (int64_t i = run.begin; i < run.end; ++i) {
    if (Bytes(i) == 0 || copy_offsets_[i] != kElsewhere) continue;
    const Place place = PlaceAt(table + PlacesBegin(host_.rank()), i - run.begin);
    if (place.location < 0) fetched.push_back(tensors_.addresses[i]);
  }
  return fetched.empty() || (may_copy_ && host_.LetsCopy(fetched));
}

void RunTables::Take(int peer, const char* table) {
  tables_[peer] = table;
  Header header;
  std::memcpy(&header, table, sizeof(header));
  is_in_reach_[peer] = header.is_in_reach;
  if (tensors_.norms == nullptr) return;
  std::memcpy(tensors_.norms + runs_[peer].begin, table + kLineBytes,
              runs_[peer].size() * sizeof(SquaredNorms));
}

void RunTables::Read(int peer, Range part, Arithmetic& arithmetic) const {
  const char* const table = tables_[peer];
  std::vector<RemoteBytes> fetched;
  tensors_.ForEachPiece(part, [&](int64_t segment, int64_t skip, int64_t, int64_t num_bytes) {
    char* const to = At(tensors_.addresses[segment], skip);
    if (copy_offsets_[segment] != kElsewhere) {
      const char* const copy = table + CopiesBegin(peer) + copy_offsets_[segment];
      return arithmetic.Deliver(to, copy + skip, num_bytes);
    }
    const Place place = PlaceAt(table + PlacesBegin(peer), segment - runs_[peer].begin);
    if (place.location < 0) return fetched.push_back({to, place.address + skip, num_bytes});
    const void* const tensor = host_.Located(peer, place.location, Bytes(segment));
    arithmetic.Deliver(to, At(tensor, skip), num_bytes);
  });
  if (!fetched.empty()) host_.Fetch(peer, fetched);
}

}  // namespace adasum
