// SPDX-License-Identifier: Apache-2.0
// Heap memory that the pairs of an allocation and its release take.
#include "tests/support/devices.hpp"
#include "tests/support/failing_allocations.hpp"

#include <sluice/runtime/memory_adaptors.hpp>
#include <sluice/runtime/memory_resource.hpp>

#include <gtest/gtest.h>

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <string>

namespace sluice::test {
namespace {

class memory_price_on : public named_device_test {};
INSTANTIATE_TEST_SUITE_P(devices, memory_price_on, every_device(), parameter_name);

TEST_P(memory_price_on, is_no_heap_memory_with_a_pool) {
  const std::map<std::string, std::function<std::unique_ptr<memory_resource>()>> stacks{
      {"pool_async",
       [] {
         return make_pool_resource(make_async_resource());
       }},
      {"pool_direct",
       [] {
         return make_pool_resource(make_direct_resource({.tracked = true}));
       }},
      {"default",
       [] {
         return make_default_resource();
       }},
      {"statistics", [] {
         return make_statistics_resource(make_default_resource(),
                                         std::make_shared<memory_statistics>());
       }}};
  for (const auto& [name, make] : stacks) {
    device_runtime runtime(open_device(GetParam()), {.resource = make()});
    const auto stream = runtime.create_stream();
    for (const std::size_t bytes : {std::size_t{256}, std::size_t{4} << 10, std::size_t{1} << 20}) {
      const auto pairs = [&](int count) {
        for (int i = 0; i < count; ++i) (void)runtime.allocate_bytes(bytes, stream, "price");
      };
      for (int i = 0; i < 4; ++i) {  // lets everything grow to its final size
        pairs(128);
        stream.synchronize();
      }
      const auto before = allocations_made();
      pairs(1024);
      EXPECT_EQ(allocations_made(), before) << name << ", bytes: " << bytes;
    }
  }
}

}  // namespace
}  // namespace sluice::test
