// SPDX-License-Identifier: Apache-2.0
// A GPU that is lost by a fault while actors are at work. A fault is final for its process, so a
// child has it.
#include "tests/actors/library_actor_test.hpp"
#include "tests/envelope/completion_strategies.hpp"
#include "tests/support/forked_child.hpp"

#include <sluice/runtime/dlpack.hpp>

#include <atomic>

namespace sluice::test {
namespace {

constexpr std::size_t requests = 5;

std::atomic<int> returned{0};

/// Memory that is not there: whoever touches it makes the GPU fault.
gpu_ref<float> nowhere(device_runtime& runtime) {
  static std::int64_t extent = 64;
  static dlpack::versioned_tensor tensor{};
  tensor.version = {1, 0};
  tensor.deleter = [](dlpack::versioned_tensor*) {
    returned.fetch_add(1);
  };
  tensor.tensor = {.data = reinterpret_cast<void*>(std::uintptr_t{256}),
                   .device = {dlpack::cuda, 0},
                   .ndim = 1,
                   .dtype = {dlpack::real, 32, 1},
                   .shape = &extent,
                   .strides = nullptr,
                   .byte_offset = 0};
  return import_dlpack(runtime, &tensor, {.ready = true}).as<float>();
}

void lose(session& s) {
  std::vector<caf::actor> actors;
  const auto writing = spawn_device(s.system(), s.service());
  {
    std::vector<sample> held;
    for (const auto& kind : library_kinds()) {
      actors.push_back(kind.start(s, nullptr));
      held.push_back(make_to_be_held(s, kind, actors.back()));
    }
    gate closed;
    for (const auto& one : held) s.hold(closed, one.output);
    closed.wait_until_reached();
    std::vector<std::shared_ptr<answers<ref>>> replies;
    for (std::size_t i = 0; i < actors.size(); ++i) {
      replies.push_back(
          s.send<ref>(actors[i], std::vector<caf::message>(requests, held[i].request)));
      replies.back()->wait_until_sent();
    }
    const auto fault = s.send<ref>(
        untyped(writing), {caf::make_message(fill{.value = 1, .y = nowhere(s.runtime())})});
    EXPECT_TRUE(failed_with(fault->wait()[0], errc::device_lost));
    expect_one_reply_each(s, *fault, 1);
    // With the gate closed.
    for (std::size_t i = 0; i < actors.size(); ++i) {
      SCOPED_TRACE(library_kinds()[i].name);
      for (const auto& a : replies[i]->wait()) EXPECT_TRUE(failed_with(a, errc::device_lost));
      const auto later = s.ask_all<ref>(actors[i], {held[i].request});
      EXPECT_TRUE(failed_with(later[0], errc::device_lost));
      expect_one_reply_each(s, *replies[i], requests);
      EXPECT_THROW((void)library_kinds()[i].start(s, nullptr), error);
    }
  }
  s.end(writing);
  for (const auto& actor : actors) s.end(actor);
}

[[noreturn]] void lose_a_gpu(completion_strategy completion) {
  {
    session s(open_device("cuda"), completion);
    lose(s);
    s.expect_nothing_left();
  }
  EXPECT_EQ(returned.load(), 1);
  end_child();
}

class gpu_loss : public ::testing::TestWithParam<completion_strategy> {};

TEST_P(gpu_loss, answers_every_request_once_and_the_process_ends_quietly) {
  if (!has_device("cuda")) GTEST_SKIP() << "this machine has no GPU";
  EXPECT_EXIT(lose_a_gpu(GetParam()), ::testing::ExitedWithCode(0), "^$");
}

INSTANTIATE_TEST_SUITE_P(strategies, gpu_loss, every_strategy(), name_of_strategy);

}  // namespace
}  // namespace sluice::test
