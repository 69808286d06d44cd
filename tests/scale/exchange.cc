#include "tests/scale/exchange.h"

#include <cmath>
#include <utility>

#include "tests/cc/check.h"
#include "tests/cc/normals.h"
#include "tests/cc/reduced_leaves.h"
#include "tests/cc/tree.h"

namespace adasum {
namespace test {
namespace {

using Vector = std::vector<double>;

Elements Draw(const Exchange& exchange, int rank, size_t tensor) {
  Normals normal(uint64_t{1000} * rank + tensor);
  Elements drawn(exchange.dtype, exchange.counts[tensor]);
  for (int64_t i = 0; i < drawn.size(); ++i) {
    const double value = normal();
    Set(exchange.dtype, drawn.bytes(), i,
        IsFloating(exchange.dtype) ? value : std::round(1000 * value));
  }
  return drawn;
}

std::vector<Vector> ValuesOf(const Exchange& exchange, const std::vector<int>& ranks,
                             size_t tensor) {
  std::vector<Vector> values;
  for (int rank : ranks) values.push_back(Draw(exchange, rank, tensor).Values());
  return values;
}

// What meets in the tree across hosts: every rank's values, or the hosts' own results.
std::vector<Vector> LeavesOf(const Exchange& exchange, const HostRanks& hosts, size_t tensor) {
  std::vector<int> all;
  std::vector<Vector> results;
  for (const std::vector<int>& ranks : hosts) {
    all.insert(all.end(), ranks.begin(), ranks.end());
    if (exchange.local_reduction.empty()) continue;
    results.push_back(
        ReduceTree(exchange.local_reduction, exchange.dtype, ValuesOf(exchange, ranks, tensor)));
  }
  return exchange.local_reduction.empty() ? ValuesOf(exchange, all, tensor) : results;
}

}  // namespace

std::string Exchange::Name() const {
  std::string name = reduction + " " + local_reduction + " " + DTypeName(dtype);
  for (int64_t count : counts) name += " " + std::to_string(count);
  return name;
}

int64_t Exchange::num_bytes() const {
  int64_t num_elements = 0;
  for (int64_t count : counts) num_elements += count;
  return num_elements * ElementBytes(dtype);
}

Part::Part(const Exchange& exchange, int rank) : exchange_(exchange) {
  for (size_t tensor = 0; tensor < exchange.counts.size(); ++tensor) {
    inputs_.push_back(Draw(exchange, rank, tensor));
    results_.emplace_back(exchange.dtype, exchange.counts[tensor]);
  }
}

AllreduceTensors Part::Tensors() {
  AllreduceTensors tensors{
      exchange_.Name(),         exchange_.reduction, exchange_.dtype, {}, {{}}, {},
      exchange_.local_reduction};
  for (size_t i = 0; i < inputs_.size(); ++i) {
    const bool is_empty = inputs_[i].size() == 0;
    tensors.shapes.push_back({inputs_[i].size()});
    tensors.inputs[0].push_back(is_empty ? nullptr : inputs_[i].bytes());
    tensors.outputs.push_back(is_empty ? nullptr : results_[i].bytes());
  }
  return tensors;
}

uint64_t Part::Digest() const {
  uint64_t digest = 0xcbf29ce484222325u;  // FNV-1a, 64 bits
  for (const Elements& result : results_) {
    for (int64_t i = 0; i < result.num_bytes(); ++i) {
      digest = (digest ^ static_cast<unsigned char>(result.bytes()[i])) * 0x100000001b3u;
    }
  }
  return digest;
}

void CheckResults(const Exchange& exchange, const HostRanks& hosts, const Part& part) {
  Scope scope(exchange.Name());
  for (size_t tensor = 0; tensor < exchange.counts.size(); ++tensor) {
    Scope of_tensor("tensor " + std::to_string(tensor));
    const std::vector<Vector> leaves = LeavesOf(exchange, hosts, tensor);
    const Vector expected = ReduceTree(exchange.reduction, exchange.dtype, leaves);
    double scale = Norm(expected);
    for (const Vector& leaf : leaves) scale = std::fmax(scale, Norm(leaf));
    CHECK_TRUE(part.results()[tensor].SurroundingsAreIntact());
    CHECK_AT_MOST(Distance(part.results()[tensor].Values(), expected),
                  Tolerance(exchange.dtype) * scale);
  }
}

}  // namespace test
}  // namespace adasum
