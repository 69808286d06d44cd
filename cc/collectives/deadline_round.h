// One call of the allreduce that leaves out what is late.
//
// Of P ranks each owns the chunks c with c mod P = its number. Ranks send their part of a chunk to
// the owner; by half the deadline they tell each other what has come, so that all know which parts
// are missing, and choose alike which of them are left out. The owners reduce what they have and
// send the results; by the deadline ranks tell each other again, and a result that one of them
// lacks is left out on all. What is missing and not left out is waited for. What ranks tell each
// other is never left out. Each result is computed once: all ranks have the same bits.
//
// A vector of B bytes costs each rank 2 (P - 1) / P of B on the wire, and what ranks tell each
// other: log2(P) times the moments, and 256 bytes or more twice.
#ifndef ADASUM_COLLECTIVES_DEADLINE_ROUND_H_
#define ADASUM_COLLECTIVES_DEADLINE_ROUND_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <vector>

#include "cc/collectives/chunk_memory.h"
#include "cc/collectives/chunk_messages.h"
#include "cc/collectives/deadline_allreduce.h"
#include "cc/collectives/dealt_chunks.h"
#include "cc/collectives/left_out.h"
#include "cc/collectives/owned_chunks.h"
#include "cc/core/arithmetic.h"
#include "cc/core/segments.h"

namespace adasum {

// What is kept from call to call; all that messages are sent from or received into.
struct DeadlineState {
  ChunkMemory memory;
  LateMessages late;
  OwnedChunks::Messages moments;
  std::vector<char> told, norms, all_norms;
  int64_t num_calls = 0;
  int64_t num_lanes = 0;  // that the calls have used
  std::vector<int64_t> last_call_of_lane;
};

class DeadlineRound {
 public:
  DeadlineRound(const DeadlineTensors& tensors, RequestContext* context, Arithmetic* arithmetic,
                DeadlineState* state);
  void Run();

 private:
  using Clock = ChunkMessages::Clock;

  // Lanes that no message of an earlier call uses any more.
  void TakeLanes();
  int Lane(int64_t index, bool is_result) const;
  int64_t Bytes(int64_t chunk) const { return chunks_.Of(chunk).size() * element_bytes_; }
  Chunk TakeMemory() { return state_.memory.Take(chunks_.chunk_elements() * element_bytes_); }
  // Own values of a chunk.
  Chunk Packed(int64_t chunk);

  // The first phase: parts go to owners.
  void SendParts();
  void ChooseParts();
  void ReduceOwned();
  // The second phase: results go to all.
  void SendResults();
  void ChooseResults();
  void Deliver();

  // The squared norm of each rank's part of each chunk, found once.
  void FindNorms();
  // The pieces of the own values of a chunk.
  std::vector<Piece> OwnPieces(int64_t chunk) const;
  // Calls visit(index, rank, chunk) for each message of a phase between an owner and a rank.
  template <typename Visit>
  void ForEachOwned(int owner, Visit visit) const;
  bool IsIn(int rank, int64_t chunk) const { return is_in_[rank * chunks_.size() + chunk] != 0; }

  const DeadlineTensors& tensors_;
  RequestContext& context_;
  Transport& transport_;
  Arithmetic& arithmetic_;
  DeadlineState& state_;
  const Segments segments_;
  const int64_t element_bytes_;
  const int rank_;
  const int size_;
  const DealtChunks chunks_;
  const Clock::time_point begin_ = Clock::now();
  const Clock::duration half_;
  int64_t first_lane_ = 0;
  ChunkMessages parts_, results_;
  std::vector<OwnedChunk> owned_;
  std::vector<char> is_in_;        // of each rank and chunk: whether the part counts
  std::vector<char> is_left_out_;  // of each chunk: whether nobody has a result
  int64_t num_left_out_ = 0;       // elements of all ranks
  int64_t most_left_out_;
  std::vector<double> norms2_;
};

}  // namespace adasum

#endif  // ADASUM_COLLECTIVES_DEADLINE_ROUND_H_
