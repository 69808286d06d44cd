// What the algorithms ask of a wire. Implementations: threads of one process, MPI, shared memory.
#ifndef ADASUM_CORE_TRANSPORT_H_
#define ADASUM_CORE_TRANSPORT_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace adasum {

class Error;

// A lane tells apart messages between the same two ranks that belong to different leaves
// (several replicas in one process); 0 where each process has one leaf.
struct Send {
  int peer;
  const void* bytes;
  int64_t num_bytes;
  int lane = 0;
};

struct Recv {
  int peer;
  void* bytes;
  int64_t num_bytes;
  int lane = 0;
};

// Bytes of this rank's, and the address of as many in a peer's process.
struct RemoteBytes {
  void* here;
  int64_t there;
  int64_t num_bytes;
};

// Lanes between two ranks: those of 63 replicas in each process.
constexpr int kMaxLanes = 1 << 12;
// The longest message worth sending over a network.
constexpr int64_t kMessageBytes = int64_t{64} << 20;
// How much is exchanged at a time over a network if exchanges are posted ahead, and how many of
// them may be under way: all of a block. What is posted late comes late, as it waits behind the
// data that is on its way already, tens of milliseconds where queues are deep.
constexpr int64_t kPostedBytes = int64_t{2} << 20;
constexpr int64_t kMostPosted = 64;
// The longest message that SendRecv may be handed from memory that does not outlive a failure.
constexpr int64_t kOwnBytes = int64_t{16} << 10;
// So little that the number of messages is all that counts.
constexpr int64_t kShortBytes = int64_t{4} << 10;
// The longest message that goes to all at once (SwapWithAll): a short vector, and what is ahead of
// it.
constexpr int64_t kSwapBytes = kShortBytes + 64;
// What a core's cache holds of each of the things that are read and written in one chunk, where
// ranks read each other's memory.
constexpr int64_t kCachedBytes = int64_t{256} << 10;

// A message that was begun by itself. Its memory stays where it is until it is done.
class Transfer {
 public:
  // Gives up what is not done. Of a message that was never sent nothing remains; else see
  // Transport::HasAbandoned.
  virtual ~Transfer() = default;
  // True when it is done; never waits.
  virtual bool Progress() = 0;
};

// One rank's end of the wire. Used by one thread at a time. Every call returns or throws within
// the WaitControl of the transport.
class Transport {
 public:
  virtual ~Transport() = default;

  virtual int rank() const = 0;
  virtual int size() const = 0;

  // Sends and receives at the same time; returns when the received bytes are there and `send` may
  // be overwritten. A side of 0 bytes is left out, also on the peer. Where ranks read each other's
  // memory, up to ShortBytes are sent without waiting for more than the peer's taking of the last.
  // Beyond kOwnBytes both are the request's tensors, or memory of the group: see HasAbandoned.
  virtual void SendRecv(const Send& send, const Recv& recv) = 0;

  // As SendRecv with one peer, for memory as that of messages beyond kOwnBytes, but a transport
  // whose ranks can read each other's memory returns the address of the peer's bytes and leaves
  // `recv.bytes` alone; the others return recv.bytes. What is sent must stay unchanged until this
  // rank has heard from all its peers in the *next* collective step with them (the caller's
  // negotiation before each collective sees to that).
  virtual const void* Exchange(const Send& send, const Recv& recv) {
    SendRecv(send, recv);
    return recv.bytes;
  }

  // Begins an Exchange: one of the same arguments follows, behind those of what was posted before
  // and with no other call between them. It may be under way till then, while the arithmetic works.
  virtual void Post(const Send& /*send*/, const Recv& /*recv*/) {}

  // How many Exchanges with a peer are worth posting ahead; 0 where Post does nothing. Both sides
  // are told the same.
  virtual int64_t MostPosted(int /*peer*/) const { return 0; }

  // The next so many Exchanges, behind those that were announced before, need to wait for nothing
  // but what the arithmetic has been told so far: it may do what it is told later while they are
  // under way. They are the next to be made, in this order. An exchange that was not announced
  // waits for everything; so does any where arithmetic is done when its calls return.
  virtual void Announce(int64_t /*num_exchanges*/) {}

  // Begins a message that waits for no other one: it may come before those that were begun earlier,
  // or much later. No other between the two ranks that is under way has its lane, which is not 0.
  // Throws Internal where messages come in order alone.
  virtual std::unique_ptr<Transfer> Start(const Send& send);
  virtual std::unique_ptr<Transfer> Start(const Recv& recv);

  // Returns when the peer has called it too: all that it sent before is there, and all that it was
  // sent before is read.
  virtual void PairwiseBarrier(int peer);

  // Whether Exchange with the peer returns the address of its bytes.
  virtual bool CanRead(int /*peer*/) const { return false; }

  // Whether any of these ranks, of which this is one, can read another's; the same on all of them.
  virtual bool AnyCanRead(const std::vector<int>& ranks) const;

  // How many bytes at a time are best exchanged with a peer; both sides are told the same. A long
  // message is best for a network.
  virtual int64_t ChunkBytes(int /*peer*/) const { return kMessageBytes; }

  // Up to how many bytes a vector is best swapped whole, by SendRecv; the same on all ranks. 0
  // where SendRecv can't carry what is reduced.
  virtual int64_t ShortBytes() const { return 0; }

  // The longest message that SwapWithAll takes; 0 where there is no such thing. The same on all
  // ranks.
  virtual int64_t SwapBytes() const { return 0; }

