// SPDX-License-Identifier: Apache-2.0
// A client that has its reply and drops its references can have the memory at once.
#include "tests/actors/session.hpp"

#include <sluice/runtime/memory_budget.hpp>

namespace sluice::test {
namespace {

using ref = gpu_ref<float>;

class owners_of_requests : public named_device_test {
 protected:
  [[nodiscard]] device_service_options with_budget() const {
    device_service_options options;
    options.runtime.resource =
        make_budget_resource(make_pool_resource(make_async_resource()), budget_);
    return options;
  }
  /// Leaves room for `bytes` beside what the device holds now.
  void leave_room(caf::actor_system& system, const scoped_device& device, std::size_t bytes) {
    const auto status = ask<device_status>(system, device.actor(), get_statistics{});
    budget_->set_limit(status.memory.bytes_outstanding + bytes);
  }

 private:
  std::shared_ptr<memory_budget> budget_ = std::make_shared<memory_budget>();
};

TEST_P(owners_of_requests, are_gone_when_the_reply_arrives) {
  constexpr std::int64_t n = 64;
  constexpr int requests = 3000;
  configured configuration;
  caf::actor_system system{configuration};
  scoped_device device(system, GetParam(), nullptr, with_budget());
  const auto blas = device.blas();
  const allocate wanted{.shape = extents{n * n}};
  const auto a = ask<tensor>(system, device.actor(), wanted).as<float>();
  (void)ask<tensor>(system, device.actor(), fill{.value = 1, .y = a});
  // The library's own memory is there after the first request.
  ask<ref>(system, blas, sgemm{.m = 8, .n = 8, .k = 8, .a = a, .b = a});
  // Room for one more block.
  leave_room(system, device, n * n * sizeof(float));
  const auto use_the_room = [&] {
    const auto c = ask<tensor>(system, device.actor(), wanted).as<float>();
    ask<ref>(system, blas, sgemm{.m = 8, .n = 8, .k = 8, .a = a, .b = a, .c = c});
  };
  for (int i = 0; i < requests; ++i) ASSERT_NO_THROW(use_the_room()) << "request " << i;
}

// The program is dropped with the reference to its constant, which lies in the only room.
TEST_P(owners_of_requests, of_programs_are_gone_when_the_reply_arrives) {
  constexpr std::int64_t n = 1 << 18;
  constexpr int requests = 500;
  configured configuration;
  caf::actor_system system{configuration};
  scoped_device device(system, GetParam(), nullptr, with_budget());
  const auto programs = device.programs();
  // A refused run has operands of different shapes.
  const auto make_run = [&](const extents& shape, bool is_refused) {
    program_builder p;
    const auto c = ask<tensor>(system, device.actor(), allocate{.shape = shape});
    const auto x = p.input("x");
    const auto y =
        is_refused ? p.add("y", add(c, x)) : p.add("y", reduce{.x = c, .kind = reduction::max});
    return run{std::move(p).build({y}), {c.slice(0, 0, 3)}};
  };
  const auto run_with = [&](const extents& shape, bool is_refused) {
    caf::scoped_actor self{system};
    request(self, programs, caf::infinite, make_run(shape, is_refused))
        .receive([&](const tensors&) { EXPECT_FALSE(is_refused); },
                 [&](const caf::error&) { EXPECT_TRUE(is_refused); });
  };
  run_with({8}, false);
  // Room for one block, and for small results.
  leave_room(system, device, n * sizeof(float) + (1U << 16U));
  for (int i = 0; i < requests; ++i) {
    ASSERT_NO_THROW(run_with({n}, i % 2 == 0)) << "request " << i;
  }
}

INSTANTIATE_TEST_SUITE_P(devices, owners_of_requests, every_device());

}  // namespace
}  // namespace sluice::test
