// SPDX-License-Identifier: Apache-2.0
#include "examples/own_operation/saxpy.hpp"

#include <sluice/actors/device.hpp>
#include <sluice/actors/spawn_operations.hpp>

#include <iostream>

using namespace sluice;

// 1 if the kernel of saxpy is compiled for GPUs, too.
#ifndef OWN_OPERATION_HAS_CUDA
#define OWN_OPERATION_HAS_CUDA 0
#endif

/// y = a · x + y for f32 of any strides.
struct saxpy {
  operand x{};
  scalar a = 1;
  operand y{};
  static constexpr auto members() {
    return std::make_tuple(input("x", &saxpy::x), parameter("a", &saxpy::a),
                           output("y", &saxpy::y));
  }
  static constexpr std::string_view name = "saxpy";
  static constexpr bool has_kernel = OWN_OPERATION_HAS_CUDA;
  struct call {
    std::size_t count;
    float a;
  };
  static call infer(const saxpy& op, inference& inference) {
    const auto& x = inference.require(op.x);
    if (x.type != element_type::f32) throw inference.refusal(op.x, "is not f32");
    inference.update(op.y);
    inference.result(op.y, x.type, x.shape);
    return {x.size(), op.a.to<float>("a")};
  }
  static saxpy_body body(const call& c, const launch_of<saxpy>& launch) {
    return {c.a, launch.get<const float>(&saxpy::x), launch.get<float>(&saxpy::y)};
  }
};
SLUICE_MESSAGES(own_operation, 200, saxpy)

int main() {
  caf::actor_system_config config;
  configure(config);
  caf::actor_system system{config};
  scoped_device device{system};
  const auto saxpy_actor = spawn_operations<saxpy>(system, "own", device.shared_service());
  const auto put = [&](std::vector<float> values) {
    return ask<tensor>(system, device.actor(), upload{.values = std::move(values)});
  };
  const auto y =
      ask<tensor>(system, saxpy_actor, saxpy{.x = put({1, 2}), .a = 10, .y = put({3, 4})});
  const auto result = ask<host_tensor>(system, device.actor(), download{.x = y});
  for (const float value : result.values<float>()) std::cout << value << '\n';  // 13 24
}
