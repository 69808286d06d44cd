#include "cc/algorithms/shared_tensors.h"

#include <algorithm>
#include <cstring>

#include "cc/algorithms/for_each_peer.h"
#include "cc/algorithms/schedule.h"
#include "cc/core/bytes.h"
#include "cc/core/copy_bytes.h"
#include "cc/core/error.h"

namespace adasum {
namespace {

struct Place {
  int64_t input, output;                  // Transport::Locate
  int64_t input_address, output_address;  // in the leaf's process
};

constexpr int64_t kPlacesBegin = kLineBytes;  // behind what the leaf has seen of both ways
static_assert(sizeof(WaysSeen) <= kPlacesBegin);

// Each is read once: it lies in a peer's memory.
Place PlaceOf(const char* shown, int64_t segment) {
  Place place;
  std::memcpy(&place, shown + kPlacesBegin + segment * sizeof(Place), sizeof(place));
  return place;
}

}  // namespace

SharedTensors::SharedTensors(const LeafTensors& tensors, const CollectiveContext& context,
                             const std::vector<Range>* shares)
    : tensors_(tensors),
      context_(context),
      shares_(shares),
      element_bytes_(ElementBytes(tensors.dtype)) {
  for (int64_t i = 0; i < size(); ++i) {
    if (IsCopied(i)) copied_bytes_ += InLines(Bytes(i));
  }
  const int64_t num_bytes = tensors_.segments.num_elements() * element_bytes_;
  may_map_ = AllShareTensors(context_.transport) && 4 * copied_bytes_ <= num_bytes;
  may_copy_ = AllCopyTensors(context_.transport) && num_bytes >= kLeastBytes;
  // A leaf that stayed away by itself would leave the others waiting. Leaves without outputs are
  // threads of one process, which need neither way.
  if ((may_map_ || may_copy_) && tensors_.outputs.empty()) {
    throw Error(ErrorCode::kInternal, "Expected outputs where leaves reach each other's tensors");
  }
}

int64_t SharedTensors::Bytes(int64_t segment) const {
  return (tensors_.segments.offset(segment + 1) - tensors_.segments.offset(segment)) *
         element_bytes_;
}

CrossMemoryPolicy::Kind SharedTensors::Kind() const {
  return {context_.reduction.NeedsMoments(), tensors_.segments.num_elements() * element_bytes_};
}

int64_t SharedTensors::ShownBytes() const {
  return kPlacesBegin + InLines(size() * sizeof(Place)) + (may_map_ ? 2 * copied_bytes_ : 0);
}

Range SharedTensors::CombinedBy(int leaf) const {
  if (has_shares()) return (*shares_)[leaf];
  return PartOf(leaf, context_.transport.size(), tensors_.segments.num_elements());
}

bool SharedTensors::WantsResult(int leaf, int64_t segment) const {
  if (!has_shares()) return true;
  const Range share = (*shares_)[leaf],
              elements = tensors_.segments.Elements({segment, segment + 1});
  return share.begin <= elements.begin && elements.end <= share.end;
}

Reach SharedTensors::Find() {
  if (!may_map_ && !may_copy_) return Reach::kNone;
  Transport& transport = context_.transport;
  const int64_t shown_bytes = ShownBytes();
  char* const mine = static_cast<char*>(transport.Workspace(shown_bytes));
  Fill(mine);
  shown_.resize(transport.size());
  shown_[transport.rank()] = mine;
  // From here on until Finish: a peer that all others wait for in vain may still come and write.
  transport.LendTensors(true);
  ForEachPeer(transport,
              [&](int peer) { transport.Exchange({peer, mine, shown_bytes}, {peer, nullptr, 0}); });
  ForEachPeer(transport, [&](int peer) {
    const void* shown = transport.Exchange({peer, nullptr, 0}, {peer, nullptr, shown_bytes});
    // Peers' workspaces are mapped for writing.
    shown_[peer] = static_cast<char*>(const_cast<void*>(shown));
  });
  is_mapped_ = may_map_ && Map();
  if (is_mapped_) return Reach::kMapped;
  if (may_copy_ && ChooseToCopy()) return Reach::kAddresses;
  GiveUp();
  return Reach::kNone;
}

void SharedTensors::Fill(char* shown) {
  const WaysSeen seen = may_copy_ ? context_.scratch.cross_memory.Seen(Kind()) : WaysSeen();
  std::memcpy(shown, &seen, sizeof(seen));
  for (int64_t i = 0; i < size(); ++i) {
    Place place{0, 0, 0, 0};
    if (!IsCopied(i)) {
      place.input = context_.transport.Locate(tensors_.inputs[i], Bytes(i));
      place.output = context_.transport.Locate(tensors_.outputs[i], Bytes(i));
    }
    place.input_address = reinterpret_cast<intptr_t>(tensors_.inputs[i]);
    place.output_address = reinterpret_cast<intptr_t>(tensors_.outputs[i]);
    std::memcpy(shown + kPlacesBegin + i * sizeof(Place), &place, sizeof(place));
  }
  if (may_map_) FillCopies(shown + kPlacesBegin + InLines(size() * sizeof(Place)));
}

bool SharedTensors::LetsOthersCopy() const {
  std::vector<const void*> tensors;
  for (int64_t i = 0; i < size(); ++i) {
    if (Bytes(i) == 0) continue;
    tensors.push_back(tensors_.inputs[i]);
    if (tensors_.outputs[i] != tensors_.inputs[i]) tensors.push_back(tensors_.outputs[i]);
  }
  return context_.transport.LetsCopy(tensors);
}

void SharedTensors::FillCopies(char* copy) const {
  for (int64_t i = 0; i < size(); ++i) {
    if (!IsCopied(i) || Bytes(i) == 0) continue;
    CopyBytes(copy, tensors_.inputs[i], Bytes(i));
    copy += InLines(Bytes(i));
  }
}

bool SharedTensors::Map() {
  const int num_leaves = context_.transport.size();
  inputs_.resize(num_leaves * size());
  outputs_.resize(num_leaves * size());
  bool can_reach = true;
  for (int leaf = 0; leaf < num_leaves; ++leaf) can_reach = MapLeaf(leaf) && can_reach;
  return can_reach;
}

bool SharedTensors::MapLeaf(int leaf) {
  Transport& transport = context_.transport;
  const bool is_own = leaf == transport.rank();
  char* copy = shown_[leaf] + kPlacesBegin + InLines(size() * sizeof(Place));
  for (int64_t i = 0; i < size(); ++i) {
    const void*& input = inputs_[leaf * size() + i];
    void*& output = outputs_[leaf * size() + i];
    if (IsCopied(i)) {
      input = copy;
      output = copy + copied_bytes_;
      copy += InLines(Bytes(i));
      continue;
    }
    const Place place = PlaceOf(shown_[leaf], i);
    if (place.input < 0 || place.output < 0) return false;
    input = is_own ? tensors_.inputs[i] : transport.Located(leaf, place.input, Bytes(i));
    output = is_own ? tensors_.outputs[i] : transport.Located(leaf, place.output, Bytes(i));
  }
  return true;
}

bool SharedTensors::ChooseToCopy() {
  std::vector<WaysSeen> told;
  for (const char* shown : shown_) {
    told.emplace_back();
    std::memcpy(&told.back(), shown, sizeof(WaysSeen));
  }
  const bool copies = context_.scratch.cross_memory.Copies(Kind(), told);
  // Only now, since the system takes 3 to 6 us to answer: a fifth of what 64 KiB take to pack.
  had_choice_ = !copies || AllSay(LetsOthersCopy());
  return copies && had_choice_;
}

bool SharedTensors::AllSay(bool mine) {
  Transport& transport = context_.transport;
  const char own = mine;
  ForEachPeer(transport,
              [&](int peer) { transport.SendRecv({peer, &own, 1}, {peer, nullptr, 0}); });
  bool all = mine;
  ForEachPeer(transport, [&](int peer) {
    char theirs = 0;
    transport.SendRecv({peer, nullptr, 0}, {peer, &theirs, 1});
    all = all && theirs;
  });
  return all;
}

int64_t SharedTensors::InputAddress(int leaf, int64_t segment) const {
  return PlaceOf(shown_[leaf], segment).input_address;
}

int64_t SharedTensors::OutputAddress(int leaf, int64_t segment) const {
  return PlaceOf(shown_[leaf], segment).output_address;
}

void SharedTensors::NoteSeconds(Reach reach, double seconds) {
  context_.scratch.cross_memory.Note(Kind(), reach == Reach::kAddresses, seconds);
}

void SharedTensors::Finish() {
  Transport& transport = context_.transport;
  context_.arithmetic.Finish();
  AllSay(true);  // that they have written
  transport.LendTensors(false);
  if (!is_mapped_) return;
  for (int64_t i = 0; i < size(); ++i) {
    if (!IsCopied(i) || Bytes(i) == 0 || !WantsResult(transport.rank(), i)) continue;
    CopyBytes(tensors_.outputs[i], Output(transport.rank(), i), Bytes(i));
  }
}

}  // namespace adasum
