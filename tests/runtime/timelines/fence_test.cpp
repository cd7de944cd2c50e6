// SPDX-License-Identifier: Apache-2.0
// The number of waits of one launch: at most one for each stream that it depends on.
#include "runtime/timelines/timeline.hpp"
#include "tests/support/devices.hpp"
#include "tests/support/gate.hpp"
#include "tests/support/small_launches.hpp"
#include "tests/support/use_state.hpp"

#include <sluice/runtime/launch_recorder.hpp>

#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace sluice::test {
namespace {

class fence_on : public device_test {
 protected:
  [[nodiscard]] std::uint64_t waits() const { return runtime().statistics().waits; }
};
INSTANTIATE_TEST_SUITE_P(devices, fence_on, every_device(), parameter_name);

// Waits are queued in the order of the blocks' addresses. If each point were waited for, rising
// tickets would queue every wait, and falling tickets only the first.
TEST_P(fence_on, waits_once_for_each_stream_and_for_the_newest_ticket) {
  constexpr std::size_t count = 8;
  const std::array<sluice::stream, 2> writers{runtime().create_stream(), runtime().create_stream()};
  for (const bool rising : {true, false}) {
    SCOPED_TRACE(rising ? "rising" : "falling");
    const auto reader = runtime().create_stream();
    std::vector<gpu_ref<std::uint32_t>> in;
    std::vector<gpu_ref<std::uint32_t>> out;
    for (std::size_t i = 0; i < count; ++i) {
      in.push_back(runtime().allocate<std::uint32_t>(64, writers[i % 2], "in"));
      out.push_back(runtime().allocate<std::uint32_t>(64, reader, "out"));
      // The work before the gate has completed, and all timelines know it.
      (void)launch_fill(in.back(), 0, writers[i % 2]);
      (void)launch_fill(out.back(), 0, reader);
      reader.ref().device().copy(out.back().data(), out.back().data(), 4,
                                 copy_direction::device_to_device, reader.ref().native());
    }
    for (const auto* stream : {&writers[0], &writers[1], &reader}) stream->synchronize();
    gate closed;
    for (const auto& writer : writers) closed.hold(writer);
    std::array<timeline_point, 2> newest;
    for (std::size_t n = 0; n < count; ++n) {
      const auto i = rising ? n : count - 1 - n;
      newest[i % 2] = launch_fill(in[i], static_cast<std::uint32_t>(i + 1), writers[i % 2]);
    }

    const auto before = waits();
    auto recorder = launch_recorder::strict(reader);
    for (std::size_t i = 0; i < count; ++i) recorder.read(in[i]).write(out[i]);
    recorder.preflight();
    EXPECT_EQ(waits() - before, writers.size());
    for (std::size_t w = 0; w < writers.size(); ++w) {
      EXPECT_TRUE(waits_for(reader.ref(), writers[w].ref(), newest[w].ticket))
          << "the newest launch on stream " << w << " is not waited for";
    }
    for (std::size_t i = 0; i < count; ++i) {
      reader.ref().device().copy(out[i].data(), in[i].data(), in[i].bytes(),
                                 copy_direction::device_to_device, reader.ref().native());
    }
    (void)recorder.commit();
    closed.open();
    for (std::size_t i = 0; i < count; ++i) {
      EXPECT_EQ(download(out[i], reader),
                std::vector<std::uint32_t>(out[i].size(), static_cast<std::uint32_t>(i + 1)));
    }
  }
}

}  // namespace
}  // namespace sluice::test
