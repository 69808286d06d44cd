#include "cc/reductions/halving_doubling.h"

#include <cstdlib>
#include <new>

#include "cc/core/schedule.h"

namespace adasum {

void Scratch::Free::operator()(void* bytes) const { std::free(bytes); }

void* Scratch::Get(int64_t num_bytes) {
  if (num_bytes > capacity_) {
    constexpr int64_t kPage = 4096;
    int64_t rounded = (num_bytes + kPage - 1) / kPage * kPage;
    bytes_.reset();  // before the new one: at no time do both exist
    capacity_ = 0;
    bytes_.reset(std::aligned_alloc(kPage, rounded));
    if (bytes_ == nullptr) throw std::bad_alloc();
    capacity_ = rounded;
  }
  return bytes_.get();
}

namespace {

const char* At(const void* base, int64_t bytes) { return static_cast<const char*>(base) + bytes; }
char* At(void* base, int64_t bytes) { return static_cast<char*>(base) + bytes; }

// One run of the traversal. Passes over memory for a vector of B bytes, two leaves: the half that
// the peer wants is packed (B/2), the moments read own and peer's half (B), the combine reads
// them again and writes (3B/2), the result is delivered (B). A transport that takes any memory
// saves the packing when there is one tensor, since that is packed already.
class Traversal {
 public:
  Traversal(const Reduction& reduction, const LeafTensors& tensors, Transport& transport,
            Arithmetic& arithmetic, LeafScratch& scratch)
      : reduction_(reduction),
        tensors_(tensors),
        transport_(transport),
        arithmetic_(arithmetic),
        scratch_(scratch),
        element_bytes_(ElementBytes(tensors.dtype)),
        all_(tensors.segments.all()),
        schedule_(MakeSchedule(transport.rank(), transport.size(), all_.size())) {}

  void Run() {
    if (all_.size() == 0) return;
    if (transport_.size() == 1) return DeliverInputs();
    work_ = WorkingBuffer();
    if (schedule_.fold == Fold::kGives) return GiveAll();
    if (schedule_.fold == Fold::kTakes) TakeFold();
    for (const Level& level : schedule_.levels) CombineHalf(level);
    FinishOwnPart();
    for (auto level = schedule_.levels.rbegin(); level != schedule_.levels.rend(); ++level) {
      GatherHalf(*level);
    }
    if (schedule_.fold == Fold::kTakes) ReturnToFolded();
  }

 private:
  // --- Where bytes lie ---------------------------------------------------------------------

  // One tensor is its own packed buffer, unless peers must find it in the transport's memory.
  bool IsPackedAlready() const {
    return tensors_.segments.size() == 1 && !transport_.needs_workspace();
  }

  void* WorkingBuffer() {
    int64_t num_bytes = all_.size() * element_bytes_;
    if (transport_.needs_workspace()) return transport_.Workspace(num_bytes);
    // The result of a single tensor is combined where it will be read.
    if (IsPackedAlready() && !tensors_.outputs.empty()) return tensors_.outputs[0];
    scratch_.turn ^= 1;
    return scratch_.work[scratch_.turn].Get(num_bytes);
  }

  char* Work(Range range) const { return At(work_, range.begin * element_bytes_); }
  int64_t Bytes(Range range) const { return range.size() * element_bytes_; }

  // The address of element `position` of the packed vector, which lies in segment `segment`.
  const void* Own(int64_t segment, int64_t position) const {
    if (is_in_work_) return At(work_, position * element_bytes_);
    int64_t inside = position - tensors_.segments.offset(segment);
    return At(tensors_.inputs[segment], inside * element_bytes_);
  }

  // Own values of `range` as one run of bytes: in place if they are, else packed into work_.
  const void* Packed(Range range) {
    if (is_in_work_) return Work(range);
    if (IsPackedAlready()) return At(tensors_.inputs[0], range.begin * element_bytes_);
    tensors_.segments.ForEach(range, [&](int64_t segment, Range part) {
      arithmetic_.Copy(Work(part), Own(segment, part.begin), Bytes(part));
    });
    return Work(range);
  }

  // Copies results to the caller's tensors, where they aren't there already.
  void Deliver(Range range, const void* results) {
    if (tensors_.outputs.empty()) return;
    tensors_.segments.ForEach(range, [&](int64_t segment, Range part) {
      const void* from = At(results, (part.begin - range.begin) * element_bytes_);
      int64_t inside = part.begin - tensors_.segments.offset(segment);
      void* to = At(tensors_.outputs[segment], inside * element_bytes_);
      if (from != to) arithmetic_.Copy(to, from, Bytes(part));
    });
  }

  void DeliverInputs() {
    tensors_.segments.ForEach(
        all_, [&](int64_t segment, Range part) { Deliver(part, Own(segment, part.begin)); });
  }

  // --- Steps -----------------------------------------------------------------------------------

