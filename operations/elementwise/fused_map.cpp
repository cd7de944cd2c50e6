// SPDX-License-Identifier: Apache-2.0
#include "operations/elementwise/fused_map.hpp"

#include "operations/elementwise/layouts.hpp"
#include "operations/elementwise/map_functions.hpp"

#include <sluice/operations/elementwise.hpp>

#include <algorithm>
#include <type_traits>

namespace sluice::operations {
namespace {

/// The call of a step of `Operation`, if it is one.
template <class Operation, class Call>
bool take_call(const operation_descriptor& descriptor, const call_storage& storage,
               std::optional<fused_call>& result) {
  if (dynamic_cast<const map_descriptor<Operation, Call>*>(&descriptor) == nullptr) return false;
  const auto& call = *reinterpret_cast<const map_call<Call>*>(storage.bytes.data());
  if (call.layout.count != 0) result = static_cast<const Call&>(call);
  return true;
}

template <int Operands>
bool same_layout(const map_layout<Operands>& a, const map_layout<Operands>& b) noexcept {
  if (a.count != b.count || a.rank != b.rank) return false;
  for (int k = 0; k < Operands; ++k) {
    if (a.types[k] != b.types[k] || !std::equal(a.strides[k], a.strides[k] + a.rank, b.strides[k]))
      return false;
  }
  return std::equal(a.shape, a.shape + a.rank, b.shape);
}

extents zero_strides(std::size_t rank) {
  extents result;
  for (std::size_t d = 0; d < rank; ++d) result.push_back(0);
  return result;
}

/// The ways in which an input may be read along the dimensions of `shape`: repeated as in NumPy,
/// or along one dimension.
std::vector<extents> ways_to_read(const tensor_spec& input, const extents& shape) {
  std::vector<extents> ways;
  if (input.rank() <= shape.size()) {
    auto strides = zero_strides(shape.size());
    bool fits = true;
    for (std::size_t i = 0; i < input.rank(); ++i) {
      const auto d = shape.size() - input.rank() + i;
      if (input.shape[i] == 1) continue;
      fits = fits && input.shape[i] == shape[d];
      strides[d] = input.strides[i];
    }
    if (fits) ways.push_back(strides);
  }
  if (input.rank() != 1) return ways;
  for (std::size_t d = 0; d + 1 < shape.size(); ++d) {
    if (shape[d] != input.shape[0]) continue;
    auto strides = zero_strides(shape.size());
    strides[d] = input.strides[0];
    ways.push_back(strides);
  }
  return ways;
}

}  // namespace

storage fused_map::function::type() const {
  return std::visit([](const auto& c) { return c.layout.types[0]; }, call);
}

void fused_map::place() {
  const auto values = inputs + functions.size();
  std::vector<std::size_t> last(values, 0);  // the last function that reads it
  for (std::size_t i = 0; i < functions.size(); ++i) {
    for (const auto argument : functions[i].arguments) {
      if (argument != none) last[argument] = i;
    }
  }
  places.assign(values, 0);
  bytes = 0;
  // An input may be the same in the next block, so it keeps its memory.
  for (std::size_t v = 0; v < inputs; ++v) {
    places[v] = static_cast<std::uint16_t>(bytes);
    bytes += 16;  // aligned for all types
  }
  const auto first_free = bytes;
  std::vector<bool> used;
  for (std::size_t i = 0; i < functions.size(); ++i) {
    const auto value = inputs + i;
    const auto slots = used.size();
    std::size_t slot = 0;
    // A function works in place on an argument of the type of its result that nothing else reads.
    const auto& arguments = functions[i].arguments;
    const auto in_place = std::find_if(arguments.begin(), arguments.end(), [&](std::uint8_t v) {
      return v != none && v >= inputs && last[v] == i && type_of(v) == type_of(value);
    });
    if (in_place != arguments.end()) {
      slot = (places[*in_place] - first_free) / 16U;
      last[*in_place] = functions.size();  // its memory is that of the result
    } else {
      while (slot < slots && used[slot]) ++slot;
    }
    if (slot == slots) used.push_back(false);
    used[slot] = true;
    places[value] = static_cast<std::uint16_t>(first_free + 16 * slot);
    // Free for the results of later functions.
    for (std::size_t v = inputs; v <= value; ++v) {
      if (last[v] == i) used[(places[v] - first_free) / 16] = false;
    }
  }
  bytes += 16 * used.size();
  // All values are as large as the largest one, or smaller.
  std::size_t largest = 1;
  for (std::size_t v = 0; v < values; ++v) {
    largest = std::max(largest, static_cast<std::size_t>(bytes_of(type_of(v))));
  }
  bytes = bytes / 16 * largest;
  for (auto& p : places) p = static_cast<std::uint16_t>(p / 16 * largest);
}

std::size_t fused_map::host_bytes() const noexcept {
  return sizeof(*this) + functions.capacity() * sizeof(function) +
         places.capacity() * sizeof(places[0]);
}

std::optional<fused_call> fused_call_of(const operation_descriptor& descriptor,
                                        const call_storage& call) {
  std::optional<fused_call> result;
  (void)(take_call<unary, unary_call>(descriptor, call, result) ||
         take_call<binary, binary_call>(descriptor, call, result) ||
         take_call<affine, affine_call>(descriptor, call, result) ||
         take_call<cast, cast_call>(descriptor, call, result) ||
         take_call<strided_copy, copy_call>(descriptor, call, result) ||
         take_call<where, where_call>(descriptor, call, result));
  return result;
}

std::size_t inputs_of(const fused_call& call) {
  return std::visit([](const auto& c) { return std::size(c.layout.types) - 1; }, call);
}

std::optional<std::array<extents, fused_map::max_arguments>> input_strides(
    const fused_call& call, const tensor_spec& y,
    std::span<const std::optional<tensor_spec>> inputs) {
  // What the call does with memory is stated by its layout: one of the ways leads to it.
  std::array<std::vector<extents>, fused_map::max_arguments> ways;
  for (std::size_t k = 0; k < ways.size(); ++k) {
    const bool is_given = k < inputs.size() && inputs[k];
    ways[k] = is_given ? ways_to_read(*inputs[k], y.shape) : std::vector{zero_strides(y.rank())};
  }
  return std::visit(
      [&](const auto& c) -> std::optional<std::array<extents, fused_map::max_arguments>> {
        constexpr auto count = std::size(decltype(c.layout.types){});
        std::array<extents, count> strides;
        strides[0] = y.strides;
        std::array<element_type, count> types;
        for (std::size_t k = 0; k < count; ++k) {
          types[k] = static_cast<element_type>(c.layout.types[k]);
        }
        for (const auto& a : ways[0]) {
          for (const auto& b : ways[1]) {
            for (const auto& d : ways[2]) {
              const std::array chosen{a, b, d};
              for (std::size_t k = 1; k < count; ++k) strides[k] = chosen[k - 1];
              if (same_layout(make_layout<count>(y.shape, strides, types), c.layout)) return chosen;
            }
          }
        }
        return std::nullopt;
      },
      call);
}

fused_call flattened(const fused_call& call) {
  auto result = call;
  std::visit(
      [](auto& c) {
        auto& layout = c.layout;
        layout.rank = 1;
        layout.count = layout.shape[0] = 1;
        for (auto& strides : layout.strides) strides[0] = 1;
        if constexpr (requires { c.number; }) {
          if (const int operand = c.operand_of_number(); operand != 0)
            layout.strides[operand][0] = 0;
        }
      },
      result);
  return result;
}

}  // namespace sluice::operations
