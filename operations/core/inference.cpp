// SPDX-License-Identifier: Apache-2.0
#include "operations/core/memory_order.hpp"

#include <sluice/operations/inference.hpp>

#include <algorithm>

namespace sluice {
inference::inference(std::span<use> uses, std::span<const named_operand> operands) noexcept
    : uses_(uses) {
  for (std::size_t i = 0; i < operands.size(); ++i) {
    auto& u = uses_[i];
    u.operand = operands[i];
    if (u.operand.role == member_role::output) u.access = access_kind::write;
    if (*u.operand.value) u.spec = tensor_spec::of(u.operand.value->value());
  }
}

inference::inference(std::span<use> uses, std::span<const named_operand> operands,
                     std::span<const std::optional<tensor_spec>> specs) noexcept
    : inference(uses, operands) {
  for (std::size_t i = 0; i < operands.size(); ++i) uses_[i].spec = specs[i];
}

inference::inference(std::span<use> uses, const inference& source,
                     std::span<const named_operand> operands) noexcept
    : uses_(uses) {
  for (std::size_t i = 0; i < operands.size(); ++i) {
    uses_[i] = source.uses_[i];
    uses_[i].operand = operands[i];
  }
}

inference::use& inference::use_of(const operand& operand) {
  const auto found = std::find_if(uses_.begin(), uses_.end(),
                                  [&](const use& u) { return u.operand.value == &operand; });
  if (found == uses_.end()) {
    throw error(errc::invalid_argument,
                "infer: an operand is a copy, or missing in members() of the operation");
  }
  return *found;
}

const inference::use& inference::use_of(const operand& operand) const {
  return const_cast<inference*>(this)->use_of(operand);
}

inference::use& inference::use_of_output(const operand& operand) {
  auto& u = use_of(operand);
  if (u.operand.role != member_role::output) {
    throw refusal(operand, "is an input, which infer states to be written");
  }
  return u;
}

const tensor_spec& inference::require(const operand& operand) const {
  const auto& u = use_of(operand);
  if (!u.spec) throw refusal(operand, "is not given");
  return *u.spec;
}

const tensor_spec* inference::given(const operand& operand) const {
  const auto& u = use_of(operand);
  return u.spec ? &*u.spec : nullptr;
}

void inference::ignore(const operand& operand) {
  use_of(operand).ignored = true;
}

void inference::update(const operand& output) {
  (void)require(output);
  use_of_output(output).access = access_kind::read_write;
}

void inference::allow_in_place(const operand& output, const operand& input) {
  static_assert(max_operands <= 8 * sizeof(use::in_place_of));
  const auto number = &use_of(input) - uses_.data();
  use_of_output(output).in_place_of |= std::uint64_t{1} << number;
}

void inference::couple(const operand& input, std::size_t dimension) {
  static_assert(extents::max_rank <= 8 * sizeof(use::coupled));
  auto& found = use_of(input);
  if (found.spec && dimension >= found.spec->rank()) {
    throw refusal(input, "has no dimension ", std::to_string(dimension), " to couple");
  }
  auto& coupled = found.coupled;
  coupled = static_cast<std::uint8_t>(coupled | (1U << dimension));
}

void inference::couple_from(const operand& input, std::size_t first) {
  const auto* const spec = given(input);
  for (auto d = first; spec != nullptr && d < spec->rank(); ++d) couple(input, d);
}

const tensor_spec& inference::result(const operand& output, element_type type, const extents& shape,
                                     const extents& order) {
  auto& u = use_of_output(output);
  u.stated = true;
  if (!u.spec) {
    try {
      return u.spec.emplace(operations::spec_in_order(type, shape, order));
    } catch (const error& e) {
      throw refusal(output, e.what());
    }
  }
  if (u.spec->type != type) {
    throw refusal(output, "is of type ", u.spec->type, ", but the result is of type ", type);
  }
  if (u.spec->shape != shape) {
    throw refusal(output, "has the shape ", u.spec->shape, ", but the result has the shape ",
                  shape);
  }
  if (u.spec->repeats_elements()) {
    throw refusal(output, "has the shape ", u.spec->shape, " and the strides ", u.spec->strides,
                  ", so elements of the result share memory");
  }
  return *u.spec;
}

void inference::require_results() const {
  for (const auto& u : uses_) {
    if (u.operand.role != member_role::output || u.ignored || u.stated) continue;
    throw invalid_argument(u.operand.name, "infer states no result");
  }
}

const tensor_spec& inference::pack(const operand& operand) {
  return pack(operand, require(operand).shape);
}

const tensor_spec& inference::pack(const operand& operand, const extents& shape,
                                   const extents& order) {
  auto& u = use_of(operand);
  try {
    u.spec = operations::spec_in_order(require(operand).type, shape, order);
  } catch (const error& e) {
    if (e.code() != errc::invalid_argument) throw;
    throw refusal(operand, "has no packed copy: ", e.what());
  }
  u.packed = static_cast<bool>(operand);
  return *u.spec;
}

}  // namespace sluice