  // A leaf beyond the power of two gives everything away and hears the result last.
  void GiveAll() {
    int peer = schedule_.fold_peer;
    transport_.Exchange({peer, Packed(all_), Bytes(all_)}, {peer, nullptr, 0});
    void* landing = IsPackedAlready() && !tensors_.outputs.empty()
                        ? tensors_.outputs[0]
                        : scratch_.landing.Get(Bytes(all_));
    Deliver(all_, transport_.Exchange({peer, nullptr, 0}, {peer, landing, Bytes(all_)}));
  }

  void TakeFold() {
    int peer = schedule_.fold_peer;
    void* landing = scratch_.landing.Get(Bytes(all_));
    const void* theirs = transport_.Exchange({peer, nullptr, 0}, {peer, landing, Bytes(all_)});
    // Both vectors are here whole: there is nobody to sum the moments with.
    Combine(all_, theirs, true, {1, 1}, [](std::vector<Moments>*) {});
  }

  void CombineHalf(const Level& level) {
    void* landing = scratch_.landing.Get(Bytes(level.keep));
    const void* theirs = transport_.Exchange({level.peer, Packed(level.give), Bytes(level.give)},
                                             {level.peer, landing, Bytes(level.keep)});
    Combine(level.keep, theirs, level.is_left, CountLeaves(level),
            [&](std::vector<Moments>* moments) { SumOverBlock(level.distance, moments); });
  }

  void Combine(Range range, const void* theirs, bool is_left, LeafCounts leaves,
               const GroupSum& group_sum) {
    std::vector<Piece> pieces;
    tensors_.segments.ForEach(range, [&](int64_t segment, Range part) {
      const void* own = Own(segment, part.begin);
      const void* other = At(theirs, (part.begin - range.begin) * element_bytes_);
      pieces.push_back(
          {segment, is_left ? own : other, is_left ? other : own, Work(part), part.size()});
    });
    reduction_.Combine(
        {tensors_.dtype, pieces, tensors_.segments.size(), leaves, arithmetic_, group_sum});
    is_in_work_ = true;
  }

  // Leaves in the two subtrees that meet at this level: `distance` neighbours each, and those
  // that folded into them.
  LeafCounts CountLeaves(const Level& level) const {
    int power = 2 << (schedule_.levels.size() - 1);
    int num_folded = transport_.size() - power;
    int first = transport_.rank() & ~(2 * level.distance - 1);
    auto count = [&](int begin) {
      int folded = std::min(std::max(num_folded - begin, 0), level.distance);
      return level.distance + folded;
    };
    return {count(first), count(first + level.distance)};
  }

  // Recursive doubling over the aligned block of 2 * distance ranks that hold the two vectors.
  // Both sides of each exchange add the same two numbers, so all ranks end with the same bits.
  void SumOverBlock(int distance, std::vector<Moments>* moments) {
    std::vector<Moments> theirs(moments->size());
    int64_t num_bytes = static_cast<int64_t>(moments->size() * sizeof(Moments));
    for (int round = 1; round <= distance; round *= 2) {
      int peer = transport_.rank() ^ round;
      transport_.SendRecv({peer, moments->data(), num_bytes}, {peer, theirs.data(), num_bytes});
      for (size_t i = 0; i < moments->size(); ++i) {
        (*moments)[i].dot += theirs[i].dot;
        (*moments)[i].left_norm2 += theirs[i].left_norm2;
        (*moments)[i].right_norm2 += theirs[i].right_norm2;
      }
    }
  }

  void FinishOwnPart() {
    Range own = schedule_.levels.back().keep;
    reduction_.Finish(arithmetic_, tensors_.dtype, Work(own), own.size(), transport_.size());
  }

  void GatherHalf(const Level& level) {
    const void* theirs = transport_.Exchange({level.peer, Work(level.keep), Bytes(level.keep)},
                                             {level.peer, Work(level.give), Bytes(level.give)});
    // The last step delivers straight from where the bytes are, unless a folded leaf still waits
    // for the whole vector.
    bool is_last = level.distance == 1 && schedule_.fold != Fold::kTakes;
    if (!is_last && theirs != Work(level.give)) {
      arithmetic_.Copy(Work(level.give), theirs, Bytes(level.give));
      theirs = Work(level.give);
    }
    if (level.distance == 1) {
      Deliver(level.keep, Work(level.keep));
      Deliver(level.give, theirs);
    }
  }

  void ReturnToFolded() {
    int peer = schedule_.fold_peer;
    transport_.Exchange({peer, work_, Bytes(all_)}, {peer, nullptr, 0});
  }

  const Reduction& reduction_;
  const LeafTensors& tensors_;
  Transport& transport_;
  Arithmetic& arithmetic_;
  LeafScratch& scratch_;
  const int64_t element_bytes_;
  const Range all_;
  const Schedule schedule_;
  void* work_ = nullptr;
  // Whether this leaf's current values are in work_, or still in the caller's inputs.
  bool is_in_work_ = false;
};

}  // namespace

void HalvingDoubling(const Reduction& reduction, const LeafTensors& tensors, Transport& transport,
                     Arithmetic& arithmetic, LeafScratch& scratch) {
  Traversal(reduction, tensors, transport, arithmetic, scratch).Run();
}

}  // namespace adasum
