#include "cc/collectives/sparse_deal.h"

#include <algorithm>
#include <string>
#include <utility>

#include "cc/collectives/parts.h"
#include "cc/collectives/refusal.h"
#include "cc/collectives/take_together.h"
#include "cc/core/bytes.h"
#include "cc/transport/gather.h"
#include "cc/transport/peer_bytes.h"

namespace adasum {
namespace {

// What a rank's text begins with, before the first row is dealt.
constexpr char kFault = 'f', kRows = 'r';

void Append(std::string* text, int64_t number) {
  text->append(reinterpret_cast<const char*>(&number), sizeof(number));
}

}  // namespace

SparseDeal::SparseDeal(const SparseAllreduceTensors& request, Transport& transport,
                       Arithmetic& arithmetic, SparseScratch& scratch)
    : request_(request),
      transport_(transport),
      arithmetic_(arithmetic),
      scratch_(scratch),
      numbers_(request.replica_counts, transport.size(),
               static_cast<int>(request.tensors[0].replicas.size())) {
  for (int rank = 0; rank < transport.size(); ++rank) {
    sent_.push_back({numbers_.CountOf(transport.rank()), {}, {}});
    received_.push_back({numbers_.CountOf(rank), {}, {}});
  }
}

void SparseDeal::Exchange() {
  for (const SparseTensor& tensor : request_.tensors) {
    for (const SparseRows& rows : tensor.replicas) {
      lists_.emplace_back(rows.indices, rows.fault.empty() ? rows.num_rows : 0);
    }
  }
  Agree();
  SwapCounts();
  AllocateTogether(transport_, "rows", [&] {
    AllocateScratch(&scratch_.sent, Place(&sent_));
    AllocateScratch(&scratch_.received, Place(&received_));
  });
  Pack();
  SwapRows();
}

std::string SparseDeal::OwnFault() const {
  for (size_t i = 0; i < lists_.size(); ++i) {
    const List list = OwnList(i);
    const SparseTensor& tensor = request_.tensors[list.tensor];
    std::string fault = tensor.replicas[list.replica].fault;
    const std::vector<int64_t>& indices = lists_[i].indices();
    if (fault.empty() && !indices.empty()) {
      const int64_t least = indices.front(), most = indices.back();
      if (least >= 0 && most < tensor.dense_rows) continue;
      fault = "index " + std::to_string(least < 0 ? least : most) + " for one of " +
              std::to_string(tensor.dense_rows) + " rows, which are 0 to " +
              std::to_string(tensor.dense_rows - 1);
    }
    if (fault.empty()) continue;
    return fault + ", in tensor " + std::to_string(list.tensor) + " of replica " +
           std::to_string(list.replica);
  }
  return "";
}

// How many rows each list has, and some of their indices.
std::string SparseDeal::OwnRows() const {
  std::string text(1, kRows);
  for (size_t i = 0; i < lists_.size(); ++i) {
    const int leaf = numbers_.FirstOf(transport_.rank()) + OwnList(i).replica;
    Append(&text, static_cast<int64_t>(lists_[i].indices().size()));
    for (int64_t index : SampleIndices(lists_[i].indices(), leaf, num_leaves())) {
      Append(&text, index);
    }
  }
  return text;
}

// All ranks see what all have: they refuse alike, and find the same borders.
void SparseDeal::Agree() {
  const std::string fault = OwnFault();
  const std::vector<std::string> texts =
      GatherTexts(transport_, fault.empty() ? OwnRows() : kFault + fault);
  std::vector<std::vector<IndexSample>> samples(request_.tensors.size());
  for (size_t rank = 0; rank < texts.size(); ++rank) {
    if (texts[rank].empty()) {
      RefuseBytes(transport_.WorldRank(static_cast<int>(rank)), "rows or a fault", "nothing");
    }
    if (texts[rank][0] == kFault) {
      RefuseOnAllRanks(transport_, "Expected indices of rows that the tensor has. Received: " +
                                       transport_.RankName(static_cast<int>(rank)) + " passed " +
                                       texts[rank].substr(1) + ". Correct the indices there.");
    }
  }
  for (size_t rank = 0; rank < texts.size(); ++rank) {
    NumberReader numbers(texts[rank], 1, transport_.WorldRank(static_cast<int>(rank)));
    const int num_replicas = received_[rank].num_replicas;
    for (size_t i = 0; i < request_.tensors.size() * num_replicas; ++i) {
      const size_t tensor = i / num_replicas;
      const int64_t dense_rows = request_.tensors[tensor].dense_rows;
      const int64_t num_rows = numbers.Next(0, dense_rows);
      const int64_t num_samples = std::min(num_rows, kMostSamples);
      received_[rank].most.push_back(num_rows);
      for (int64_t k = 0; k < num_samples; ++k) {
        samples[tensor].push_back(
            {numbers.Next(0, dense_rows - 1),
             static_cast<double>(num_rows) / static_cast<double>(num_samples)});
      }
    }
  }
  for (size_t t = 0; t < samples.size(); ++t) {
    borders_.push_back(
        BordersOf(std::move(samples[t]), transport_.size(), request_.tensors[t].dense_rows));
  }
}

Range SparseDeal::RangeOf(size_t list, int rank) const {
  const std::vector<int64_t>& borders = borders_[OwnList(list).tensor];
  return Within(lists_[list].indices(), borders[rank], borders[rank + 1]);
}

void SparseDeal::SwapCounts() {
  constexpr int64_t kBytes = sizeof(int64_t);
  const int64_t num_tensors = static_cast<int64_t>(request_.tensors.size());
  const int64_t num_own = static_cast<int64_t>(lists_.size());
  auto* const sent = static_cast<int64_t*>(scratch_.sent.Get(transport_.size() * num_own * kBytes));
  auto* const received =
      static_cast<int64_t*>(scratch_.received.Get(num_tensors * num_leaves() * kBytes));
  for (int to = 0; to < transport_.size(); ++to) {
    for (int64_t i = 0; i < num_own; ++i) sent[to * num_own + i] = RangeOf(i, to).size();
    sent_[to].counts.assign(sent + to * num_own, sent + (to + 1) * num_own);
  }
  const auto begin = [&](int rank) { return received + num_tensors * numbers_.FirstOf(rank); };
  const auto number = [&](int rank) { return num_tensors * numbers_.CountOf(rank); };
  ExchangeParts(
      transport_, [&](int to) { return Part{sent + to * num_own, num_own * kBytes}; },
      [&](int from) { return PartOfResult{begin(from), number(from) * kBytes}; });
  for (int from = 0; from < transport_.size(); ++from) {
    received_[from].counts.assign(begin(from), begin(from) + number(from));
    CheckCounts(from);
  }
}

void SparseDeal::CheckCounts(int from) const {
  const Block& block = received_[from];
  for (size_t i = 0; i < block.counts.size(); ++i) {
    if (block.counts[i] >= 0 && block.counts[i] <= block.most[i]) continue;
    RefuseBytes(transport_.WorldRank(from), "0 to " + std::to_string(block.most[i]) + " rows",
                std::to_string(block.counts[i]));
  }
}

// Ascending, each once, and of this rank's range: they say where rows go.
void SparseDeal::CheckIndices() const {
  for (int leaf = 0; leaf < num_leaves(); ++leaf) {
    for (size_t t = 0; t < borders_.size(); ++t) {
      const DealtRows rows = RowsOf(t, leaf);
      const int64_t end = borders_[t][transport_.rank() + 1];
      int64_t least = borders_[t][transport_.rank()];
      for (int64_t i = 0; i < rows.num_rows; ++i) {
        if (rows.indices[i] < least || rows.indices[i] >= end) {
          RefuseBytes(transport_.WorldRank(numbers_.RankOf(leaf)),
                      "an index from " + std::to_string(least) + " to " + std::to_string(end - 1),
                      std::to_string(rows.indices[i]));
        }
        least = rows.indices[i] + 1;
      }
    }
  }
}

int64_t SparseDeal::IndicesAt(const Block& block, size_t list) const {
  int64_t num_bytes = 0;
  for (size_t i = 0; i < list; ++i) num_bytes += block.counts[i] * sizeof(int64_t);
  return num_bytes;
}

int64_t SparseDeal::ValuesAt(const Block& block, size_t list) const {
  int64_t num_bytes = IndicesAt(block, block.counts.size());
  for (size_t i = 0; i < list; ++i) num_bytes += block.counts[i] * RowBytes(block, i);
  return num_bytes;
}

// Blocks begin at whole cache lines, so that indices and values are aligned.
int64_t SparseDeal::Place(std::vector<Block>* blocks) const {
  int64_t end = 0;
  for (Block& block : *blocks) {
    block.begin = end;
    end += InLines(Bytes(block));
  }
  return end;
}

void SparseDeal::Pack() {
  char* const sent = static_cast<char*>(scratch_.sent.Get(0));
  for (int to = 0; to < transport_.size(); ++to) {
    const Block& block = sent_[to];
    for (size_t i = 0; i < lists_.size(); ++i) {
      const Range range = RangeOf(i, to);
      std::copy(lists_[i].indices().begin() + range.begin, lists_[i].indices().begin() + range.end,
                reinterpret_cast<int64_t*>(sent + block.begin + IndicesAt(block, i)));
      lists_[i].SumRows(range, OwnRowsOf(i).values,
                        request_.tensors[OwnList(i).tensor].row_elements, request_.dtype,
                        arithmetic_, sent + block.begin + ValuesAt(block, i));
    }
  }
}

void SparseDeal::SwapRows() {
  ExchangeParts(
      transport_,
      [&](int to) { return Part{At(scratch_.sent.Get(0), sent_[to].begin), Bytes(sent_[to])}; },
      [&](int from) {
        return PartOfResult{At(scratch_.received.Get(0), received_[from].begin),
                            Bytes(received_[from])};
      });
  CheckIndices();
}

DealtRows SparseDeal::RowsOf(size_t tensor, int leaf) const {
  const Block& block = received_[numbers_.RankOf(leaf)];
  const size_t list = tensor * block.num_replicas + numbers_.ReplicaOf(leaf);
  char* const begin = At(scratch_.received.Get(0), block.begin);
  return {reinterpret_cast<const int64_t*>(begin + IndicesAt(block, list)),
          begin + ValuesAt(block, list), block.counts[list]};
}

}  // namespace adasum
