// SPDX-License-Identifier: Apache-2.0
// Objects of another runtime are refused without side effects, whether that runtime is on the same
// device, on another device of the same kind, or on a device of another kind.
#include "tests/support/devices.hpp"
#include "tests/support/expect_error.hpp"
#include "tests/support/gate.hpp"
#include "tests/support/use_state.hpp"

#include <sluice/runtime/device_runtime.hpp>
#include <sluice/runtime/host_device.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

namespace sluice::test {
namespace {

/// The devices of the called runtime and of the other runtime.
struct two_devices {
  std::string callee;
  std::string other;
};

std::string name_of(const two_devices& devices) {
  auto name = devices.callee + "_and_" + devices.other;
  std::ranges::replace(name, ':', '_');
  return name;
}

/// Opens a device. A host device with an ordinal that `list_devices` does not return works, too.
std::shared_ptr<sluice::device> open(const std::string& name) {
  const auto id = parse_device_id(name);
  if (id.kind == device_kind::host) return open_host_device({.ordinal = id.ordinal});
  return open_device(name);
}

class refusals : public ::testing::TestWithParam<two_devices> {
 protected:
  void SetUp() override {
    for (const auto& name : {GetParam().callee, GetParam().other}) {
      if (!has_device(name)) GTEST_SKIP() << "this machine has no device '" << name << "'";
    }
    runtime_ = std::make_unique<device_runtime>(open(GetParam().callee));
    other_ = std::make_unique<device_runtime>(open(GetParam().other));
    stream_ = runtime_->create_stream();
    elsewhere_ = other_->create_stream();
  }

  [[nodiscard]] device_runtime& runtime() const { return *runtime_; }
  [[nodiscard]] device_runtime& other() const { return *other_; }
  [[nodiscard]] stream_ref stream() const { return stream_; }
  [[nodiscard]] const sluice::stream& elsewhere() const { return elsewhere_; }
  static timeline_point launch(stream_ref stream, const gpu_ref<float>& ref, access_kind access) {
    auto recorder = launch_recorder::strict(stream);
    recorder.use(ref.block(), access, true);
    recorder.preflight();
    return recorder.commit();
  }

