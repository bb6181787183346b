// ParamTable: how each parameter of a communicator is cut, and this rank's copies of its parts.
#pragma once
#include <memory>
#include <vector>

#include "src/comm/call/param_copies.h"
#include "src/plan/cutter.h"

namespace bps {

class ParamTable {
 public:
  // Adds the next parameter.
  void add(Cut cut, DataType type);
  // Cuts a request to a parameter into chunks. A request for owners has a chunk for each owner.
  void prepare(Collective& request, ParamCall param, const std::vector<bool>& owners) const;
  const std::shared_ptr<ParamCopies>& copies() const { return copies_; }

 private:
  std::vector<Cut> cuts_;
  std::shared_ptr<ParamCopies> copies_ = std::make_shared<ParamCopies>();
};

}  // namespace bps
