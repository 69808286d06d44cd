#include "cc/transport/host_ends.h"

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <exception>
#include <string>
#include <utility>

#include "cc/core/error.h"
#include "cc/transport/gather.h"

namespace adasum {
namespace {

using Ends = std::vector<std::unique_ptr<ShmTransport>>;

// An answer that begins so names all that a rank reaches of its peers beside their files.
constexpr char kYes[] = "yes";
constexpr char kArenas[] = ", the arenas in which tensors lie";
constexpr char kProcesses[] = ", the processes";
// Unwanted, or another rank has the reason.
constexpr char kNotTried[] = "not tried";

Ends Create(int first, const HostEnds& wanted, const WaitControl& waits) {
  Ends ends;
  for (int k = 0; k < wanted.num_ends; ++k) {
    ends.push_back(std::make_unique<ShmTransport>(first + k, wanted.num_on_host, waits));
  }
  return ends;
}

bool Says(const std::string& answer, const char* what) {
  return answer.rfind(kYes, 0) == 0 && answer.find(what) != std::string::npos;
}

// kYes with what is reached, or why not.
std::string Connect(const Ends& ends, const std::vector<std::string>& addresses,
                    const HostEnds& wanted) {
  if (static_cast<int>(addresses.size()) != ends[0]->size()) return kNotTried;
  try {
    for (const auto& end : ends) end->Connect(addresses);
    std::string answer = kYes;
    if (wanted.shares_tensors && ends[0]->MapArenas(addresses)) answer += kArenas;
    if (wanted.copies_tensors && ends[0]->ReachProcesses(addresses)) answer += kProcesses;
    return answer;
  } catch (const Error& error) {
    return error.what();
  }
}

// Rank 0 says it once in a process; the communicators that come after it mostly fare alike.
void Tell(const Transport& ranks, int of_rank, std::string why) {
  static std::atomic<bool> is_told{false};
  if (is_told.exchange(true) || ranks.rank() != 0) return;
  if (!why.empty() && why.back() == '.') why.pop_back();
  const std::string line =
      "tf_adasum: " + ranks.RankName(0) +
      ": ranks of a host use MPI, since they can't share memory: " + ranks.RankName(of_rank) +
      ": " + why + ". TF_ADASUM_SHARED_MEMORY=0 chooses this without a word\n";
  std::fputs(line.c_str(), stderr);
}

// What all ranks of all hosts reach of their peers.
struct Reach {
  bool files, arenas, processes;
};

Reach Agree(Transport& ranks, const std::vector<int>& first_on_host, const HostEnds& wanted,
            const Ends& ends, std::string answer) {
  std::vector<std::string> addresses;
  for (const auto& end : ends) addresses.push_back(end->Address());
  const std::vector<std::vector<std::string>> all = GatherLists(ranks, addresses);
  std::vector<std::string> on_host;  // in the order of the ranks
  std::vector<int> names;            // whose ends these are
  for (size_t rank = 0; rank < all.size(); ++rank) {
    if (first_on_host[rank] < 0) continue;
    on_host.insert(on_host.end(), all[rank].begin(), all[rank].end());
    names.insert(names.end(), all[rank].size(), ranks.WorldRank(static_cast<int>(rank)));
  }
  for (const auto& end : ends) end->NameRanks(names);
  if (!ends.empty()) answer = Connect(ends, on_host, wanted);
  const std::vector<std::string> answers = GatherTexts(ranks, answer);
  Reach reach{true, true, true};
  int first = -1;  // of those with a reason
  for (int rank = 0; rank < ranks.size(); ++rank) {
    const bool can = Says(answers[rank], kYes);
    reach.files = reach.files && can;
    reach.arenas = reach.arenas && Says(answers[rank], kArenas);
    reach.processes = reach.processes && Says(answers[rank], kProcesses);
    if (first < 0 && !can && answers[rank] != kNotTried) first = rank;
  }
  if (first >= 0) Tell(ranks, first, answers[first]);
  return reach;
}

}  // namespace

Ends ConnectHostEnds(Transport& ranks, const std::vector<int>& first_on_host,
                     const HostEnds& wanted, const WaitControl& waits) {
  Ends ends;
  std::string answer = kNotTried;
  if (wanted.num_on_host <= wanted.most_ends) {
    try {
      ends = Create(first_on_host[ranks.rank()], wanted, waits);
    } catch (const std::exception& error) {
      answer = error.what();  // told to all ranks below
    }
  }
  Reach reach{};
  try {
    reach = Agree(ranks, first_on_host, wanted, ends, answer);
  } catch (...) {
    // Others may have all that this rank was to say, and wait for it in this memory.
    for (const auto& end : ends) end->LeaveAfterException();
    throw;
  }
  if (!reach.files) return Ends();
  ends[0]->ShareTensors(reach.arenas);
  if (reach.processes) ends[0]->CopyTensors();
  return ends;
}

}  // namespace adasum
