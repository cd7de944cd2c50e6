// SPDX-License-Identifier: Apache-2.0
// The negative controls of the hazard proof: if one wait of any class is left out, the proof fails.
//
// Without ThreadSanitizer the results must differ each time. With it, a child process runs the
// control and must end with a report. The child is this program; the environment variable
// SLUICE_HAZARD_CONTROL selects the wait that it leaves out.
#include "runtime/host/annotations.hpp"
#include "tests/runtime/hazards/hazard_run.hpp"
#include "tests/runtime/hazards/hazard_scenarios.hpp"
#include "tests/support/devices.hpp"
#include "tests/support/seed.hpp"

#include <sluice/runtime/host_device.hpp>

#include <climits>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <tuple>
#include <unistd.h>

namespace {

using namespace sluice;
using namespace sluice::test;
using detail::hazard;

constexpr int repetitions = 10;
constexpr int sanitizer_report = 66;
using memory = hazard_session::memory;

constexpr std::array all_scenarios{
    scenario_kind::read_after_write,  scenario_kind::write_after_read,
    scenario_kind::write_after_write, scenario_kind::allocation_ready,
    scenario_kind::unfenced_use,      scenario_kind::reuse,
    scenario_kind::free_after_use,    scenario_kind::reclaim};

/// A class of waits, and a resource whose random DAGs contain it.
///
/// `async` reuses memory in stream order, and a pool reuses it with its earlier uses. The other
/// resources keep memory until these uses have completed.
struct dag_control {
  hazard kind;
  memory resource;
};
constexpr std::array all_dags{dag_control{hazard::read_after_write, memory::async},
                              dag_control{hazard::write_after_read, memory::async},
                              dag_control{hazard::write_after_write, memory::async},
                              dag_control{hazard::allocation_ready, memory::async},
                              dag_control{hazard::free_after_use, memory::async},
                              dag_control{hazard::inherited, memory::pool},
                              dag_control{hazard::inherited, memory::pool_of_unfinished},
                              dag_control{hazard::inherited, memory::pool_over_direct}};
std::string name_of(const dag_control& control) {
  return std::string(sluice::test::name_of(control.kind)) + "_of_" +
         std::string(sluice::test::name_of(control.resource));
}

/// Replaces each address by the index of the first block at that address.
std::vector<std::size_t> pattern_of(const block_places& places) {
  std::vector<std::size_t> pattern;
  for (const auto* place : places) {
    pattern.push_back(
        static_cast<std::size_t>(std::find(places.begin(), places.end(), place) - places.begin()));
  }
  return pattern;
}

/// Runs one random DAG behind a gate without one random wait of the class. If `fenced` is true, it
/// makes the wait.
void run_dag_control(const dag_control& control, bool fenced, std::mt19937_64& random) {
  dag_limits limits;
  // Long enough for memory to be reused.
  limits.max_steps = control.resource == memory::async ? 80 : 160;
  // ThreadSanitizer remembers four accesses to a word and drops one of them at the fifth. With
  // three streams, at most one write and one read by each are unordered with later writes.
  // ThreadSanitizer also misses two accesses at the same moment; blocks of many words make this
  // unlikely for all of them.
  limits.max_streams = 3;
  limits.smallest_block = 64;
  // ThreadSanitizer misses a race if it has dropped the thread's history, so blocks are not too
  // large.
  limits.largest_block = 1024;
  constexpr std::size_t enough = 48;
  for (;;) {
    const auto dag = make_dag(random, limits);
    block_places places;
    if (control.resource != memory::async) {
      hazard_session dry(open_host_device(), control.resource, dag.streams);
      dry.submit_in_order();
      places = dry.place(dag);
    }
    auto waits = waits_that_matter(dag, places);
    std::erase_if(waits, [&](const step_wait& wait) {
      return wait.kind != control.kind || wait.elements < enough;
    });
    if (waits.empty()) continue;
    const auto chosen = waits[random() % waits.size()];
    hazard_session session(open_host_device(), control.resource, dag.streams);
    session.submit_in_order();
    if (!fenced) session.leave_out(chosen);
    const auto wrong = difference(session.run(dag, true), run_serially(dag));
    if (fenced && !wrong.empty()) std::exit(1);
    // The model used the addresses of the dry run, so this run must have the same ones.
    if (!places.empty() && pattern_of(places) != pattern_of(session.places())) std::exit(2);
    return;
  }
}

/// In a process started as a control, runs the control and ends the process.
class control : public testing::Environment {
 public:
  void SetUp() override {
    const char* setting = std::getenv("SLUICE_HAZARD_CONTROL");
    if (setting == nullptr) return;
    const std::string wanted = setting;
    auto random = make_generator();
    for (const bool fenced : {false, true}) {
      const std::string suffix = fenced ? " fenced" : "";
      for (const auto& dag : all_dags) {
        if (wanted == "dag " + name_of(dag) + suffix) run_dag_control(dag, fenced, random);
      }
      for (const auto kind : all_scenarios) {
        if (wanted != "scenario " + std::string(sluice::test::name_of(kind)) + suffix) continue;
        const auto mode = fenced ? scenario_mode::fenced : scenario_mode::racing;
        const bool right = run_scenario(kind, open_host_device(), mode, random);
        if (fenced && !right) std::exit(1);
      }
    }
    std::exit(0);
  }
};
[[maybe_unused]] const auto* const registered = testing::AddGlobalTestEnvironment(new control);

/// Starts this program as a control. Returns its exit status and its output.
std::pair<int, std::string> run_control(const std::string& name, std::uint64_t seed) {
  std::array<char, PATH_MAX> program{};
  if (readlink("/proc/self/exe", program.data(), program.size() - 1) < 0) return {-1, "no path"};
  const auto command = "SLUICE_HAZARD_CONTROL='" + name +
                       "' SLUICE_TEST_SEED=" + std::to_string(seed) +
                       " TSAN_OPTIONS=exitcode=" + std::to_string(sanitizer_report) +
                       ":halt_on_error=1:history_size=7 '" + program.data() + "' 2>&1";
  std::FILE* output = popen(command.c_str(), "r");
  if (output == nullptr) return {-1, "cannot start " + command};
  std::string printed = command + "\n";
  std::array<char, 4096> piece{};
  for (std::size_t n = 0; (n = std::fread(piece.data(), 1, piece.size(), output)) != 0;) {
    printed.append(piece.data(), n);
  }
  const int status = pclose(output);
  return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, printed};
}