  // Sends one message to every other rank and receives one of each, all at once. How long they are
  // only their senders know: rank r's is put at `received` + r * SwapBytes(), and its length in
  // num_received[r]. This rank's own places stay as they are. A SendRecv that only sends may take
  // part in another rank's SwapWithAll.
  virtual void SwapWithAll(const void* bytes, int64_t num_bytes, char* received,
                           int64_t* num_received);

  // Whether a message of any peer waits to be received; between two collectives, when none of this
  // rank's own is under way. Never waits.
  virtual bool HasArrived() { return false; }

  // Whether SendRecv with a peer takes addresses in the memory of a CUDA device, as an MPI may that
  // knows of them. What is sent must be there, and nobody may still use what is received into.
  virtual bool TakesDeviceMemory(int /*peer*/) const { return false; }

  // This rank receives nothing more: of each of `peers` one message of `num_bytes` is still to
  // come, which nobody looks at, and nothing else of anybody. Does not wait.
  virtual void Conclude(const std::vector<int>& /*peers*/, int64_t /*num_bytes*/) {}

  // Tells all others, beside the order of messages, that this rank takes part in nothing more, so
  // that their waits for it end (HasLeft). No message of this rank's follows. Waits for seconds at
  // most. Any number of calls.
  virtual void Leave() {}
  // The same where this rank fails, but for want of a peer that says nothing: whoever waits in vain
  // for the same peer finds that out by itself, and says so.
  void LeaveAfter(const Error& error);
  // The same of what a `catch (...)` handles: this rank may have no memory.
  void LeaveAfterException();

  // Whether the peer takes part in nothing more: what has not come from it never does. Never waits;
  // several threads may ask at once.
  virtual bool HasLeft(int /*peer*/) { return false; }

  // What errors call the peer: its rank in the world, which a group may number anew.
  virtual int WorldRank(int peer) const { return peer; }
  // "rank 3", with that number.
  std::string RankName(int peer) const { return "rank " + std::to_string(WorldRank(peer)); }

  // Whether bytes handed to Exchange have to lie in Workspace memory, or where Locate finds them;
  // the same on all ranks. Which peers read them there, CanRead says.
  virtual bool requires_workspace() const { return false; }

  // Whether messages were given up that the network may still read from where they were sent, or
  // write where they were to arrive: no network can take back what has begun, and a wait that has
  // no limit would be a rank that hangs. Small messages are in memory of the transport's own, which
  // it then never frees. For others whoever owns the tensors keeps them, and the group, until the
  // process ends (Error::needs_memory_kept): what arrives late then meets memory that is nobody
  // else's. What was a NumPy array is still the user's to read, and may change under their eyes.
  virtual bool HasAbandoned() const { return false; }

  // Whether this rank and the peer can read and write each other's tensors where they lie; the same
  // for all ranks of a host. It takes memory that all have mapped: Locate says of each tensor
  // whether it lies there.
  virtual bool SharesTensors(int /*peer*/) const { return false; }

  // Where peers find these bytes of this rank's; -1 where they can't.
  virtual int64_t Locate(const void* /*bytes*/, int64_t /*num_bytes*/) const { return -1; }

  // The bytes that a peer found by Locate. Throws Internal if they are not in its shared memory.
  virtual void* Located(int peer, int64_t location, int64_t num_bytes);

  // Whether this rank and the peer can copy from and to each other's tensors, wherever they lie;
  // the same for all ranks of a host.
  virtual bool CopiesTensors(int /*peer*/) const { return false; }

  // Whether peers can copy from and to the tensors of this rank's that begin at these addresses;
  // not where they lie in memory that a device's driver has mapped, as pinned memory may. Where
  // peers see them mapped they can.
  virtual bool LetsCopy(const std::vector<const void*>& /*tensors*/) const { return false; }

  // Copies from a peer's memory here, and from here to the peer's, which has lent it. Several
  // threads may do so at once. Throw Internal where the system refuses, as it does when the peer's
  // process has ended.
  virtual void Fetch(int peer, const std::vector<RemoteBytes>& parts);
  virtual void Store(int peer, const std::vector<RemoteBytes>& parts);

  // Whether peers may write from now on where this rank has located tensors, or told addresses. A
  // collective that fails meanwhile leaves them abandoned: a peer that was stopped may go on
  // writing.
  virtual void LendTensors(bool /*are_lent*/) {}

  // Every rank has come to a new collective: nobody reads a workspace of an earlier one any more.
  virtual void Begin() {}

  // Memory of at least `num_bytes` that Exchange can send from, owned by the transport and kept
  // until the next call; only for transports that require it. Throws Internal elsewhere.
  virtual void* Workspace(int64_t num_bytes);
};

// Whether this rank and the peer read each other's workspaces in place.
bool SharesMemory(const Transport& transport, int peer);
// Whether every two ranks do; the same on all ranks.
bool AllShareMemory(const Transport& transport);
// Whether every two ranks share tensors, or copy them; the same on all ranks.
bool AllShareTensors(const Transport& transport);
bool AllCopyTensors(const Transport& transport);
// Whether there are peers, and none whose memory anybody can read: then received bytes lie where
// they were wanted, and exchanges may be posted. The same on all ranks.
bool IsNetworkOnly(const Transport& transport);

}  // namespace adasum

#endif  // ADASUM_CORE_TRANSPORT_H_
