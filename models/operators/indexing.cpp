// SPDX-License-Identifier: Apache-2.0
// Elements whose places other tensors state.
#include "models/operator_table.hpp"

#include <sluice/operations/binary.hpp>
#include <sluice/operations/elementwise.hpp>
#include <sluice/operations/gather.hpp>
#include <sluice/operations/movement.hpp>
#include <sluice/operations/scatter.hpp>

#include <array>

namespace sluice::models {

namespace {

results import_gather(const node& n) {
  return n.add(
      gather{.x = n.input(0), .indices = n.input(1), .axis = n.attribute("axis", std::int64_t{0})});
}
results import_gather_elements(const node& n) {
  return n.add(gather_elements{
      .x = n.input(0), .indices = n.input(1), .axis = n.attribute("axis", std::int64_t{0})});
}
results import_gather_nd(const node& n) {
  return n.add(gather_nd{.x = n.input(0),
                         .indices = n.input(1),
                         .batch_dims = n.attribute("batch_dims", std::int64_t{0})});
}

scatter_combine combine_of(const node& n) {
  const auto reduction = n.attribute("reduction", "none");
  if (reduction == "none") return scatter_combine::set;
  if (reduction == "add") return scatter_combine::add;
  if (reduction == "mul") return scatter_combine::multiply;
  if (reduction == "min") return scatter_combine::minimum;
  if (reduction == "max") return scatter_combine::maximum;
  throw n.refusal("reduction", "is '" + reduction + "'");
}
results import_scatter_elements(const node& n) {
  return n.add(scatter_elements{.x = n.input(0),
                                .indices = n.input(1),
                                .updates = n.input(2),
                                .axis = n.attribute("axis", std::int64_t{0}),
                                .combine = combine_of(n)});
}
results import_scatter_nd(const node& n) {
  return n.add(scatter_nd{
      .x = n.input(0), .indices = n.input(1), .updates = n.input(2), .combine = combine_of(n)});
}
/// A cache with new elements from an index on, one for each batch, or around its end.
results import_tensor_scatter(const node& n) {
  const auto& cache = n.input(0);
  const auto& update = n.input(1);
  const auto axis = n.dimension(n.attribute("axis", std::int64_t{-2}), cache.rank());
  extents along;
  for (std::size_t i = 0; i < cache.rank(); ++i) along.push_back(i == axis ? -1 : 1);
  auto indices =
      n.add(range{.limit = update.extent(axis), .type = element_type::i64}).reshape(along);
  if (n.has_input(2)) {
    extents batch = along;
    batch[axis] = 1;
    batch[0] = -1;
    indices = n.add(add(indices, n.cast_to(n.input(2), element_type::i64).reshape(batch)));
  }
  if (n.attribute("mode", "linear") == "circular") {
    const auto extent = static_cast<double>(cache.extent(axis));
    indices = n.add(remainder(indices, n.number(element_type::i64, extent)));
  }
  return n.add(scatter_elements{.x = cache,
                                .indices = indices.broadcast_to(update.shape()),
                                .updates = update,
                                .axis = static_cast<std::int64_t>(axis)});
}
/// The numbers of both kinds are the elements of the third input.
results import_one_hot(const node& n) {
  auto indices = n.input(0);
  if (indices.type() != element_type::i32) indices = n.cast_to(indices, element_type::i64);
  const auto depth = n.reals(1, "depth");
  if (depth.size() != 1 || !(depth.front() >= 0 && depth.front() < 0x1p53)) {
    throw n.refusal("depth", "is not one number of at least 0");
  }
  const auto hot = n.add(one_hot{.indices = indices,
                                 .depth = static_cast<std::int64_t>(depth.front()),
                                 .axis = n.attribute("axis", std::int64_t{-1}),
                                 .type = element_type::boolean});
  const auto& numbers = n.input(2);
  if (numbers.rank() != 1 || numbers.size() != 2) throw n.refusal("values", "are not two numbers");
  return n.add(where{.condition = hot, .a = numbers.select(0, 1), .b = numbers.select(0, 0)});
}

constexpr std::array indexing_entries{
    operator_entry{"Gather", import_gather},
    operator_entry{"GatherElements", import_gather_elements},
    operator_entry{"GatherND", import_gather_nd},
    operator_entry{"OneHot", import_one_hot},
    operator_entry{"Scatter", import_scatter_elements},
    operator_entry{"ScatterElements", import_scatter_elements},
    operator_entry{"ScatterND", import_scatter_nd},
    operator_entry{"TensorScatter", import_tensor_scatter},
};

}  // namespace

std::span<const operator_entry> indexing_operators() {
  return indexing_entries;
}

}  // namespace sluice::models
