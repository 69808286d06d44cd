// What a rank contributes to rounds of groups, and what came of them, whether or not it came in
// time. Of the thread that carries out requests.
//
// Round number t is the t-th call of every rank. It takes place as soon as one rank has come to it,
// and takes of every other what that one contributed last. So a rank's calls are at most as many as
// the rounds were; one that finds its round over is late, and combines the newest result by itself.
#ifndef ADASUM_COLLECTIVES_PARTIAL_ROUNDS_H_
#define ADASUM_COLLECTIVES_PARTIAL_ROUNDS_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "cc/collectives/partial_allreduce.h"
#include "cc/core/arithmetic.h"
#include "cc/core/scratch.h"
#include "cc/core/segments.h"
#include "cc/engine/request.h"

namespace adasum {

class PartialRounds {
 public:
  // Whether the round of this rank's next call is over.
  bool is_late() const { return !restarts_ && num_calls_ < num_rounds_; }
  // How many rounds were, beyond this rank's calls.
  int64_t num_behind() const { return num_rounds_ - num_calls_; }

  // The round that this call is for, with all ranks; `call` is in time.
  void RunWith(const PartialTensors& call, RequestContext& context);
  // The next round, in place of a call that has not come. There has been one before.
  void RunWithout(RequestContext& context);
  // Whether the tensors are those of the calls before: a late call meets nobody who would compare.
  bool Fits(const PartialTensors& call) const;
  // What a late call gets: the newest result since the last call and its own tensors, combined. It
  // fits.
  void TakeLate(const PartialTensors& call, Arithmetic& arithmetic);

  // What was contributed counts as zero from now on, and results are forgotten.
  void Reset();
  // The same, and the next call is in time: that of all ranks, which have restarted too.
  void Restart();

 private:
  void Contribute(const PartialTensors& call);
  // Lets go of the last call's inputs, once no peer reads them.
  void Retire();
  // This rank's in the next round, which then counts as over.
  std::vector<int> NextGroup(const Transport& all);
  void Run(const std::vector<int>& group, const std::vector<const void*>& inputs,
           const std::vector<void*>& outputs, RequestContext& context);
  // Of this rank's tensors, at the addresses that they have in `kept`.
  std::vector<char*> Addresses(Scratch& kept) const;
  const Segments& segments() const { return *segments_; }

  int64_t num_calls_ = 0;
  int64_t num_rounds_ = 0;
  // Of the last call. `kept` holds the inputs, which counted for rounds until the next call.
  PartialTensors contribution_;
  std::unique_ptr<Segments> segments_;
  // Whether a round has begun with them.
  bool is_in_round_ = false;
  // Inputs that a peer may still read, until ranks have met again.
  std::shared_ptr<const void> retired_;
  bool counts_as_zero_ = false;
  bool restarts_ = false;
  Scratch zeros_;
  bool are_zero_ = false;
  // Of the last round without a call, unless a call has taken it: how many leaves it has, or 0.
  Scratch result_;
  size_t num_leaves_ = 0;
  // What the allreduces of groups keep.
  std::unique_ptr<RequestState> state_of_groups_;
};

}  // namespace adasum

#endif  // ADASUM_COLLECTIVES_PARTIAL_ROUNDS_H_