void expect_reports(const std::string& name) {
  auto random = make_generator();
  for (int i = 0; i < repetitions; ++i) {
    const auto seed = random();
    const auto [fenced, fenced_output] = run_control(name + " fenced", seed);
    ASSERT_EQ(fenced, 0) << fenced_output;
    const auto [status, output] = run_control(name, seed);
    ASSERT_EQ(status, sanitizer_report) << output;
    ASSERT_NE(output.find("data race"), std::string::npos) << output;
  }
}

using parameters = std::tuple<std::string, scenario_kind>;
class hazard_controls : public testing::TestWithParam<parameters> {};

TEST_P(hazard_controls, a_left_out_wait_is_caught) {
  const auto& [device_name, kind] = GetParam();
  if (!has_device(device_name)) {
    GTEST_SKIP() << "this machine has no device '" << device_name << "'";
  }
  if (kind == scenario_kind::reclaim && device_name != "host") {
    GTEST_SKIP() << "a GPU's plain free waits for the whole GPU by itself";
  }
  if (host::thread_sanitizer_on) {
    expect_reports("scenario " + std::string(sluice::test::name_of(kind)));
    return;
  }
  auto random = make_generator();
  const auto device = open_device(device_name);
  for (int i = 0; i < repetitions; ++i) {
    ASSERT_TRUE(run_scenario(kind, device, scenario_mode::fenced, random)) << "repetition " << i;
    ASSERT_FALSE(run_scenario(kind, device, scenario_mode::left_out, random)) << "repetition " << i;
  }
}

INSTANTIATE_TEST_SUITE_P(classes, hazard_controls,
                         testing::Combine(every_device(), testing::ValuesIn(all_scenarios)),
                         [](const testing::TestParamInfo<parameters>& parameter) {
                           return std::get<0>(parameter.param) + "_" +
                                  std::string(sluice::test::name_of(std::get<1>(parameter.param)));
                         });

class hazard_dag_controls : public testing::TestWithParam<dag_control> {};

TEST_P(hazard_dag_controls, a_random_left_out_wait_is_reported) {
  if (!host::thread_sanitizer_on) GTEST_SKIP() << "ThreadSanitizer judges this; it is not built in";
  expect_reports("dag " + name_of(GetParam()));
}

