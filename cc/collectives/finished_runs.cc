#include "cc/collectives/finished_runs.h"

#include <algorithm>
#include <utility>

#include "cc/collectives/blocks.h"
#include "cc/collectives/run_tables.h"
#include "cc/transport/dissemination.h"

namespace adasum {
namespace {

// Calls visit(peer) for every other rank: in round k rank r meets r ^ k, so that both sides of each
// exchange are there.
template <typename Visit>
void ForEachRound(const Transport& host, Visit visit) {
  for (int round = 1; round < 2 * host.size(); ++round) {
    const int peer = host.rank() ^ round;
    if (peer < host.size()) visit(peer);
  }
}

class FinishedRuns {
 public:
  FinishedRuns(Transport& host, const std::vector<Range>& runs, const StageTensors& tensors,
               RunsScratch& scratch)
      : host_(host),
        tensors_(tensors),
        scratch_(scratch),
        chunk_(BlockBytes(host) / ElementBytes(tensors.dtype)),
        tables_(host, runs, tensors) {
    for (const Range& run : runs) runs_.push_back(tensors.segments.Elements(run));
  }

  void Spread() {
    SwapTables();
    if (AnyInReach()) {
      ReadInReach();
      Barrier(host_);
      host_.LendTensors(false);
    }
    SpreadPacked();
  }

 private:
  bool AnyInReach() const {
    for (int rank = 0; rank < host_.size(); ++rank) {
      if (tables_.IsInReach(rank)) return true;
    }
    return false;
  }

  void SwapTables() {
    const int64_t own_bytes = tables_.TableBytes(host_.rank());
    char* const own = static_cast<char*>(Shown(own_bytes));
    if (own_bytes > 0) tables_.Fill(own);
    // A reader that was stopped may go on with what lies there (Transport::HasAbandoned).
    if (tables_.IsInReach(host_.rank())) host_.LendTensors(true);
    ForEachRound(host_, [&](int peer) {
      const int64_t bytes = tables_.TableBytes(peer);
      if (own_bytes + bytes == 0) return;
      const void* const table = Swap(peer, own, own_bytes, bytes);
      if (bytes > 0) tables_.Take(peer, static_cast<const char*>(table));
    });
  }

  // Where the peer's bytes are, until the next.
  const void* Swap(int peer, const void* own, int64_t own_bytes, int64_t bytes) {
    void* const received = host_.CanRead(peer) ? nullptr : scratch_.received.Get(bytes);
    return host_.Exchange({peer, own, own_bytes}, {peer, received, bytes});
  }

  // Each begins with another peer, so that no rank is everybody's next.
  void ReadInReach() {
    std::vector<std::pair<int, Range>> parts;
    int64_t num_bytes = 0;
    for (int distance = 1; distance < host_.size(); ++distance) {
      const int peer = (host_.rank() + distance) % host_.size();
      if (!tables_.IsInReach(peer)) continue;
      const Range run = runs_[peer];
      num_bytes += tensors_.Bytes(run);
      for (int64_t begin = run.begin; begin < run.end; begin += chunk_) {
        parts.push_back({peer, {begin, std::min(begin + chunk_, run.end)}});
      }
    }
    tensors_.arithmetic.RunTasks("read finished runs", num_bytes, parts.size(),
                                 [&](int64_t task, Arithmetic& arithmetic) {
                                   const auto& [peer, part] = parts[task];
                                   tables_.Read(peer, part, arithmetic);
                                 });
    tensors_.arithmetic.Finish();
  }

  // What is not in reach, piece by piece.
  void SpreadPacked() {
    int64_t longest = 0;
    for (int rank = 0; rank < host_.size(); ++rank) {
      if (tables_.IsInReach(rank)) runs_[rank] = {0, 0};
      longest = std::max(longest, runs_[rank].size());
    }
    for (int64_t done = 0; done < longest; done += chunk_) {
      std::vector<Range> parts;
      for (const Range& run : runs_) {
        const int64_t begin = std::min(run.begin + done, run.end);
        parts.push_back({begin, std::min(begin + chunk_, run.end)});
      }
      SpreadParts(parts);
    }
  }

  // parts[k] is what the k-th rank shows.
  void SpreadParts(const std::vector<Range>& parts) {
    Barrier(host_);
    const Range own = parts[host_.rank()];
    char* const shown = static_cast<char*>(Shown(tensors_.Bytes(own)));
    tensors_.ForEachPiece(
        own, [&](int64_t segment, int64_t skip, int64_t offset, int64_t num_bytes) {
          tensors_.arithmetic.Copy(shown + offset, Tensor(segment) + skip, num_bytes);
        });
    ForEachRound(host_, [&](int peer) {
      const int64_t own_bytes = tensors_.Bytes(own), peer_bytes = tensors_.Bytes(parts[peer]);
      if (own_bytes + peer_bytes == 0) return;
      const char* const theirs = static_cast<const char*>(Swap(peer, shown, own_bytes, peer_bytes));
      tensors_.ForEachPiece(
          parts[peer], [&](int64_t segment, int64_t skip, int64_t offset, int64_t num_bytes) {
            tensors_.arithmetic.Deliver(Tensor(segment) + skip, theirs + offset, num_bytes);
          });
    });
  }

  char* Tensor(int64_t segment) const { return static_cast<char*>(tensors_.addresses[segment]); }

  // Memory that the others of this host can read.
  void* Shown(int64_t num_bytes) {
    if (num_bytes == 0) return nullptr;
    return host_.requires_workspace() ? host_.Workspace(num_bytes) : scratch_.shown.Get(num_bytes);
  }

  Transport& host_;
  const StageTensors& tensors_;
  RunsScratch& scratch_;
  const int64_t chunk_;      // elements
  std::vector<Range> runs_;  // of each rank, in elements
  RunTables tables_;
};

}  // namespace

void SpreadRuns(Transport& host, const std::vector<Range>& runs, const StageTensors& tensors,
                RunsScratch& scratch) {
  FinishedRuns(host, runs, tensors, scratch).Spread();
}

}  // namespace adasum
