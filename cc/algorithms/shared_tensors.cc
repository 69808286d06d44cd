#include "cc/algorithms/shared_tensors.h"

#include <cstring>

#include "cc/algorithms/for_each_peer.h"
#include "cc/core/bytes.h"

namespace adasum {
namespace {

struct Location {
  int64_t input;
  int64_t output;
};

constexpr int64_t kLine = 64;

int64_t InLines(int64_t num_bytes) { return (num_bytes + kLine - 1) / kLine * kLine; }

}  // namespace

SharedTensors::SharedTensors(const LeafTensors& tensors, const CollectiveContext& context)
    : tensors_(tensors), context_(context), element_bytes_(ElementBytes(tensors.dtype)) {
  for (int64_t i = 0; i < size(); ++i) {
    if (IsCopied(i)) copied_bytes_ += InLines(Bytes(i));
  }
}

int64_t SharedTensors::Bytes(int64_t segment) const {
  return (tensors_.segments.offset(segment + 1) - tensors_.segments.offset(segment)) *
         element_bytes_;
}

bool SharedTensors::IsWorthIt() const {
  return context_.transport.SharesTensors() && !tensors_.outputs.empty() &&
         4 * copied_bytes_ <= tensors_.segments.num_elements() * element_bytes_;
}

bool SharedTensors::Find() {
  if (!IsWorthIt()) return false;
  Transport& transport = context_.transport;
  const int64_t shown_bytes = InLines(size() * sizeof(Location)) + 2 * copied_bytes_;
  char* const mine = static_cast<char*>(transport.Workspace(shown_bytes));
  inputs_.resize(transport.size() * size());
  outputs_.resize(transport.size() * size());
  Fill(mine);
  // From here on until Finish: a peer that all others wait for in vain may still come and write.
  transport.LendTensors(true);
  bool can_reach = Note(transport.rank(), mine);
  ForEachPeer(transport,
              [&](int peer) { transport.Exchange({peer, mine, shown_bytes}, {peer, nullptr, 0}); });
  ForEachPeer(transport, [&](int peer) {
    const void* shown = transport.Exchange({peer, nullptr, 0}, {peer, nullptr, shown_bytes});
    // Peers' workspaces are mapped for writing.
    if (!Note(peer, static_cast<char*>(const_cast<void*>(shown)))) can_reach = false;
  });
  if (!can_reach) GiveUp();
  return can_reach;
}

void SharedTensors::Fill(char* shown) {
  char* copy = shown + InLines(size() * sizeof(Location));
  for (int64_t i = 0; i < size(); ++i) {
    const int64_t num_bytes = Bytes(i);
    Location location{0, 0};
    if (IsCopied(i)) {
      if (num_bytes > 0) std::memcpy(copy, tensors_.inputs[i], num_bytes);
      copy += InLines(num_bytes);
    } else {
      location.input = context_.transport.Locate(tensors_.inputs[i], num_bytes);
      location.output = context_.transport.Locate(tensors_.outputs[i], num_bytes);
    }
    std::memcpy(shown + i * sizeof(Location), &location, sizeof(location));
  }
}

bool SharedTensors::Note(int leaf, char* shown) {
  Transport& transport = context_.transport;
  const bool is_own = leaf == transport.rank();
  char* copy = shown + InLines(size() * sizeof(Location));
  for (int64_t i = 0; i < size(); ++i) {
    const void*& input = inputs_[leaf * size() + i];
    void*& output = outputs_[leaf * size() + i];
    if (IsCopied(i)) {
      input = copy;
      output = copy + copied_bytes_;
      copy += InLines(Bytes(i));
      continue;
    }
    Location location;  // read once: it lies in the peer's memory
    std::memcpy(&location, shown + i * sizeof(Location), sizeof(location));
    if (location.input < 0 || location.output < 0) return false;
    input = is_own ? tensors_.inputs[i] : transport.Located(leaf, location.input, Bytes(i));
    output = is_own ? tensors_.outputs[i] : transport.Located(leaf, location.output, Bytes(i));
  }
  return true;
}

void SharedTensors::Finish() {
  Transport& transport = context_.transport;
  context_.arithmetic.Finish();
  char mine = 0, theirs = 0;
  ForEachPeer(transport,
              [&](int peer) { transport.SendRecv({peer, &mine, 1}, {peer, nullptr, 0}); });
  ForEachPeer(transport,
              [&](int peer) { transport.SendRecv({peer, nullptr, 0}, {peer, &theirs, 1}); });
  transport.LendTensors(false);
  for (int64_t i = 0; i < size(); ++i) {
    if (!IsCopied(i) || Bytes(i) == 0) continue;
    std::memcpy(tensors_.outputs[i], Output(transport.rank(), i), Bytes(i));
  }
}

}  // namespace adasum
