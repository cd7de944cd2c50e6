// SPDX-License-Identifier: Apache-2.0
#include "service/arena/tensor_descriptor.hpp"

#include "service/arena/arena_fault.hpp"
#include "service/arena/region_allocator.hpp"

#include <algorithm>
#include <stdexcept>

namespace sluice::service {
namespace {

constexpr auto last_datatype = static_cast<std::uint64_t>(datatype::bf16);

/// Whether the elements of the shape have this size. No extent is negative.
[[nodiscard]] bool has_size(const tensor_descriptor& tensor) noexcept {
  if (std::find(tensor.shape.begin(), tensor.shape.end(), 0) != tensor.shape.end()) {
    return tensor.bytes == 0;
  }
  std::uint64_t size = size_of(tensor.type);
  for (const auto extent : tensor.shape) {
    if (__builtin_mul_overflow(size, static_cast<std::uint64_t>(extent), &size)) return false;
  }
  return tensor.bytes == size;
}

}  // namespace

const char* defect_of(const tensor_descriptor& tensor, arena_part part) noexcept {
  if (tensor.number >= tensor_descriptor::max_count) return "a tensor has too high a number";
  if (tensor.shape.size() > tensor_descriptor::max_rank) return "a tensor has too many axes";
  if (std::any_of(tensor.shape.begin(), tensor.shape.end(), [](auto e) { return e < 0; })) {
    return "a tensor has a negative extent";
  }
  if (!has_size(tensor)) return "the size of a tensor differs from its shape";
  if (tensor.offset % region_allocator::alignment != 0) return "a tensor is not aligned";
  if (tensor.offset < part.begin || tensor.offset - part.begin > part.bytes ||
      tensor.bytes > part.bytes - (tensor.offset - part.begin)) {
    return "a tensor lies outside of its memory";
  }
  return nullptr;
}

void append(message_words& message, const tensor_descriptor& tensor, arena_part part) {
  if (const char* defect = defect_of(tensor, part)) throw std::invalid_argument(defect);
  message.insert(message.end(),
                 {tensor.number, static_cast<std::uint64_t>(tensor.type), tensor.offset,
                  tensor.bytes, static_cast<std::uint64_t>(tensor.shape.size())});
  for (const auto extent : tensor.shape) message.push_back(static_cast<std::uint64_t>(extent));
}

tensor_descriptor read_tensor(word_reader& message, arena_part part) {
  tensor_descriptor tensor{
      .number = static_cast<std::uint32_t>(message.next_up_to(tensor_descriptor::max_count - 1)),
      .type = static_cast<datatype>(message.next_up_to(last_datatype)),
      .offset = message.next(),
      .bytes = message.next()};
  tensor.shape.resize(message.next_up_to(tensor_descriptor::max_rank));
  for (auto& extent : tensor.shape) extent = static_cast<std::int64_t>(message.next());
  if (const char* defect = defect_of(tensor, part)) throw arena_fault(defect);
  return tensor;
}

}  // namespace sluice::service
