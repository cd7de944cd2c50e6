// SPDX-License-Identifier: Apache-2.0
#include "service/worker/warm_up.hpp"

#include "service/worker/element_types.hpp"

#include <algorithm>
#include <cstddef>
#include <memory>
#include <random>
#include <span>
#include <stdexcept>
#include <type_traits>

namespace sluice::service {
namespace {

constexpr std::size_t most_bytes = std::size_t{1} << 30U;

/// The elements of an input.
using input_bytes = std::span<std::byte>;

template <class T>
void fill_range(input_bytes bytes, std::mt19937& generator) {
  std::generate_n(reinterpret_cast<T*>(bytes.data()), bytes.size() / sizeof(T), [&] {
    if constexpr (std::is_floating_point_v<T>) {
      return std::uniform_real_distribution<T>()(generator);
    } else {
      return static_cast<T>(generator() & 1U);
    }
  });
}

/// Random bits of numbers in [0, 1) of 16 bits: those below that of 1.
void fill_bits(input_bytes bytes, std::uint16_t one, std::mt19937& generator) {
  std::uniform_int_distribution<std::uint32_t> bits(0, one - 1U);
  std::generate_n(reinterpret_cast<std::uint16_t*>(bytes.data()), bytes.size() / 2,
                  [&] { return static_cast<std::uint16_t>(bits(generator)); });
}

void fill_randomly(input_bytes bytes, datatype type) {
  std::mt19937 generator(1);  // the same numbers each time
  switch (type) {
    case datatype::boolean:
    case datatype::uint8:
    case datatype::int8:
      return fill_range<std::uint8_t>(bytes, generator);
    case datatype::uint16:
    case datatype::int16:
      return fill_range<std::uint16_t>(bytes, generator);
    case datatype::uint32:
    case datatype::int32:
      return fill_range<std::uint32_t>(bytes, generator);
    case datatype::uint64:
    case datatype::int64:
      return fill_range<std::uint64_t>(bytes, generator);
    case datatype::fp16:
      return fill_bits(bytes, 0x3c00, generator);
    case datatype::bf16:
      return fill_bits(bytes, 0x3f80, generator);
    case datatype::fp32:
      return fill_range<float>(bytes, generator);
    case datatype::fp64:
      return fill_range<double>(bytes, generator);
  }
}

}  // namespace

std::vector<prepared_warm_up> make_warm_ups(const std::vector<warm_up_order>& orders) {
  std::size_t bytes_left = most_bytes;
  std::vector<prepared_warm_up> made;
  for (const auto& order : orders) {
    auto& prepared = made.emplace_back();
    prepared.name = order.name;
    prepared.count = order.count;
    for (const auto& input : order.inputs) {
      extents shape;
      for (const auto extent : input.shape) shape.push_back(extent);
      const auto type = element_type_of(input.type);
      const auto bytes = tensor_spec::row_major(type, shape).bytes();
      if (bytes > bytes_left)
        throw std::runtime_error("the warm-ups have more than 1 GiB of inputs");
      bytes_left -= bytes;
      const auto zeros =
          std::make_shared<std::vector<std::max_align_t>>(bytes / sizeof(std::max_align_t) + 1);
      auto* const first = reinterpret_cast<std::byte*>(zeros->data());
      if (input.is_random) fill_randomly({first, bytes}, input.type);
      prepared.inputs.emplace(input.name, host_tensor::external({zeros, first}, type, shape));
    }
  }
  return made;
}

}  // namespace sluice::service
