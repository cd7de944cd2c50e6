// SPDX-License-Identifier: Apache-2.0
// One number for many, and elements in order.
#include "models/operator_table.hpp"

#include <sluice/operations/cumulative.hpp>
#include <sluice/operations/elementwise.hpp>
#include <sluice/operations/reduce.hpp>
#include <sluice/operations/sort.hpp>

#include <array>
#include <limits>

namespace sluice::models {

namespace {

/// The extreme number of a type: the maximum or the minimum of no elements.
double extreme_of(element_type type, bool largest) {
  const auto pick = [&](auto least, auto most) {
    return static_cast<double>(largest ? most : least);
  };
  const auto limits = [&]<class T>(T) {
    return pick(std::numeric_limits<T>::lowest(), std::numeric_limits<T>::max());
  };
  switch (type) {
    case element_type::boolean:
      return pick(0, 1);
    case element_type::u8:
      return limits(std::uint8_t{});
    case element_type::i8:
      return limits(std::int8_t{});
    case element_type::u16:
      return limits(std::uint16_t{});
    case element_type::i16:
      return limits(std::int16_t{});
    case element_type::i32:
      return limits(std::int32_t{});
    case element_type::u32:
      return limits(std::uint32_t{});
    case element_type::i64:
    case element_type::u64:
      throw error(errc::unsupported, "an extremum of no numbers of 64 bits");
    default:
      return pick(-std::numeric_limits<double>::infinity(),
                  std::numeric_limits<double>::infinity());
  }
}

/// What a reduction that refuses no elements is in ONNX.
double without_elements(reduction kind, element_type type) {
  switch (kind) {
    case reduction::max:
      return extreme_of(type, false);
    case reduction::min:
      return extreme_of(type, true);
    case reduction::log_sum:
    case reduction::log_sum_exp:
      return -std::numeric_limits<double>::infinity();
    case reduction::l2:
      return 0;
    default:
      return std::numeric_limits<double>::quiet_NaN();
  }
}
bool has_value_without_elements(reduction kind) {
  return kind == reduction::sum || kind == reduction::product || kind == reduction::l1 ||
         kind == reduction::sum_of_squares;
}

template <reduction Kind>
results import_reduction(const node& n) {
  const auto& x = n.input(0);
  auto axes = n.integers_of(1, "axes");
  if (axes && axes->empty() && n.attribute("noop_with_empty_axes", std::int64_t{0}) == 0) {
    axes.reset();
  }
  const bool keep_dims = n.attribute("keepdims", std::int64_t{1}) != 0;
  if (!axes && n.attribute("noop_with_empty_axes", std::int64_t{0}) != 0) axes.emplace();
  if (x.size() == 0 && !has_value_without_elements(Kind)) {
    const auto shape = n.add(reduce{.x = x,
                                    .kind = reduction::any,
                                    .axes = axes ? std::optional<extents>(*axes) : std::nullopt,
                                    .keep_dims = keep_dims})
                           .shape();
    return n.add(strided_copy{
        .x = n.number(x.type(), without_elements(Kind, x.type())).broadcast_to(shape)});
  }
  const auto y = n.add(reduce{.x = x,
                              .kind = Kind,
                              .axes = axes ? std::optional<extents>(*axes) : std::nullopt,
                              .keep_dims = keep_dims});
  return n.cast_to(y, x.type());
}
template <reduction Kind>
results import_position(const node& n) {
  return n.add(reduce{.x = n.input(0),
                      .kind = Kind,
                      .axes = {n.attribute("axis", std::int64_t{0})},
                      .keep_dims = n.attribute("keepdims", std::int64_t{1}) != 0,
                      .last = n.attribute("select_last_index", std::int64_t{0}) != 0});
}
template <cumulative_kind Kind>
results import_cumulative(const node& n) {
  return n.add(cumulative{.x = n.input(0),
                          .axis = n.integer(1, "axis"),
                          .kind = Kind,
                          .exclusive = n.attribute("exclusive", std::int64_t{0}) != 0,
                          .reverse = n.attribute("reverse", std::int64_t{0}) != 0});
}
/// The number of elements is an attribute up to version 9.
results import_top_k(const node& n) {
  return n.add_all(
      top_k{.x = n.input(0),
            .k = n.opset() < 10 ? n.attribute("k", std::int64_t{0}) : n.integer(1, "K"),
            .axis = n.attribute("axis", std::int64_t{-1}),
            .largest = n.attribute("largest", std::int64_t{1}) != 0});
}

constexpr std::array reduction_entries{
    operator_entry{"ArgMax", import_position<reduction::argmax>},
    operator_entry{"ArgMin", import_position<reduction::argmin>},
    operator_entry{"CumProd", import_cumulative<cumulative_kind::product>},
    operator_entry{"CumSum", import_cumulative<cumulative_kind::sum>},
    operator_entry{"ReduceL1", import_reduction<reduction::l1>},
    operator_entry{"ReduceL2", import_reduction<reduction::l2>},
    operator_entry{"ReduceLogSum", import_reduction<reduction::log_sum>},
    operator_entry{"ReduceLogSumExp", import_reduction<reduction::log_sum_exp>},
    operator_entry{"ReduceMax", import_reduction<reduction::max>},
    operator_entry{"ReduceMean", import_reduction<reduction::mean>},
    operator_entry{"ReduceMin", import_reduction<reduction::min>},
    operator_entry{"ReduceProd", import_reduction<reduction::product>},
    operator_entry{"ReduceSum", import_reduction<reduction::sum>},
    operator_entry{"ReduceSumSquare", import_reduction<reduction::sum_of_squares>},
    operator_entry{"TopK", import_top_k},
};

}  // namespace

std::span<const operator_entry> reduction_operators() {
  return reduction_entries;
}

}  // namespace sluice::models
