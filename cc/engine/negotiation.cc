#include "cc/engine/negotiation.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <map>

#include "cc/core/error.h"
#include "cc/core/numbers.h"
#include "cc/engine/rank_state.h"
#include "cc/transport/dissemination.h"
#include "cc/transport/gather.h"
#include "cc/transport/peer_bytes.h"

namespace adasum {
namespace {

using Digest = RequestKey::Digest;

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

RequestKey::RequestKey(std::string name, std::string signature) {
  if (name.empty()) name = NameOf(signature);
  const Digest digest = DigestOf(name, signature);
  texts_ = std::make_shared<const Texts>(Texts{std::move(name), std::move(signature), digest});
}

namespace {

// What a rank that leaves sends in place of a digest. It is less than any digest, so that all ranks
// of the round find it as the least.
Digest ShutdownNoticeOf(int rank, ShutdownReason reason) {
  return {0, 2 * static_cast<uint64_t>(rank) + (reason == ShutdownReason::kClosed)};
}
bool IsShutdownNotice(const Digest& digest) { return digest[0] == 0; }
// Throws Internal for the notice of a rank that there is not. It came from rank `peer`.
void CheckNotice(const Transport& transport, const Digest& digest, int peer) {
  const uint64_t rank = digest[1] / 2;
  if (!IsShutdownNotice(digest) || rank < static_cast<uint64_t>(transport.size())) return;
  RefuseBytes(transport.WorldRank(peer),
              "the end of one of " + std::to_string(transport.size()) + " ranks",
              "that of rank " + std::to_string(rank));
}
std::string DescribeShutdown(const Transport& transport, const Digest& notice) {
  return transport.RankName(static_cast<int>(notice[1] / 2)) +
         (notice[1] % 2 ? " has closed this communicator" : " has ended");
}

const RequestKey* FindName(const std::vector<RequestKey>& pending, const std::string& name) {
  for (const RequestKey& key : pending) {
    if (key.name() == name) return &key;
  }
  return nullptr;
}

// "rank 0 passed A; ranks 1, 2 passed B", ranks with the same text together.
std::string Describe(const Transport& transport, const std::vector<std::string>& of_rank) {
  std::map<std::string, std::vector<int>> ranks_with;
  for (size_t rank = 0; rank < of_rank.size(); ++rank) {
    ranks_with[of_rank[rank]].push_back(transport.WorldRank(static_cast<int>(rank)));
  }
  std::vector<std::pair<std::vector<int>, std::string>> groups;
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

std::string DescribeUnlike(const Transport& transport, const std::vector<RankState>& ranks,
                           const std::string& name) {
  std::vector<std::string> of_rank;
  for (const RankState& state : ranks) {
    of_rank.push_back(FindName(state.pending, name)->signature());
  }
  return "Expected '" + name +
         "' to be the same operation on every rank. Received: " + Describe(transport, of_rank) +
         ". Make the ranks pass equal dtypes, shapes and counts.";
}

std::string DescribeStrangers(const Transport& transport, const std::vector<RankState>& ranks,
                              double seconds) {
  std::vector<std::string> of_rank;
  for (const RankState& state : ranks) {
    const RequestKey& first = state.pending.front();
    std::string name = first.name() == NameOf(first.signature()) ? "" : "'" + first.name() + "' ";
    of_rank.push_back(name + first.signature());
  }
  return "Expected all ranks to come to the same operation, waited " + InSeconds(seconds) +
         ". Received: " + Describe(transport, of_rank) +
         ". Each waits there for the others. Make every rank issue the same named operations (in "
         "any order): no rank may read a metric, stop training, leave fit by an exception that it "
         "catches, or run out of batches by itself.";
}

std::string DescribeMissing(const Transport& transport, const RequestKey& first, size_t num_pending,
                            const Digest& notice) {
  std::string others =
      num_pending == 1 ? "" : ", the first of " + std::to_string(num_pending) + " that wait here";
  return transport.RankName(transport.rank()) + ": Expected all ranks to take part in '" +
         first.name() + "'" + others + ". Received: " + DescribeShutdown(transport, notice) +
         ". Make all ranks run the same number of operations, so that none stops training or runs "
         "out of batches by itself, or end one that fails by an exception.";
}

// The first request, in rank 0's order, that every rank has; null if there is none.
const RequestKey* FirstInCommon(const std::vector<RankState>& ranks) {
  for (const RequestKey& candidate : ranks[0].pending) {
    bool everywhere = std::all_of(ranks.begin(), ranks.end(), [&](const RankState& state) {
      return FindName(state.pending, candidate.name()) != nullptr;
    });
    if (everywhere) return &candidate;
  }
  return nullptr;
}

}  // namespace

struct Negotiation::Extremes {
  Digest least, greatest;

