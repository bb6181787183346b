#include "src/service/answer_sender.h"

#include <utility>

namespace bps {

Result<std::unique_ptr<AnswerSender>> AnswerSender::create(std::unique_ptr<net::Comm> answer, size_t depth,
                                                           const PageBuffer& results, size_t headerBytes) {
  std::unique_ptr<AnswerSender> answers(new AnswerSender(std::move(answer), depth, headerBytes));
  answers->headerBytes_ = BPS_TRY(PageBuffer::create(depth * headerBytes));
  net::Comm& comm = answers->comm();
  answers->memory_ = BPS_TRY(comm.registerMemory(results.data(), results.size()));
  answers->headerMemory_ = BPS_TRY(comm.registerMemory(answers->headerBytes_.data(), answers->headerBytes_.size()));
  return answers;
}

void AnswerSender::push(const uint8_t* payload, size_t bytes, std::optional<uint32_t> checksum,
                        std::optional<ParamClock> clock) {
  DataHeader header;
  header.sequence = DataHeader::sequenceForChunk(pushed_);
  header.payload = checksum;
  header.clock = std::move(clock);
  uint8_t* slot = headerBytes_.data() + pushed_ % depth_ * slotBytes_;
  const size_t size = encode(header, {slot, slotBytes_});
  queue_.push({slot, size, headerMemory_});
  queue_.push({const_cast<uint8_t*>(payload), bytes, memory_});
  bytesPushed_ += bytes;
  ++pushed_;
}

}  // namespace bps
