#include "tests/cuda_stand_in/streams.h"

#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <set>
#include <string>
#include <thread>

#include "tests/cuda_stand_in/devices.h"

// One mutex for all streams and events: they are few, and this is about order.
namespace cuda_stand_in {
namespace {

using Work = std::function<void(int)>;

std::mutex mutex;
// For those that wait for a whole device, whose streams may end meanwhile.
std::condition_variable device_changed;
int num_device_waiters = 0;

enum class When { kSoon, kSlow, kLate };

When TheWhen() {
  static const When when = [] {
    const char* text = std::getenv("CUDA_STAND_IN");
    if (text == nullptr || std::strcmp(text, "soon") == 0) return When::kSoon;
    if (std::strcmp(text, "slow") == 0) return When::kSlow;
    if (std::strcmp(text, "late") == 0) return When::kLate;
    Die("expected CUDA_STAND_IN to be soon, slow or late");
  }();
  return when;
}

void Dawdle(std::mt19937* random) {
  const When when = TheWhen();
  if (when == When::kSlow) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  if (when != When::kSoon || (*random)() % 4 != 0) return;
  std::this_thread::sleep_for(std::chrono::microseconds((*random)() % 200));
}

}  // namespace
}  // namespace cuda_stand_in

struct CUstream_st {
  int device;
  std::deque<cuda_stand_in::Work> waiting;
  // Counted from the stream's beginning.
  int64_t num_put = 0, num_done = 0, num_wanted = 0;
  bool is_ending = false;
  // For the stream's thread, and for those that wait for what it does. One for all streams would
  // wake dozens of threads at every kernel.
  std::condition_variable to_do, done;
  std::thread thread;
};

namespace cuda_stand_in {
namespace {

// A place in a stream. The stream outlives it or has done everything.
struct Record {
  CUstream_st* stream;
  int64_t number;
  bool is_done = false;
  std::condition_variable done;

  Record(CUstream_st* stream, int64_t number) : stream(stream), number(number) {}
};

}  // namespace
}  // namespace cuda_stand_in

struct CUevent_st {
  int device;
  std::shared_ptr<cuda_stand_in::Record> newest;  // null as long as nothing was recorded
};

namespace cuda_stand_in {
namespace {

// Of this process, to wait for a whole device.
std::set<CUstream_st*>& Streams() {
  static auto* streams = new std::set<CUstream_st*>;
  return *streams;
}

// Under the mutex from here on.
int64_t Put(CUstream_st* stream, Work work) {
  stream->waiting.push_back(std::move(work));
  stream->to_do.notify_one();
  return ++stream->num_put;
}

void Want(CUstream_st* stream, int64_t number) {
  if (stream->num_wanted >= number) return;
  stream->num_wanted = number;
  stream->to_do.notify_one();
}

void AwaitAll(std::unique_lock<std::mutex>& lock, CUstream_st* stream) {
  const int64_t all = stream->num_put;
  Want(stream, all);
  stream->done.wait(lock, [=] { return stream->num_done >= all; });
}

void Run(CUstream_st* stream) {
  std::mt19937 random(std::random_device{}());
  std::unique_lock<std::mutex> lock(mutex);
  for (;;) {
    stream->to_do.wait(lock, [=] {
      if (stream->waiting.empty()) return stream->is_ending;
      return TheWhen() != When::kLate || stream->num_done < stream->num_wanted;
    });
    if (stream->waiting.empty()) return;
    Work work = std::move(stream->waiting.front());
    stream->waiting.pop_front();
    lock.unlock();
    Dawdle(&random);
    work(stream->device);
    work = nullptr;
    lock.lock();
    ++stream->num_done;
    stream->done.notify_all();
    if (num_device_waiters > 0) device_changed.notify_all();
  }
}

}  // namespace

void Enqueue(cudaStream_t stream, Work work) {
  std::lock_guard<std::mutex> lock(mutex);
  Put(stream, std::move(work));
}

cudaStream_t DefaultStream() {
  static std::mutex making;
  static auto* of_device = new std::map<int, cudaStream_t>;
  std::lock_guard<std::mutex> lock(making);
  cudaStream_t& stream = (*of_device)[CurrentDevice()];
  if (stream == nullptr) cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
  return stream;
}

}  // namespace cuda_stand_in

using namespace cuda_stand_in;

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) {
  if (flags != cudaStreamNonBlocking) Die("expected streams apart from the default one");
  *stream = new CUstream_st;
  (*stream)->device = CurrentDevice();
  std::lock_guard<std::mutex> lock(mutex);
  Streams().insert(*stream);
  (*stream)->thread = std::thread(&Run, *stream);
  return cudaSuccess;
}

cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  {
    std::unique_lock<std::mutex> lock(mutex);
    AwaitAll(lock, stream);
    stream->is_ending = true;
    Streams().erase(stream);
    stream->to_do.notify_one();
    device_changed.notify_all();
  }
  stream->thread.join();
  delete stream;
  return cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  if (stream == nullptr) stream = DefaultStream();
  std::unique_lock<std::mutex> lock(mutex);
  AwaitAll(lock, stream);
  return cudaSuccess;
}

cudaError_t cudaDeviceSynchronize() {
  std::unique_lock<std::mutex> lock(mutex);
  ++num_device_waiters;
  const std::set<CUstream_st*> streams = Streams();
  for (CUstream_st* stream : streams) {
    if (Streams().count(stream) == 0 || stream->device != CurrentDevice()) continue;
    const int64_t all = stream->num_put;
    Want(stream, all);
    device_changed.wait(lock,
                        [=] { return Streams().count(stream) == 0 || stream->num_done >= all; });
  }
  --num_device_waiters;
  return cudaSuccess;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) {
  *event = new CUevent_st{CurrentDevice(), nullptr};
  return cudaSuccess;
}

cudaError_t cudaEventDestroy(cudaEvent_t event) {
  delete event;
  return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  if (event->device != stream->device) Die("an event recorded in a stream of another device");
  auto record = std::make_shared<Record>(stream, 0);
  std::lock_guard<std::mutex> lock(mutex);
  record->number = Put(stream, [record](int) {
    std::lock_guard<std::mutex> done(mutex);
    record->is_done = true;
    record->done.notify_all();
  });
  event->newest = record;
  return cudaSuccess;
}

cudaError_t cudaEventQuery(cudaEvent_t event) {
  std::lock_guard<std::mutex> lock(mutex);
  if (event->newest == nullptr || event->newest->is_done) return cudaSuccess;
  Want(event->newest->stream, event->newest->number);
  return cudaErrorNotReady;
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  std::lock_guard<std::mutex> lock(mutex);
  const std::shared_ptr<Record> record = event->newest;
  if (record == nullptr) return cudaSuccess;
  Put(stream, [record](int) {
    std::unique_lock<std::mutex> waiting(mutex);
    if (record->is_done) return;
    Want(record->stream, record->number);
    record->done.wait(waiting, [&] { return record->is_done; });
  });
  return cudaSuccess;
}

cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void* argument) {
  Enqueue(stream, [=](int) { function(argument); });
  return cudaSuccess;
}
