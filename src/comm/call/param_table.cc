#include "src/comm/call/param_table.h"

namespace bps {
namespace {

std::vector<ChunkRef> chunksOf(const Cut& parameter, DataType type) {
  std::vector<ChunkRef> chunks = makeChunks(parameter, elementBytes(type));
  std::erase_if(chunks, [](const ChunkRef& chunk) { return chunk.bytes == 0; });
  return chunks;
}

}  // namespace

void ParamTable::add(Cut cut, DataType type) {
  copies_->add(chunksOf(cut, type), type);
  cuts_.push_back(std::move(cut));
}

void ParamTable::prepare(Collective& request, ParamCall param, const std::vector<bool>& owners) const {
  if (isForOwner(static_cast<CallOp>(request.call.op))) {
    for (uint32_t owner = 0; owner < owners.size(); ++owner)
      if (owners[owner]) request.chunks.push_back({owner});
  } else {
    const Cut& cut = cuts_[param.param];
    request.chunks = chunksOf(cut, static_cast<DataType>(request.call.type));
    request.window = cut.window;
  }
  param.copies = copies_;
  request.param = std::move(param);
  request.rounds = request.chunks.back().round + 1;
  request.remaining = request.chunks.size();
}

}  // namespace bps
