#include "cc/collectives/shown_bytes.h"

#include <algorithm>

#include "cc/core/bytes.h"
#include "cc/core/copy_bytes.h"

namespace adasum {
namespace {

// Showing piece i waits until the readers have taken the address of piece i - 1, for which they
// finished piece i - 2: when piece i is written, piece i - 3 has been read.
constexpr int64_t kSlots = 3;

}  // namespace

void ShownBytes::Exchange(const Shown& shown, const Read& read) {
  if (shown.num_bytes == 0 && read.num_bytes == 0) return;
  const Place mine = PlaceOf(shown);
  const Place theirs = SwapPlaces(shown, read, mine);
  // A reader that was stopped may go on with what lies there (Transport::HasAbandoned).
  const bool is_lent = mine.way != Way::kSlots;
  if (is_lent) transport_.LendTensors(true);
  if (theirs.way == Way::kAddress) {
    transport_.Fetch(read.owner, {{read.bytes, theirs.address, read.num_bytes}});
  }
  // Of what is fetched there are none.
  ExchangePieces(mine.way == Way::kAddress ? Shown{{}, nullptr, 0} : shown,
                 theirs.way == Way::kAddress ? Read{0, nullptr, 0} : read, mine.way, theirs.way);
  HaveRead(shown, read);
  if (is_lent) transport_.LendTensors(false);
}

ShownBytes::Place ShownBytes::PlaceOf(const Shown& shown) const {
  if (shown.num_bytes == 0) return {};
  const int reader = shown.readers[0];  // all are of this host
  if (transport_.SharesTensors(reader) && transport_.Locate(shown.bytes, shown.num_bytes) >= 0) {
    return {Way::kMapped, 0};
  }
  if (!transport_.CopiesTensors(reader) || !transport_.LetsCopy({shown.bytes})) return {};
  return {Way::kAddress, reinterpret_cast<intptr_t>(shown.bytes)};
}

ShownBytes::Place ShownBytes::SwapPlaces(const Shown& shown, const Read& read, const Place& mine) {
  Place theirs;
  const auto has_choice = [this](int peer) {
    return transport_.SharesTensors(peer) || transport_.CopiesTensors(peer);
  };
  if (shown.num_bytes > 0 && has_choice(shown.readers[0])) {
    for (int reader : shown.readers) {
      transport_.SendRecv({reader, &mine, sizeof(mine)}, {0, nullptr, 0});
    }
  }
  if (read.num_bytes > 0 && has_choice(read.owner)) {
    transport_.SendRecv({0, nullptr, 0}, {read.owner, &theirs, sizeof(theirs)});
  }
  return theirs;
}

void ShownBytes::ExchangePieces(const Shown& shown, const Read& read, Way of_shown, Way of_read) {
  if (shown.num_bytes == 0 && read.num_bytes == 0) return;
  const int64_t chunk_bytes =
      transport_.ChunkBytes(read.num_bytes > 0 ? read.owner : shown.readers[0]);
  const int64_t shown_piece = of_shown == Way::kMapped ? shown.num_bytes : chunk_bytes;
  const int64_t read_piece = of_read == Way::kMapped ? read.num_bytes : chunk_bytes;
  for (int64_t i = 0; i * shown_piece < shown.num_bytes || i * read_piece < read.num_bytes; ++i) {
    const int64_t begin = i * shown_piece, read_begin = i * read_piece;
    if (begin < shown.num_bytes) {
      Show(shown, begin, std::min(shown_piece, shown.num_bytes - begin), of_shown);
    }
    if (read_begin < read.num_bytes) {
      Take(read, read_begin, std::min(read_piece, read.num_bytes - read_begin));
    }
  }
}

void ShownBytes::Show(const Shown& shown, int64_t begin, int64_t num_bytes, Way way) {
  const void* bytes = At(shown.bytes, begin);
  if (way == Way::kSlots) {
    void* const slot = NextSlot(transport_.ChunkBytes(shown.readers[0]));
    CopyBytes(slot, bytes, num_bytes);
    bytes = slot;
  }
  for (int reader : shown.readers) {
    transport_.Exchange({reader, bytes, num_bytes}, {reader, nullptr, 0});
  }
}

void ShownBytes::Take(const Read& read, int64_t begin, int64_t num_bytes) {
  const void* theirs =
      transport_.Exchange({read.owner, nullptr, 0}, {read.owner, nullptr, num_bytes});
  CopyBytes(At(read.bytes, begin), theirs, num_bytes);
}

void ShownBytes::HaveRead(const Shown& shown, const Read& read) {
  const char mine = 0;
  char theirs = 0;
  if (read.num_bytes > 0) transport_.SendRecv({read.owner, &mine, 1}, {0, nullptr, 0});
  if (shown.num_bytes == 0) return;
  for (int reader : shown.readers) transport_.SendRecv({0, nullptr, 0}, {reader, &theirs, 1});
}

void* ShownBytes::NextSlot(int64_t piece_bytes) {
  if (slots_ == nullptr) slots_ = transport_.Workspace(kSlots * piece_bytes);
  return At(slots_, num_put_++ % kSlots * piece_bytes);
}

}  // namespace adasum
