// ParamStore: the parts of the parameters of a job that one owner keeps (asynchronous training, BytePS paper, section
// 5).
//
// A part is what one chunk carries. It begins when its initial value is set. Each push adds the change of one machine
// to it: widened to float for narrow types, with one rounding to the type of the parameter. So the value of a part is
// the initial value plus all changes, in the order in which the owner got them. A part counts the pushes of each
// machine.
//
// If the owner of a part is lost, another one takes it over. Every machine then restores the part: it sends the value
// that it has pulled last. The newest of them is the value of the part, which is served when all machines have sent
// theirs. A push that the new owner gets again, and that the value contains, is not added twice.
//
// If a machine is lost in the middle of a push, some parts of the parameter contain this push and others do not. So a
// store keeps the last change of each machine to a part, and can take it back, exact but for rounding.
//
// A ParamStore belongs to the ParamService of one owner, which uses it on one thread.
#pragma once
#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <utility>
#include <vector>

#include "cpu_reduce/reduce.h"
#include "src/base/memory.h"
#include "src/base/status.h"
#include "src/wire/data_header.h"

namespace bps {

class ParamStore {
 public:
  struct Part {
    DataType type = DataType::kFloat32;
    uint32_t count = 0;  // elements
    PageBuffer value;
    ParamClock clock;
    std::vector<bool> awaits;  // of a restored part: the machines that have not sent their value
    bool restored = false;     // the part was taken over from another owner
    // The last change of each machine, if the parameter has several parts: it can be taken back.
    std::vector<PageBuffer> last;

    size_t bytes() const { return count * elementBytes(type); }
    size_t memory() const { return roundUp(bytes() + 1, kPageBytes); }  // of a value or a change
  };
  // Asks for memory of a new part. Fails if the owner has none for it.
  using Reserve = std::function<Status(size_t bytes)>;
  ParamStore(size_t machines, int threads, Reserve reserve = {})
      : machines_(machines), threads_(threads), reserve_(std::move(reserve)) {}

  // Sets the value of a part, and makes the part if it does not exist. Its clocks do not change. `data` has the size
  // of the part.
  Result<Part*> set(const CallInfo& call, const ParamPart& part, const void* data);
  // Fails if the part does not exist or has another type or size: the sender broke the protocol.
  Result<Part*> find(const CallInfo& call, const ParamPart& part);
  bool contains(const ParamPart& part) const { return parts_.contains({part.param, part.offset}); }
  // Takes the machine's value of a part that this owner takes over. `data` is null if the machine has none.
  Result<Part*> restore(const CallInfo& call, const ParamPart& part, size_t machine, const ParamClock& clock,
                        const void* data);
  // Adds a change of the machine. Fails if the push is not the machine's next one.
  Status add(Part& place, const ParamPart& part, size_t machine, const void* change);
  // Takes back a push of the machine if it is its last one.
  void undo(Part& place, size_t machine, uint32_t push);

  size_t bytes() const { return bytes_; }
  // The memory that a part needs besides its value and changes.
  size_t overhead() const { return 2 * sizeof(Part) + machines_ * (sizeof(uint32_t) + sizeof(PageBuffer)); }

  // Learns all initial values and changes of all stores of the process, each before it is added. For tests.
  class Observer {
   public:
    virtual ~Observer() = default;
    virtual void onSet(const ParamStore& store, const ParamPart& part, const Part& place, const void* data) = 0;
    virtual void onAdd(const ParamStore& store, const ParamPart& part, size_t machine, const void* change) = 0;
  };
  static void setObserver(Observer* observer) { observer_.store(observer); }

 private:
  const size_t machines_;
  const int threads_;
  Reserve reserve_;
  static inline std::atomic<Observer*> observer_{nullptr};
  Result<Part*> make(const CallInfo& call, const ParamPart& part);
  Status keepLast(Part& place, size_t machine, const void* change);
  void combine(Part& place, const void* change, const ScalarBits* factors) const;

  std::map<std::pair<uint32_t, uint64_t>, Part> parts_;  // by parameter and offset
  size_t bytes_ = 0;
};

}  // namespace bps
