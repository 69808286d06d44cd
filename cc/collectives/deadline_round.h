// One call of the allreduce that leaves out what is late; deadline_choices.cc has what it leaves
// out.
//
// Of P ranks each owns the chunks c with c mod P = its number. Ranks send their part of a chunk to
// the owner; by half the deadline they tell each other what has come, so that all know which parts
// are missing, and choose alike which of them are left out. The owners reduce what they have and
// send the results; by the deadline ranks tell each other again, and a result that one of them
// lacks is left out on all. What is missing and not left out is waited for. What ranks tell each
// other is never left out. Each result is computed once: all ranks have the same bits.
//
// A vector of B bytes costs each rank 2 (P - 1) / P of B on the wire. What ranks tell each other is
// little, but takes rounds of messages: twice log2(P) for what has come, and 2 log2(P) or less, for
// each of the log2(P) levels of the tree, for the moments of Adasum.
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
  GatheredBytes told, moments, norms;
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
  std::vector<Told> TellParts();
  void ChooseParts();
  void LeaveOutPart(const Missing& missing, std::vector<Told>& told);
  void ReduceOwned();
  // The second phase: results go to all.
  void SendResults();
  std::vector<Told> TellResults();
  void ChooseResults();
  void LeaveOutResult(const Missing& missing, std::vector<Told>& told);
  void Deliver();
  void DeliverChunk(int64_t chunk, const char* result);

  // Sets the norms of what is missing; collective.
  void FindNorms(std::vector<Missing>& missing);
  // The squared norm of each rank's part of each chunk, found once.
  double Norm2(int rank, int64_t chunk) const { return norms2_[rank * chunks_.size() + chunk]; }
  // The pieces of the own values of a chunk.
  std::vector<Piece> OwnPieces(int64_t chunk) const;
  // Calls visit(index, chunk) for each chunk of an owner.
  template <typename Visit>
  void ForEachOwned(int owner, Visit visit) const {
    for (int64_t chunk = owner; chunk < chunks_.size(); chunk += size_) {
      visit(chunks_.IndexAtOwner(chunk), chunk);
    }
  }
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