 private:
  std::unique_ptr<device_runtime> runtime_;
  std::unique_ptr<device_runtime> other_;
  sluice::stream stream_;
  sluice::stream elsewhere_;
};
INSTANTIATE_TEST_SUITE_P(devices, refusals,
                         ::testing::Values(two_devices{"host", "host"},
                                           two_devices{"host", "host:1"},
                                           two_devices{"host:1", "host"},
                                           two_devices{"cuda", "cuda"}, two_devices{"host", "cuda"},
                                           two_devices{"cuda", "host"},
                                           two_devices{"cuda:0", "cuda:1"}),
                         [](const auto& parameter) { return name_of(parameter.param); });

/// All statistics of a runtime and the state of some of its blocks, as text.
std::string everything(device_runtime& runtime, const std::vector<block_ref>& blocks) {
  const auto s = runtime.statistics();
  std::ostringstream out;
  for (const auto value :
       {s.bytes_outstanding, s.peak_bytes, s.blocks, s.imports, s.exports, s.references, s.points,
        s.leases, s.streams, s.events, s.releases_pending}) {
    out << value << ' ';
  }
  out << s.launches << ' ' << s.waits << ' ' << s.recorders_abandoned;
  for (const auto& block : blocks) {
    const auto uses = uses_of(block);
    out << "; version " << uses.version;
    for (const auto& point : uses.all) out << ' ' << point.stream.index << ':' << point.ticket;
  }
  return out.str();
}

TEST_P(refusals, of_a_call_change_nothing) {
  const auto second = runtime().create_stream();
  auto gone = std::make_unique<sluice::stream>(runtime().create_stream());
  const stream_ref retired = *gone;
  gone.reset();
  const auto mine = runtime().allocate<float>(16, stream(), "mine");
  const auto foreign = other().allocate<float>(16, elsewhere(), "foreign");
  const auto stale = runtime().allocate<float>(16, stream(), "stale");
  gate closed;
  closed.hold(stream());
  closed.hold(elsewhere());
  (void)launch(stream(), mine, access_kind::write);
  (void)launch(elsewhere(), foreign, access_kind::write);
  runtime().deallocate(stale.block());
  const std::vector<block_ref> blocks{mine.block(), stale.block()};

  const auto refuses = [&](errc code, const std::string& word, auto call) {
    const auto before = everything(runtime(), blocks) + everything(other(), {foreign.block()});
    const auto refusal = throws(code, word, call);
    if (!refusal) return refusal;
    const auto after = everything(runtime(), blocks) + everything(other(), {foreign.block()});
    if (after == before) return ::testing::AssertionSuccess();
    return ::testing::AssertionFailure() << before << " became " << after;
  };

  for (const auto& [invalid_stream, word] :
       {std::pair(elsewhere().ref(), "not a stream of this runtime"),
        std::pair(retired, "stream has been destroyed"),
        std::pair(stream_ref(), "no stream was given")}) {
    SCOPED_TRACE(word);
    EXPECT_TRUE(refuses(errc::stream_misuse, word,
                        [&, s = invalid_stream] { (void)runtime().allocate_bytes(16, s); }));
    EXPECT_TRUE(refuses(errc::stream_misuse, word, [&, s = invalid_stream] {
      (void)runtime().prepare_use(mine.block(), s, access_kind::read);
    }));
    EXPECT_TRUE(refuses(errc::stream_misuse, word, [&, s = invalid_stream] {
      (void)runtime().finish_use(mine.block(), s, access_kind::read, {});
    }));
    EXPECT_TRUE(refuses(errc::stream_misuse, word, [&, s = invalid_stream] {
      (void)runtime().record_use(mine.block(), s, access_kind::write);
    }));
    EXPECT_TRUE(refuses(errc::stream_misuse, "",
                        [&, s = invalid_stream] { (void)launch(s, mine, access_kind::write); }));
  }

  EXPECT_TRUE(refuses(errc::invalid_argument, "another runtime",
                      [&] { runtime().deallocate(foreign.block()); }));
  EXPECT_TRUE(refuses(errc::invalid_argument, "empty", [&] { runtime().deallocate({}); }));
  EXPECT_TRUE(
      refuses(errc::stale_ref, "already been freed", [&] { runtime().deallocate(stale.block()); }));
  for (const auto& [block, code] :
       {std::pair(foreign.block(), errc::stream_misuse),
        std::pair(block_ref(), errc::stream_misuse), std::pair(stale.block(), errc::stale_ref)}) {
    SCOPED_TRACE(block ? std::string(block.tag().name()) : "none");
    for (const auto access : {access_kind::read, access_kind::write, access_kind::read_write}) {
      EXPECT_TRUE(refuses(code, "prepare_use",
                          [&, b = block] { (void)runtime().prepare_use(b, second, access); }));
      EXPECT_TRUE(
          refuses(code, "", [&, b = block] { (void)runtime().finish_use(b, second, access, {}); }));
      EXPECT_TRUE(
          refuses(code, "", [&, b = block] { (void)runtime().record_use(b, second, access); }));
      // The other blocks of the launch are not affected either.
      EXPECT_TRUE(refuses(code, "", [&, b = block] {
        auto recorder = launch_recorder::strict(second);
        recorder.use(mine.block(), access, true).use(b, access, true);
        recorder.preflight();
      }));
    }
  }
}

TEST_P(refusals, of_a_recorder_that_was_moved_from_name_it) {
  auto recorder = launch_recorder::strict(stream());
  const auto taken = std::move(recorder);
  // NOLINTBEGIN(bugprone-use-after-move): this is the case under test
  recorder.cancel();
  EXPECT_EQ(recorder.recorded_count(), 0u);
  EXPECT_TRUE(throws(errc::stream_misuse, "moved from", [&] { recorder.preflight(); }));
  EXPECT_TRUE(throws(errc::stream_misuse, "moved from", [&] { (void)recorder.commit(); }));
  // NOLINTEND(bugprone-use-after-move)
}

TEST_P(refusals, of_a_recorder_leave_memory_of_another_runtime_alone) {
  const auto foreign = other().allocate<float>(4, elsewhere());
  for (const bool strict : {true, false}) {
    auto recorder =
        strict ? launch_recorder::strict(stream()) : launch_recorder::permissive(stream());
    recorder.read(foreign);
    EXPECT_TRUE(throws(errc::stream_misuse, "another runtime", [&] { recorder.preflight(); }));
    EXPECT_TRUE(throws(errc::stream_misuse, "another runtime", [&] { (void)recorder.commit(); }));
  }
  EXPECT_EQ(other().statistics().leases, 0u);
}

}  // namespace
}  // namespace sluice::test