INSTANTIATE_TEST_SUITE_P(classes, hazard_dag_controls, testing::ValuesIn(all_dags),
                         [](const testing::TestParamInfo<dag_control>& parameter) {
                           return name_of(parameter.param);
                         });

/// Tests the model that selects the waits, on a small DAG.
TEST(hazard_model, finds_the_waits_that_matter) {
  // Stream 0 allocates and writes block 0; stream 1 reads it and writes the result.
  hazard_dag dag{2, 1, {4, 4}, {}};
  const auto step = [&](step_kind kind, std::size_t stream, view out, std::optional<view> a) {
    dag.steps.push_back({.kind = kind, .stream = stream, .out = out, .a = a});
  };
  step(step_kind::allocate, 0, {0, 0, 4}, {});
  step(step_kind::allocate, 1, {1, 0, 4}, {});
  step(step_kind::fill, 0, {0, 0, 4}, {});
  step(step_kind::mix, 1, {1, 0, 4}, view{0, 0, 4});  // 3: waits for step 2, and the wait matters
  step(step_kind::mix, 1, {1, 0, 4}, view{0, 0, 4});  // 4: the stream already waits for step 2
  step(step_kind::fill, 0, {0, 0, 4}, {});            // 5: overwrites what steps 3 and 4 read
  step(step_kind::fill, 1, {0, 0, 2}, {});            // 6: overwrites what step 5 wrote
  step(step_kind::fill, 0, {0, 2, 2}, {});            // 7: waits, but shares no byte
  const auto found = waits_that_matter(dag);
  ASSERT_EQ(found.size(), 3u);
  EXPECT_EQ(found[0].step, 3u);
  EXPECT_EQ(found[0].kind, hazard::read_after_write);
  EXPECT_EQ(found[0].elements, 4u);
  EXPECT_EQ(found[1].step, 5u);
  EXPECT_EQ(found[1].kind, hazard::write_after_read);
  EXPECT_EQ(found[2].step, 6u);
  EXPECT_EQ(found[2].kind, hazard::write_after_write);
  EXPECT_EQ(found[2].elements, 2u);
}

TEST(hazard_model, finds_the_waits_of_memory_that_is_used_again) {
  // Stream 0 writes block 0, and stream 1 reads it. Block 2 of stream 1 gets the same address.
  hazard_dag dag{2, 1, {4, 4, 4}, {}};
  const auto step = [&](step_kind kind, std::size_t stream, view out, std::optional<view> a) {
    dag.steps.push_back({.kind = kind, .stream = stream, .out = out, .a = a});
  };
  step(step_kind::allocate, 0, {0, 0, 4}, {});
  step(step_kind::allocate, 1, {1, 0, 4}, {});
  step(step_kind::fill, 0, {0, 0, 4}, {});
  step(step_kind::mix, 1, {1, 0, 4}, view{0, 0, 4});  // 3: stream 1 now waits for the fill
  step(step_kind::fill, 0, {0, 0, 3}, {});            // 4: waits for the read of step 3
  step(step_kind::release, 0, {0, 0, 4}, {});         // 5
  step(step_kind::allocate, 1, {2, 0, 4}, {});
  step(step_kind::fill, 1, {2, 0, 4}, {});  // 7
  const auto waits_of = [&](hazard kind, const block_places& places) {
    auto found = waits_that_matter(dag, places);
    std::erase_if(found, [&](const step_wait& wait) { return wait.kind != kind; });
    return found;
  };
  const std::array<int, 2> memory_of{};
  const auto granted_again =
      waits_of(hazard::inherited, {&memory_of[0], &memory_of[1], &memory_of[0]});
  ASSERT_EQ(granted_again.size(), 1u);
  EXPECT_EQ(granted_again[0].step, 7u);
  EXPECT_EQ(granted_again[0].elements, 3u);
  EXPECT_TRUE(waits_of(hazard::inherited, {}).empty());
  // All of its uses are on its own stream or ordered before work of that stream, so a free there
  // waits for nothing else.
  EXPECT_TRUE(waits_of(hazard::free_after_use, {}).empty());
  dag.steps[4].stream = 1;
  const auto freed = waits_of(hazard::free_after_use, {});
  ASSERT_EQ(freed.size(), 1u);
  EXPECT_EQ(freed[0].step, 5u);
  EXPECT_EQ(freed[0].elements, 3u);
}

}  // namespace
