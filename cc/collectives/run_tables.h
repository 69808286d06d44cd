// What each rank of a host tells the others of the run that it has finished: where the tensors lie.
#ifndef ADASUM_COLLECTIVES_RUN_TABLES_H_
#define ADASUM_COLLECTIVES_RUN_TABLES_H_

#include <vector>

#include "cc/collectives/finished_runs.h"

namespace adasum {

// Short tensors lie in the table itself, as long as they are few bytes, or few of a run's; the
// norms, where they are asked for, in any case.
class RunTables {
 public:
  // All must outlive this.
  RunTables(Transport& host, const std::vector<Range>& runs, const StageTensors& tensors);

  // Bytes of a rank's table; 0 where it has nothing to tell.
  int64_t TableBytes(int rank) const;
  // Writes this rank's, where it has one.
  void Fill(char* table);
  // A peer's, which stays where it is while this rank reads what is in reach.
  void Take(int peer, const char* table);

  // Whether all of the rank's tensors are in its table, mapped, or may be copied across.
  bool IsInReach(int rank) const { return is_in_reach_[rank]; }
  // Reads what a peer in reach has of `part`. Several threads may do so at once.
  void Read(int peer, Range part, Arithmetic& arithmetic) const;

 private:
  bool HasPlaces() const { return may_map_ || may_copy_; }
  int64_t Bytes(int64_t segment) const {
    return tensors_.Bytes(tensors_.segments.Elements({segment, segment + 1}));
  }
  // Where the parts of a rank's table begin.
  int64_t PlacesBegin(int rank) const;
  int64_t CopiesBegin(int rank) const;
  // Finds which short tensors of the run lie in its table, and where.
  void PlaceCopies(int rank);
  bool IsOwnInReach(const char* table) const;

  Transport& host_;
  const std::vector<Range>& runs_;
  const StageTensors& tensors_;
  bool may_map_ = false, may_copy_ = false;  // the same on all ranks
  // Of each segment, in its rank's copies; kElsewhere where it is not among them.
  static constexpr int64_t kElsewhere = -1;
  std::vector<int64_t> copy_offsets_;
  std::vector<int64_t> copies_bytes_;  // of each rank
  std::vector<const char*> tables_;
  std::vector<bool> is_in_reach_;
};

}  // namespace adasum

#endif  // ADASUM_COLLECTIVES_RUN_TABLES_H_
