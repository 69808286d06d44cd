#include "tests/cc/ranks.h"

#include "tests/cc/check.h"

namespace adasum {
namespace test {

Done Pending::done() {
  return [state = state_](const Error* error) {
    // A second call would be a second answer to TensorFlow, which ends the process.
    if (state->num_done.fetch_add(1) > 0) {
      return Fail(__FILE__, __LINE__, "a request was done for the second time");
    }
    state->promise.set_value(error == nullptr ? Ending() : Ending(*error));
  };
}

Ending Pending::Await() { return state_->promise.get_future().get(); }

void EnqueueAllreduce(Communicator& communicator, AllreduceTensors tensors, Done done) {
  try {
    Request request = AllreduceRequest(std::move(tensors));
    request.done = done;
    communicator.Enqueue(std::move(request));
  } catch (const Error& error) {
    done(&error);
  }
}

VectorRequest::VectorRequest(Communicator& communicator, const std::string& name,
                             std::vector<double> values, const std::string& reduction, DType dtype)
    : input_(std::move(values)), output_(input_.size()) {
  AllreduceTensors tensors{name,
                           reduction,
                           dtype,
                           {{static_cast<int64_t>(input_.size())}},
                           {{input_.data()}},
                           {output_.data()}};
  EnqueueAllreduce(communicator, std::move(tensors), pending_.done());
}

void CheckUsable(Ranks& ranks, const std::string& name) {
  ForEachRank(ranks.size(), [&](int rank) {
    VectorRequest request(ranks[rank], name, {1.0 * rank, 1});
    CHECK_EQ(Describe(request.Await()), "");
    CHECK_EQ(request.result()[0], ranks.size() * (ranks.size() - 1) / 2.0);
    CHECK_EQ(request.result()[1], 1.0 * ranks.size());
  });
}

void ForEachWorld(const std::vector<int>& sizes, const std::function<void(Wire, int)>& body) {
  for (Wire wire : {Wire::kCopies, Wire::kSharedMemory}) {
    for (int size : sizes) {
      Scope scope(std::string(WireName(wire)) + ", " + std::to_string(size) + " ranks");
      body(wire, size);
    }
  }
}

std::string Describe(const Ending& ending) {
  if (!ending) return "";
  const char* names[] = {"InvalidArgument",   "DeadlineExceeded", "Unavailable",
                         "ResourceExhausted", "Internal",         "Interrupted"};
  return std::string(names[static_cast<int>(ending->code())]) + ": " + ending->what();
}

bool Is(const Ending& ending, ErrorCode code) { return ending && ending->code() == code; }

bool Contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace test
}  // namespace adasum
