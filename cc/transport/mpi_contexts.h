// The numbers that keep the messages of a process' groups apart: MPI tags begin with them
// (mpi_tags.h).
//
// A receiver chooses its own number for each group and tells the members, since MPI compares tags
// where messages arrive. So processes need not agree on a number: groups of different
// communicators may be made at once, and a number is given back without asking anybody. (An MPI
// communicator for each group would need collective calls that no limit ends.)
//
// A number is used again when nothing can arrive under it any more. A group ends by a last message
// of each rank to each of its successors (negotiation.h); a number whose group ended so is free
// when those have been received, however late. That of a group that was cut short is never used
// again.
#ifndef ADASUM_TRANSPORT_MPI_CONTEXTS_H_
#define ADASUM_TRANSPORT_MPI_CONTEXTS_H_

#include <mpi.h>

#include <atomic>
#include <list>
#include <memory>
#include <mutex>
#include <set>
#include <vector>

namespace adasum {

// Messages that nobody looks at, to be received whenever they come.
class LastMessages {
 public:
  LastMessages() = default;
  // Gives up what has not come; whoever sends it may not have ended.
  ~LastMessages();
  LastMessages(const LastMessages&) = delete;
  LastMessages& operator=(const LastMessages&) = delete;

  void Expect(MPI_Comm comm, int from, int tag, int64_t num_bytes);
  // Whether all are there; never waits.
  bool Progress();

 private:
  std::vector<std::unique_ptr<char[]>> bytes_;
  std::vector<MPI_Request> requests_;
};

// Those of one MPI communicator in this process. Any thread may call it.
class MpiContexts {
 public:
  // Asks MPI how large tags may be.
  explicit MpiContexts(MPI_Comm comm);
  ~MpiContexts() { num_in_use_ -= NumTaken(); }
  MpiContexts(const MpiContexts&) = delete;
  MpiContexts& operator=(const MpiContexts&) = delete;

  // The least number that is free. Throws InvalidArgument if there is none.
  int Take();
  // `number` is free when its last messages are there.
  void GiveBack(int number, std::unique_ptr<LastMessages> last);
  // Waits until no last message is missing, or for so many seconds.
  void Drain(double seconds);
  // Those of all objects that are taken, or wait for their last messages.
  static int NumInUse() { return num_in_use_; }

 private:
  struct Closing {
    int number;
    std::unique_ptr<LastMessages> last;
  };
  // Under mutex_.
  void Progress();
  int NumTaken() const { return never_taken_ - static_cast<int>(free_.size()); }

  static std::atomic<int> num_in_use_;
  std::mutex mutex_;
  int limit_;
  int never_taken_ = 0;
  std::set<int> free_;
  std::list<Closing> closing_;
};

}  // namespace adasum

#endif  // ADASUM_TRANSPORT_MPI_CONTEXTS_H_
