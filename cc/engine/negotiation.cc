#include "cc/engine/negotiation.h"

#include <algorithm>
#include <array>
#include <map>

#include "cc/core/error.h"
#include "cc/engine/rank_state.h"
#include "cc/transport/dissemination.h"
#include "cc/transport/gather.h"

namespace adasum {
namespace {

using Digest = std::array<uint64_t, 2>;

// Two runs of FNV-1a from different starts; the zero byte keeps name and signature apart.
Digest DigestOf(const std::string& name, const std::string& signature) {
  Digest digest{0xcbf29ce484222325u, 0x9ae16a3b2f90404fu};
  for (const std::string* text : {&name, &signature}) {
    for (unsigned char byte : *text + '\0') {
      digest[0] = (digest[0] ^ byte) * 0x100000001b3u;
      digest[1] = (digest[1] ^ byte) * 0x9e3779b97f4a7c15u;
      digest[1] ^= digest[1] >> 29;
    }
  }
  if (digest[0] == 0) digest[0] = 1;  // see ShutdownNoticeOf
  return digest;
}

// What has no name goes by what it is; a long list of shapes by its beginning and a hash.
std::string NameOf(const std::string& signature) {
  constexpr size_t kLongest = 80;
  if (signature.size() <= kLongest) return signature;
  return signature.substr(0, kLongest) + "... " + std::to_string(DigestOf("", signature)[0]);
}

}  // namespace

RequestKey::RequestKey(std::string name, std::string signature)
    : name(name.empty() ? NameOf(signature) : std::move(name)),
      signature(std::move(signature)),
      digest(DigestOf(this->name, this->signature)) {}

namespace {

struct Extremes {
  Digest least, greatest;
};

// What a rank that leaves sends in place of a digest. It is less than any digest, so that all ranks
// of the round find it as the least.
Digest ShutdownNoticeOf(int rank, ShutdownReason reason) {
  return {0, 2 * static_cast<uint64_t>(rank) + (reason == ShutdownReason::kClosed)};
}
bool IsShutdownNotice(const Digest& digest) { return digest[0] == 0; }
std::string DescribeShutdown(const Digest& notice) {
  return "rank " + std::to_string(notice[1] / 2) +
         (notice[1] % 2 ? " has closed this communicator" : " has ended");
}

// The least and the greatest digest of all ranks. They are equal if and only if all digests are.
Extremes ExtremesOfAll(Transport& transport, const Digest& mine) {
  Extremes known{mine, mine}, theirs{mine, mine};
  ForEachDisseminationRound(transport, [&](int to, int from) {
    transport.SendRecv({to, &known, sizeof(known)}, {from, &theirs, sizeof(theirs)});
    known.least = std::min(known.least, theirs.least);
    known.greatest = std::max(known.greatest, theirs.greatest);
  });
  return known;
}

const RequestKey* FindName(const std::vector<RequestKey>& pending, const std::string& name) {
  for (const RequestKey& key : pending) {
    if (key.name == name) return &key;
  }
  return nullptr;
}

// "rank 0 passed A; ranks 1, 2 passed B", ranks with the same text together.
std::string Describe(const std::vector<std::string>& of_rank) {
  std::map<std::string, std::vector<size_t>> ranks_with;
  for (size_t rank = 0; rank < of_rank.size(); ++rank) ranks_with[of_rank[rank]].push_back(rank);
  std::vector<std::pair<std::vector<size_t>, std::string>> groups;
  for (const auto& [text, ranks] : ranks_with) groups.push_back({ranks, text});
  std::sort(groups.begin(), groups.end());
  std::string out;
  for (const auto& [ranks, text] : groups) {
    out += (out.empty() ? "" : "; ") + std::string(ranks.size() == 1 ? "rank " : "ranks ");
    for (size_t i = 0; i < ranks.size(); ++i) out += (i ? ", " : "") + std::to_string(ranks[i]);
    out += " passed " + text;
  }
  return out;
}

std::string DescribeUnlike(const std::vector<RankState>& ranks, const std::string& name) {
  std::vector<std::string> of_rank;
  for (const RankState& state : ranks) {
    of_rank.push_back(FindName(state.pending, name)->signature);
  }
  return "Expected '" + name +
         "' to be the same operation on every rank. Received: " + Describe(of_rank) +
         ". Make the ranks pass equal dtypes, shapes and counts.";
}

std::string DescribeStrangers(const std::vector<RankState>& ranks, double seconds) {
  std::vector<std::string> of_rank;
  for (const RankState& state : ranks) {
    const RequestKey& first = state.pending.front();
    std::string name = first.name == NameOf(first.signature) ? "" : "'" + first.name + "' ";
    of_rank.push_back(name + first.signature);
  }
  return "Expected all ranks to come to the same operation, waited " + std::to_string(seconds) +
         " s. Received: " + Describe(of_rank) +
         ". Each waits there for the others. Make every rank issue the same named operations (in "
         "any order): no rank may read a metric, stop training or run out of batches by itself.";
}

std::string DescribeMissing(int rank, const RequestKey& first, size_t num_pending,
                            const Digest& notice) {
  std::string others =
      num_pending == 1 ? "" : ", the first of " + std::to_string(num_pending) + " that wait here";
  return "rank " + std::to_string(rank) + ": Expected all ranks to take part in '" + first.name +
         "'" + others + ". Received: " + DescribeShutdown(notice) +
         ". Make all ranks run the same number of operations, so that none stops training or runs "
         "out of batches by itself, or end one that fails by an exception.";
}

// The first request, in rank 0's order, that every rank has; null if there is none.
const RequestKey* FirstInCommon(const std::vector<RankState>& ranks) {
  for (const RequestKey& candidate : ranks[0].pending) {
    bool everywhere = std::all_of(ranks.begin(), ranks.end(), [&](const RankState& state) {
      return FindName(state.pending, candidate.name) != nullptr;
    });
    if (everywhere) return &candidate;
  }
  return nullptr;
}

}  // namespace

Decision Negotiation::Decide(Transport& transport, const RequestKey& first,
                             const std::function<std::vector<RequestKey>()>& pending) {
  const Extremes all = ExtremesOfAll(transport, first.digest);
  if (IsShutdownNotice(all.least)) {
    return {Decision::Kind::kShutdown, 0,
            DescribeMissing(transport.rank(), first, pending().size(), all.least)};
  }
  if (all.least == all.greatest) {
    differing_since_ = {};
    return {Decision::Kind::kRun, 0, ""};
  }
  return Compare(transport, pending());
}

Decision Negotiation::Compare(Transport& transport, const std::vector<RequestKey>& pending) {
  std::vector<RankState> ranks;
  for (const auto& texts : GatherLists(transport, ToTexts({HasExpired(), pending}))) {
    ranks.push_back(RankStateOf(texts, static_cast<int>(ranks.size())));
  }
  // From here on everything follows from `ranks`, which is the same on every rank.
  const RequestKey* common = FirstInCommon(ranks);
  if (common != nullptr) {
    differing_since_ = {};
    size_t index = FindName(pending, common->name) - pending.data();
    bool alike = std::all_of(ranks.begin(), ranks.end(), [&](const RankState& state) {
      return FindName(state.pending, common->name)->signature == common->signature;
    });
    if (alike) return {Decision::Kind::kRun, index, ""};
    return {Decision::Kind::kFail, index, DescribeUnlike(ranks, common->name)};
  }
  bool expired = std::any_of(ranks.begin(), ranks.end(),
                             [](const RankState& state) { return state.has_expired; });
  if (!expired) return {Decision::Kind::kLookAgain, 0, ""};
  differing_since_ = {};
  return {Decision::Kind::kFail, 0, DescribeStrangers(ranks, waits_.timeouts.mismatch_seconds)};
}

bool Negotiation::HasExpired() {
  auto now = std::chrono::steady_clock::now();
  if (differing_since_ == std::chrono::steady_clock::time_point{}) differing_since_ = now;
  return std::chrono::duration<double>(now - differing_since_).count() >
         waits_.timeouts.mismatch_seconds;
}

void SendShutdownNotice(Transport& transport, ShutdownReason reason) {
  const Digest notice = ShutdownNoticeOf(transport.rank(), reason);
  const Extremes mine{notice, notice};
  std::vector<int> senders;
  ForEachDisseminationRound(transport, [&](int, int from) { senders.push_back(from); });
  transport.Conclude(senders, sizeof(mine));
  // All that a round has this rank send, and nothing that it would receive: a rank that waits for
  // this one depends on no third rank.
  ForEachDisseminationRound(transport, [&](int to, int) {
    transport.SendRecv({to, &mine, sizeof(mine)}, {0, nullptr, 0});
  });
}

void ConcludeAfterShutdown(Transport& transport) { transport.Conclude({}, 0); }

}  // namespace adasum
