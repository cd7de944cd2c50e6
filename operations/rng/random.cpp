// SPDX-License-Identifier: Apache-2.0
#include "operations/core/enumerators.hpp"
#include "operations/core/rows.hpp"
#include "operations/cuda_build.hpp"
#include "operations/rng/random_call.hpp"

#include <limits>
#include <string>

namespace sluice {
namespace {

using operations::random_call;
using operations::random_distribution;

/// What all distributions have in common.
template <class Operation>
random_call infer_range(const Operation& op, inference& inference, random_distribution distribution,
                        element_type type) {
  const auto* const output_spec = inference.given(op.y);
  const auto& y =
      inference.result(op.y, type, operations::stated_shape(op.shape, output_spec, type));
  inference.make_contiguous(op.y);
  random_call call{.distribution = distribution,
                   .type = type,
                   .nothing = y.size() == 0,
                   .seed = op.seed.template to<std::uint64_t>("seed"),
                   .first = op.offset.template to<std::uint64_t>("offset")};
  if (call.nothing) {
    inference.ignore(op.y);
    return call;
  }
  if (y.size() - 1 > std::numeric_limits<std::uint64_t>::max() - call.first) {
    throw invalid_argument("offset", op.offset.text() + " and " + std::to_string(y.size()) +
                                         " numbers lead beyond the last one, 2^64 - 1");
  }
  call.last = call.first + (y.size() - 1);
  return call;
}

/// The type of real numbers that an operation asks for.
template <class Operation>
element_type real_type(const Operation& op, const inference& inference) {
  operations::require_type("type", op.type);
  const auto* const output_spec = inference.given(op.y);
  const auto type = op.type                  ? *op.type
                    : output_spec != nullptr ? output_spec->type
                                             : element_type::f32;
  if (type == element_type::f32 || type == element_type::f64) return type;
  throw invalid_argument(op.type ? "type" : "y",
                         "is " + std::string(to_string(type)) + ", but the numbers are f32 or f64");
}

random_call infer(const random_bits& op, inference& inference) {
  return infer_range(op, inference, random_distribution::bits, element_type::u32);
}

random_call infer(const random_uniform& op, inference& inference) {
  return infer_range(op, inference, random_distribution::uniform, real_type(op, inference));
}

random_call infer(const random_normal& op, inference& inference) {
  const auto type = real_type(op, inference);
  const auto number = [&](const scalar& value, const char* name) {
    return type == element_type::f32 ? static_cast<double>(value.to<float>(name))
                                     : value.to<double>(name);
  };
  const auto mean = number(op.mean, "mean");
  const auto stddev = number(op.stddev, "stddev");
  if (stddev < 0) throw invalid_argument("stddev", op.stddev.text() + " is negative");
  auto call = infer_range(op, inference, random_distribution::normal, type);
  call.mean = mean;
  call.stddev = stddev;
  return call;
}

template <class Operation>
void compute(const random_call& call, const launch_of<Operation>& launch) {
  if (!call.nothing) host::compute_random(call, launch.template get<void>(&Operation::y));
}
template <class Operation>
void enqueue_numbers(lane_libraries& libraries, const random_call& call,
                     const launch_of<Operation>& launch) {
  if (!call.nothing)
    cuda::enqueue_random(libraries, call, launch.template get<void>(&Operation::y));
}

template <class Operation>
const operation_descriptor& row_of_random(std::string_view name) {
  static const typed_operation_descriptor<Operation, random_call> descriptor(
      {.name = name,
       .infer = [](const Operation& op, inference& inference) { return infer(op, inference); },
       .host = {.library = "Random123"},
       .compute = compute<Operation>,
       .cuda = {.library = "cuRAND", .prepare = operations::with_cuda<cuda::prepare_random>()},
       .enqueue = operations::with_cuda<enqueue_numbers<Operation>>(),
       .can_be_captured = true});
  return descriptor;
}

}  // namespace

const operation_descriptor& descriptor_of(operation_type<random_bits>) {
  return row_of_random<random_bits>("random_bits");
}
const operation_descriptor& descriptor_of(operation_type<random_uniform>) {
  return row_of_random<random_uniform>("random_uniform");
}
const operation_descriptor& descriptor_of(operation_type<random_normal>) {
  return row_of_random<random_normal>("random_normal");
}

}  // namespace sluice
