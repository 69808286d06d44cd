// Some ranks of a transport, numbered anew.
#ifndef ADASUM_TRANSPORT_SUBSET_TRANSPORT_H_
#define ADASUM_TRANSPORT_SUBSET_TRANSPORT_H_

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "cc/core/error.h"
#include "cc/core/transport.h"

namespace adasum {

// Holds no state but the numbering, so that several threads may use it where `all` lets them.
class SubsetTransport : public Transport {
 public:
  enum class Workspaces {
    kIfShared,  // for members that all share a host, or that each have one of their own
    kAsInAll,   // for any
  };
  // `members` holds ranks of `all` in the group's order, this one included; `all` must outlive
  // this. Throws Internal if this rank is no member.
  SubsetTransport(Transport* all, std::vector<int> members,
                  Workspaces workspaces = Workspaces::kIfShared)
      : all_(all), members_(std::move(members)) {
    auto self = std::find(members_.begin(), members_.end(), all_->rank());
    if (self == members_.end()) {
      throw Error(ErrorCode::kInternal,
                  "Expected a group of ranks to have " + all_->RankName(all_->rank()));
    }
    rank_ = static_cast<int>(self - members_.begin());
    if (workspaces == Workspaces::kAsInAll) {
      requires_workspace_ = all_->requires_workspace();
      return;
    }
    requires_workspace_ = std::any_of(members_.begin(), members_.end(), [&](int member) {
      return member != all_->rank() && SharesMemory(*all_, member);
    });
  }

  int rank() const override { return rank_; }
  int size() const override { return static_cast<int>(members_.size()); }
  const std::vector<int>& members() const { return members_; }

  void SendRecv(const Send& send, const Recv& recv) override {
    all_->SendRecv(Translated(send), Translated(recv));
  }
  const void* Exchange(const Send& send, const Recv& recv) override {
    return all_->Exchange(Translated(send), Translated(recv));
  }
  void Post(const Send& send, const Recv& recv) override {
    all_->Post(Translated(send), Translated(recv));
  }
  int64_t MostPosted(int peer) const override { return all_->MostPosted(members_[peer]); }
  void PairwiseBarrier(int peer) override { all_->PairwiseBarrier(members_[peer]); }
  bool HasLeft(int peer) override { return all_->HasLeft(members_[peer]); }
  int WorldRank(int peer) const override { return all_->WorldRank(members_[peer]); }
  bool CanRead(int peer) const override { return all_->CanRead(members_[peer]); }
  bool AnyCanRead(const std::vector<int>& ranks) const override {
    std::vector<int> of_all;
    for (int rank : ranks) of_all.push_back(members_[rank]);
    return all_->AnyCanRead(of_all);
  }
  int64_t ShortBytes() const override { return all_->ShortBytes(); }
  int64_t ChunkBytes(int peer) const override { return all_->ChunkBytes(members_[peer]); }
  bool SharesTensors(int peer) const override { return all_->SharesTensors(members_[peer]); }
  int64_t Locate(const void* bytes, int64_t num_bytes) const override {
    return all_->Locate(bytes, num_bytes);
  }
  void* Located(int peer, int64_t location, int64_t num_bytes) override {
    return all_->Located(members_[peer], location, num_bytes);
  }
  bool CopiesTensors(int peer) const override { return all_->CopiesTensors(members_[peer]); }
  bool LetsCopy(const std::vector<const void*>& tensors) const override {
    return all_->LetsCopy(tensors);
  }
  void Fetch(int peer, const std::vector<RemoteBytes>& parts) override {
    all_->Fetch(members_[peer], parts);
  }
  void Store(int peer, const std::vector<RemoteBytes>& parts) override {
    all_->Store(members_[peer], parts);
  }
  void LendTensors(bool are_lent) override { all_->LendTensors(are_lent); }
  // Between members of different hosts nobody reads a workspace: memory of any kind will do.
  bool requires_workspace() const override { return requires_workspace_; }
  void* Workspace(int64_t num_bytes) override { return all_->Workspace(num_bytes); }

 private:
  template <typename Message>
  Message Translated(Message message) const {
    message.peer = members_[message.peer];
    return message;
  }

  Transport* all_;
  std::vector<int> members_;
  int rank_;
  bool requires_workspace_;
};

}  // namespace adasum

#endif  // ADASUM_TRANSPORT_SUBSET_TRANSPORT_H_
