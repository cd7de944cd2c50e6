// SPDX-License-Identifier: Apache-2.0
#include "operations/executor/packing.hpp"

#include <sluice/operations/elementwise.hpp>

namespace sluice::operations {
namespace {

const operation_descriptor& copy_descriptor() {
  return descriptor_of(operation_type<strided_copy>{});
}

}  // namespace

packing::copy::copy(const tensor& from, const tensor& to)
    : addresses_{from.address(), to.address()} {
  strided_copy whole{.x = from, .y = to};
  inference_of<detail::operand_count<strided_copy>()> inferred(detail::operands_of(whole));
  copy_descriptor().infer(&whole, inferred, call_);
}

void packing::copy::enqueue(lane_libraries& libraries) const {
  copy_descriptor().enqueue(libraries, call_, {.addresses = addresses_});
}

std::size_t packing::copy::commands() const noexcept {
  return copy_descriptor().facts(call_).commands;
}

void packing::add(const tensor& value, const tensor& packed, access_kind access) {
  if (access != access_kind::write) {
    before_.emplace_back(value.broadcast_to(packed.shape()), packed);
    commands_ += before_.back().commands();
  }
  if (access != access_kind::read) {
    after_.emplace_back(packed, value);
    commands_ += after_.back().commands();
  }
}

}  // namespace sluice::operations
