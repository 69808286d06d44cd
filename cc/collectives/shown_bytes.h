// Bytes of one rank that others of its host read: where they lie, if they are mapped or ranks may
// copy across, else piece by piece in a few slots of its workspace.
#ifndef ADASUM_COLLECTIVES_SHOWN_BYTES_H_
#define ADASUM_COLLECTIVES_SHOWN_BYTES_H_

#include <cstdint>
#include <vector>

#include "cc/core/transport.h"

namespace adasum {

// Bytes that each of `readers` reads.
struct Shown {
  std::vector<int> readers;
  const void* bytes;
  int64_t num_bytes;
};
// Bytes that another rank shows, and where they are to be.
struct Read {
  int owner;
  void* bytes;
  int64_t num_bytes;
};

// For any number of exchanges of one collective, which use the same slots.
class ShownBytes {
 public:
  // `transport` must outlive this.
  explicit ShownBytes(Transport* transport) : transport_(*transport) {}

  // Shows bytes and reads another rank's at the same time; 0 bytes are left out, also on the other
  // side. Both sides know the lengths, and share memory. Returns when this rank has read all, and
  // all of its readers have. What is shown belongs to the request's tensors, or to the group.
  void Exchange(const Shown& shown, const Read& read);

 private:
  // How readers come to bytes.
  enum class Way : int64_t { kSlots, kMapped, kAddress };
  struct Place {
    Way way = Way::kSlots;
    int64_t address = 0;  // kAddress
  };

  Place PlaceOf(const Shown& shown) const;
  // Tells all readers where to find what is shown, and returns what the owner tells.
  Place SwapPlaces(const Shown& shown, const Read& read, const Place& mine);
  void ExchangePieces(const Shown& shown, const Read& read, Way of_shown, Way of_read);
  void Show(const Shown& shown, int64_t begin, int64_t num_bytes, Way way);
  void Take(const Read& read, int64_t begin, int64_t num_bytes);
  // Says so to the owner, and hears from all readers.
  void HaveRead(const Shown& shown, const Read& read);
  void* NextSlot(int64_t piece_bytes);

  Transport& transport_;
  void* slots_ = nullptr;  // a ring of them in the workspace, once one is needed
  int64_t num_put_ = 0;
};

}  // namespace adasum

#endif  // ADASUM_COLLECTIVES_SHOWN_BYTES_H_
