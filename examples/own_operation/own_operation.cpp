// SPDX-License-Identifier: Apache-2.0
#include <sluice/actors/device.hpp>
#include <sluice/actors/spawn_operations.hpp>

#include <iostream>

using namespace sluice;

/// y = a · x + y for contiguous f32.
struct saxpy {
  operand x{};
  scalar a = 1;
  operand y{};
  static constexpr auto members() {
    return std::make_tuple(input("x", &saxpy::x), parameter("a", &saxpy::a),
                           output("y", &saxpy::y));
  }
};
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(saxpy)

struct saxpy_call {
  std::size_t count;
  float a;
};

saxpy_call infer(const saxpy& op, inference& to) {
  const auto& x = to.require(op.x);
  if (x.type != element_type::f32) to.refuse(op.x, "is not f32");
  to.update(op.y);
  const auto& y = to.result(op.y, x.type, x.shape);
  if (!x.is_contiguous() || !y.is_contiguous()) to.refuse(op.x, "or y is not contiguous");
  return {x.size(), op.a.to<float>("a")};
}

void compute(const saxpy_call& call, const launch_of<saxpy>& at) {
  for (std::size_t i = 0; i < call.count; ++i) {
    at.get<float>(&saxpy::y)[i] += call.a * at.get<const float>(&saxpy::x)[i];
  }
}

#ifdef OWN_OPERATION_HAS_CUDA
void launch_saxpy(std::size_t n, float a, const float* x, float* y, void* stream);  // saxpy.cu
void enqueue(lane_libraries& lane, const saxpy_call& call, const launch_of<saxpy>& at) {
  launch_saxpy(call.count, call.a, at.get<const float>(&saxpy::x), at.get<float>(&saxpy::y),
               lane.stream().native());
}
#else
constexpr decltype(operation_functions<saxpy, saxpy_call>::enqueue) enqueue = nullptr;
#endif

const operation_row& row_of(operation_type<saxpy>) {
  static const typed_operation_row<saxpy, saxpy_call> row({.name = "saxpy",
                                                           .infer = infer,
                                                           .host = {.library = "own"},
                                                           .compute = compute,
                                                           .cuda = {.library = "own"},
                                                           .enqueue = enqueue});
  return row;
}

int main() {
  caf::actor_system_config config;
  configure(config);
  caf::actor_system system{config};
  scoped_device device{system};
  const auto own = spawn_operations<saxpy>(system, "own", device.shared_service());
  const auto put = [&](std::vector<float> values) {
    return ask<tensor>(system, device.actor(), upload{.values = std::move(values)});
  };
  const auto y = ask<tensor>(system, own, saxpy{.x = put({1, 2}), .a = 10, .y = put({3, 4})});
  const auto result = ask<host_tensor>(system, device.actor(), download{.x = y});
  for (const float value : result.values<float>()) std::cout << value << '\n';  // 13 24
}
