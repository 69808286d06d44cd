// A wire on which messages that were begun by themselves are late, each by its own time.
#ifndef ADASUM_TESTS_CC_LATE_TRANSPORT_H_
#define ADASUM_TESTS_CC_LATE_TRANSPORT_H_

#include <atomic>
#include <chrono>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <tuple>
#include <utility>

#include "cc/core/error.h"
#include "tests/cc/counting_transport.h"

namespace adasum {
namespace test {

// What is under way between all ranks. Bytes are read where the sender has them when the receiver
// asks and the message is due, and not before.
class LateWire {
 public:
  using Clock = std::chrono::steady_clock;
  // Returns by how much the message is late: its sender, its receiver, and how many the sender has
  // sent before. Any thread may call it.
  using Lateness = std::function<Clock::duration(int from, int to, int64_t number)>;
  // Never comes until LetAllCome.
  static constexpr Clock::duration kNever = std::chrono::hours(1);

  explicit LateWire(Lateness lateness) : lateness_(std::move(lateness)) {}

  // All that is under way, or will be, is there at once.
  void LetAllCome() { all_come_ = true; }
  int64_t num_under_way() {
    std::lock_guard<std::mutex> lock(mutex_);
    int64_t number = 0;
    for (const auto& [key, messages] : messages_) number += messages.size();
    return number;
  }

 private:
  friend class LateTransport;
  using Key = std::tuple<int, int, int>;  // from, to, lane
  struct Message {
    Send send;
    Clock::time_point due;
    bool is_taken = false;
  };

  class Sending : public Transfer {
   public:
    Sending(LateWire* wire, Key key, std::shared_ptr<Message> message)
        : wire_(wire), key_(key), message_(std::move(message)) {}
    ~Sending() override {
      std::lock_guard<std::mutex> lock(wire_->mutex_);
      std::deque<std::shared_ptr<Message>>& waiting = wire_->messages_[key_];
      for (auto each = waiting.begin(); each != waiting.end(); ++each) {
        if (*each == message_) {
          waiting.erase(each);
          break;
        }
      }
    }
    bool Progress() override {
      std::lock_guard<std::mutex> lock(wire_->mutex_);
      return message_->is_taken;
    }

   private:
    LateWire* wire_;
    Key key_;
    std::shared_ptr<Message> message_;
  };

  class Receiving : public Transfer {
   public:
    Receiving(LateWire* wire, Key key, const Recv& recv) : wire_(wire), key_(key), recv_(recv) {}
    bool Progress() override {
      if (is_done_) return true;
      std::lock_guard<std::mutex> lock(wire_->mutex_);
      std::deque<std::shared_ptr<Message>>& waiting = wire_->messages_[key_];
      if (waiting.empty()) return false;
      Message& message = *waiting.front();
      if (!wire_->all_come_ && Clock::now() < message.due) return false;
      if (waiting.size() > 1 || message.send.num_bytes != recv_.num_bytes) {
        throw Error(ErrorCode::kInternal, "Expected one message of this length on a lane.");
      }
      std::memcpy(recv_.bytes, message.send.bytes, recv_.num_bytes);
      message.is_taken = true;
      waiting.pop_front();
      is_done_ = true;
      return true;
    }

   private:
    LateWire* wire_;
    Key key_;
    Recv recv_;
    bool is_done_ = false;
  };

  const Lateness lateness_;
  std::atomic<bool> all_come_{false};
  std::mutex mutex_;
  std::map<Key, std::deque<std::shared_ptr<Message>>> messages_;
};

// One rank's end; all but such messages goes over `inner`.
class LateTransport : public CountingTransport {
 public:
  LateTransport(std::unique_ptr<Transport> inner, LateWire* wire)
      : CountingTransport(inner.get()), inner_(std::move(inner)), wire_(*wire) {}

  std::unique_ptr<Transfer> Start(const Send& send) override {
    auto message = std::make_shared<LateWire::Message>();
    message->send = send;
    message->due = LateWire::Clock::now() + wire_.lateness_(rank(), send.peer, num_started++);
    const LateWire::Key key{rank(), send.peer, send.lane};
    {
      std::lock_guard<std::mutex> lock(wire_.mutex_);
      wire_.messages_[key].push_back(message);
    }
    num_bytes += send.num_bytes;
    return std::make_unique<LateWire::Sending>(&wire_, key, std::move(message));
  }
  std::unique_ptr<Transfer> Start(const Recv& recv) override {
    return std::make_unique<LateWire::Receiving>(&wire_,
                                                 LateWire::Key{recv.peer, rank(), recv.lane}, recv);
  }

  int64_t num_started = 0;

 private:
  std::unique_ptr<Transport> inner_;
  LateWire& wire_;
};

}  // namespace test
}  // namespace adasum

#endif  // ADASUM_TESTS_CC_LATE_TRANSPORT_H_