  void Add(const Extremes& others) {
    least = std::min(least, others.least);
    greatest = std::max(greatest, others.greatest);
  }
};

Negotiation::Extremes Negotiation::ExtremesByRounds(Transport& transport, const Digest& mine) {
  Extremes known{mine, mine}, theirs{mine, mine};
  ForEachDisseminationRound(transport, [&](int to, int from) {
    transport.SendRecv({to, &known, sizeof(known)}, {from, &theirs, sizeof(theirs)});
    CheckNotice(transport, theirs.least, from);
    known.Add(theirs);
  });
  return known;
}

// A message is a digest, and what is enclosed.
Negotiation::Extremes Negotiation::ExtremesByMessagesToAll(Transport& transport, const Digest& mine,
                                                           const Enclosure& enclosure) {
  const int rank = transport.rank(), size = transport.size();
  const int64_t stride = transport.SwapBytes();
  messages_.resize(size * stride);
  message_bytes_.assign(size, 0);
  char* const own = messages_.data() + rank * stride;
  const int64_t own_bytes = static_cast<int64_t>(sizeof(Digest)) + enclosure.num_bytes;
  std::memcpy(own, &mine, sizeof(Digest));
  if (enclosure.num_bytes > 0) enclosure.write(own + sizeof(Digest));
  message_bytes_[rank] = own_bytes;
  transport.SwapWithAll(own, own_bytes, messages_.data(), message_bytes_.data());
  Extremes known{mine, mine};
  for (int peer = 0; peer < size; ++peer) {
    Digest theirs;
    std::memcpy(&theirs, messages_.data() + peer * stride, sizeof(Digest));
    const int64_t expected = theirs == mine ? own_bytes : static_cast<int64_t>(sizeof(Digest));
    if (message_bytes_[peer] < expected) {
      RefuseBytes(transport.WorldRank(peer), "a request of " + std::to_string(expected) + " bytes",
                  std::to_string(message_bytes_[peer]));
    }
    CheckNotice(transport, theirs, peer);
    known.Add({theirs, theirs});
  }
  return known;
}

Decision Negotiation::Decide(Transport& transport, const RequestKey& first,
                             const Enclosure& enclosure,
                             const std::function<std::vector<RequestKey>()>& pending) {
  const bool is_to_all = transport.SwapBytes() > 0;
  const Extremes all = is_to_all ? ExtremesByMessagesToAll(transport, first.digest(), enclosure)
                                 : ExtremesByRounds(transport, first.digest());
  if (IsShutdownNotice(all.least)) {
    return {Decision::Kind::kShutdown,
            0,
            DescribeMissing(transport, first, pending().size(), all.least),
            {}};
  }
  if (all.least == all.greatest) {
    differing_.reset();
    Decision decision{Decision::Kind::kRun, 0, "", {}};
    if (is_to_all && enclosure.num_bytes > 0) {
      decision.enclosed = {messages_.data() + sizeof(Digest), transport.SwapBytes()};
    }
    return decision;
  }
  return Compare(transport, pending());
}

Decision Negotiation::Compare(Transport& transport, const std::vector<RequestKey>& pending) {
  std::vector<RankState> ranks;
  for (const auto& texts : GatherLists(transport, ToTexts({HasExpired(), pending}))) {
    ranks.push_back(RankStateOf(texts, transport.WorldRank(static_cast<int>(ranks.size()))));
  }
  // From here on everything follows from `ranks`, which is the same on every rank.
  const RequestKey* common = FirstInCommon(ranks);
  if (common != nullptr) {
    differing_.reset();
    size_t index = FindName(pending, common->name()) - pending.data();
    bool alike = std::all_of(ranks.begin(), ranks.end(), [&](const RankState& state) {
      return FindName(state.pending, common->name())->signature() == common->signature();
    });
    if (alike) return {Decision::Kind::kRun, index, "", {}};
    return {Decision::Kind::kFail, index, DescribeUnlike(transport, ranks, common->name()), {}};
  }
  bool expired = std::any_of(ranks.begin(), ranks.end(),
                             [](const RankState& state) { return state.has_expired; });
  if (!expired) return {Decision::Kind::kLookAgain, 0, "", {}};
  differing_.reset();
  return {Decision::Kind::kFail,
          0,
          DescribeStrangers(transport, ranks, waits_.timeouts.mismatch_seconds),
          {}};
}

bool Negotiation::HasExpired() {
  const auto now = CountedTime::Clock::now();
  if (!differing_) differing_.emplace(now);
  return Seconds(differing_->At(now)) > waits_.timeouts.mismatch_seconds;
}

void SendShutdownNotice(Transport& transport, ShutdownReason reason) {
  const Digest notice = ShutdownNoticeOf(transport.rank(), reason);
  const std::array<Digest, 2> extremes{notice, notice};
  const bool is_to_all = transport.SwapBytes() > 0;
  const int64_t num_bytes = is_to_all ? sizeof(notice) : sizeof(extremes);
  std::vector<int> senders, receivers;
  const auto note = [&](int to, int from) {
    receivers.push_back(to);
    senders.push_back(from);
  };
  if (is_to_all) {
    for (int peer = 0; peer < transport.size(); ++peer) {
      if (peer != transport.rank()) note(peer, peer);
    }
  } else {
    ForEachDisseminationRound(transport, note);
  }
  transport.Conclude(senders, num_bytes);
  // All that a round has this rank send, and nothing that it would receive: a rank that waits for
  // this one depends on no third rank. One that has left keeps it from no other.
  std::optional<Error> failure;
  for (int peer : receivers) {
    try {
      transport.SendRecv({peer, extremes.data(), num_bytes}, {0, nullptr, 0});
    } catch (const Error& error) {
      failure = error;
      if (error.code() == ErrorCode::kDeadlineExceeded) break;  // no limit for each of many
    }
  }
  if (failure) throw *failure;
}

void ConcludeAfterShutdown(Transport& transport) { transport.Conclude({}, 0); }

}  // namespace adasum
