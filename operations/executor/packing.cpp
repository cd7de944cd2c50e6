// SPDX-License-Identifier: Apache-2.0
#include "operations/executor/packing.hpp"

#include <sluice/operations/elementwise.hpp>

namespace sluice::operations {
namespace {

const operation_descriptor& copy_operation() {
  return descriptor_of(operation_type<strided_copy>{});
}

}  // namespace

packing::copy::copy(const tensor& source, const tensor& target)
    : addresses_{source.address(), target.address()} {
  strided_copy operation{.x = source, .y = target};
  inference_for<strided_copy> inferred(detail::operands_of(operation));
  copy_operation().infer(&operation, inferred, call_);
}

void packing::copy::enqueue(lane_libraries& libraries) const {
  copy_operation().enqueue(libraries, call_, {.addresses = addresses_});
}

std::size_t packing::copy::commands() const noexcept {
  return copy_operation().facts(call_).commands;
}

void packing::add(const tensor& value, const tensor& packed, access_kind access) {
  if (access != access_kind::write) {
    inputs_.emplace_back(value.broadcast_to(packed.shape()), packed);
    commands_ += inputs_.back().commands();
  }
  if (access != access_kind::read) {
    outputs_.emplace_back(packed, value);
    commands_ += outputs_.back().commands();
  }
}

}  // namespace sluice::operations
