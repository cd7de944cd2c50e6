// SPDX-License-Identifier: Apache-2.0
#include <sluice/runtime.hpp>

#include <array>
#include <iostream>
#include <memory>

int main() {
  constexpr std::size_t mebibyte = std::size_t{1} << 20U;
  auto budget = std::make_shared<sluice::memory_budget>(64 * mebibyte);
  sluice::device_runtime runtime{
      sluice::open_device("auto"),
      {.resource = sluice::make_budget_resource(
           sluice::make_pool_resource(sluice::make_async_resource()), budget)}};
  const auto stream = runtime.create_stream();

  // Both blocks are certain to fit, or the reservation throws over_budget.
  auto reserved = runtime.reserve_memory(std::array{8 * mebibyte, 2 * mebibyte});
  const auto weights = runtime.allocate<float>(2 * mebibyte, stream, "weights", reserved);
  const auto bias = runtime.allocate<float>(mebibyte / 2, stream, "bias", reserved);

  try {
    (void)runtime.allocate<float>(15 * mebibyte, stream, "scratch");  // 60 MiB: 54 are left
  } catch (const sluice::error& e) {
    std::cout << to_string(e.code()) << '\n';  // over_budget
  }
}
