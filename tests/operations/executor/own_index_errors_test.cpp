// SPDX-License-Identifier: Apache-2.0
// An operation of an author reports indices. On a host device that presents itself as a GPU, so
// that launches take the way of a GPU: only those with an error word are asked for their outcome.
#include "runtime/seam.hpp"
#include "tests/operations/executing.hpp"
#include "tests/support/expect_error.hpp"
#include "tests/support/gate.hpp"
#include "tests/support/pretended_gpu.hpp"

#include <sluice/operations/indexed_operation.hpp>
#include <sluice/operations/operation.hpp>
#include <sluice/operations/program.hpp>
#include <sluice/runtime/host_device.hpp>

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace sluice::test {
namespace {

/// y[i] = x[at[i]], for any number of operations at once.
struct pick {
  operand x{};
  operand at{};
  operand y{};
  static constexpr auto members() {
    return std::make_tuple(input("x", &pick::x), input("at", &pick::at), output("y", &pick::y));
  }
};
struct pick_call {
  std::int64_t extent;
  std::int64_t count;
  [[nodiscard]] launch_facts facts() const noexcept {
    return {.errors = error_detection::everywhere};
  }
};

void pick_elements(const pick_call& call, const float* x, const std::int64_t* at, float* y,
                   const index_report& errors) {
  for (std::int64_t i = 0; i < call.count; ++i) {
    const bool is_valid = at[i] >= 0 && at[i] < call.extent;
    if (!is_valid) errors.report(at[i], i, call.extent);
    y[i] = is_valid ? x[at[i]] : 0;
  }
}

const operation_descriptor& descriptor_of(operation_type<pick>) {
  static const typed_operation_descriptor<pick, pick_call> descriptor(
      {.name = "pick",
       .infer = [](const pick& op, inference& inference) -> pick_call {
         const auto& x = inference.require(op.x);
         const auto& at = inference.require(op.at);
         (void)inference.result(op.y, x.type, at.shape);
         return {static_cast<std::int64_t>(x.size()), static_cast<std::int64_t>(at.size())};
       },
       .host = {.library = "own"},
       .compute =
           [](const pick_call& call, const launch_of<pick>& launch) {
             pick_elements(call, launch.get<float>(&pick::x), launch.get<std::int64_t>(&pick::at),
                           launch.get<float>(&pick::y), launch.index_errors(&pick::at));
           },
       .cuda = {.library = "own"},
       .enqueue =
           [](lane_libraries& libraries, const pick_call& call, const launch_of<pick>& launch) {
             libraries.runtime().device().notify(
                 libraries.stream().native(),
                 [call, x = launch.get<float>(&pick::x), at = launch.get<std::int64_t>(&pick::at),
                  y = launch.get<float>(&pick::y), errors = launch.index_errors(&pick::at)] {
                   pick_elements(call, x, at, y, errors);
                 });
           },
       .batches = {.most = [](const pick_call&) -> std::size_t { return 8; },
                   .same = [](const pick_call&, const pick_call&) { return true; },
                   .enqueue =
                       [](lane_libraries&, const pick_call&, const batch_of<pick>&) {
                         throw error(errc::library_failure, "a batch has no error words");
                       }}});
  return descriptor;
}

/// The same as an indexed operation.
struct element_body {
  const float* x;
  const std::int64_t* at;
  float* y;
  std::int64_t extent;
  index_report errors;

  SLUICE_HOST_DEVICE void operator()(std::size_t i) const {
    const auto index = at[i];
    const bool is_valid = index >= 0 && index < extent;
    if (!is_valid) errors.report(index, static_cast<std::int64_t>(i), extent);
    y[i] = is_valid ? x[index] : 0;
  }
};

struct elements_of {
  operand x{};
  operand at{};
  operand y{};
  static constexpr auto members() {
    return std::make_tuple(input("x", &elements_of::x), input("at", &elements_of::at),
                           output("y", &elements_of::y));
  }
  static constexpr std::string_view name = "elements_of";
  static constexpr bool has_kernel = false;
  struct call {
    std::size_t count;
    std::int64_t extent;
    [[nodiscard]] launch_facts facts() const { return {.errors = error_detection::everywhere}; }
  };
  static call infer(const elements_of& op, inference& inference) {
    const auto& x = inference.require(op.x);
    const auto& at = inference.require(op.at);
    (void)inference.result(op.y, x.type, at.shape);
    return {at.size(), static_cast<std::int64_t>(x.size())};
  }
  static element_body body(const call& c, const launch_of<elements_of>& launch) {
    return {launch.get<float>(&elements_of::x), launch.get<std::int64_t>(&elements_of::at),
            launch.get<float>(&elements_of::y), c.extent, launch.index_errors(&elements_of::at)};
  }
};

/// "host:0" stands for the host device that presents itself as a GPU.
class own_index_errors : public executor_test {
 protected:
  std::shared_ptr<device> opened_device() override {
    auto host = open_host_device();
    if (!pretends()) return host;
    return std::make_shared<pretended_gpu>(0, std::move(host));
  }
  [[nodiscard]] static bool pretends() { return GetParam() == "host:0"; }
  tensor at(const std::vector<std::int64_t>& values) {
    return tensor(upload(runtime(), stream(), values));
  }
  tensor x() { return tensor(upload(runtime(), stream(), std::vector<float>{5, 6, 7})); }
  std::vector<float> elements(const tensor& t) {
    return download(t.reshape({-1}).as<float>(), stream());
  }
  static std::string text(int index, int offset) {
    return "at: " + std::to_string(index) + " at offset " + std::to_string(offset) +
           " is out of range for the extent 3";
  }
  [[nodiscard]] detail::error_words& words() {
    return detail::runtime_core::of(runtime())->errors();
  }
};

TEST_P(own_index_errors, fail_single_requests) {
  std::vector<pending_answer> answers;
  const auto values = x();
  for (int i = 0; i < 100; ++i) {
    answers.push_back(
        submit(test_executor(), pick{.x = values, .at = at({i % 3, i % 5 == 0 ? 3 + i : 1, 2})}));
  }
  for (int i = 0; i < 100; ++i) {
    auto& answer = answers[static_cast<std::size_t>(i)];
    if (i % 5 == 0) {
      EXPECT_TRUE(throws(errc::invalid_argument, text(3 + i, 1), [&] { return wait(answer); }));
    } else {
      EXPECT_EQ(elements(wait(answer)),
                (std::vector<float>{5.0F + static_cast<float>(i % 3), 6, 7}));
    }
  }
  EXPECT_EQ(words().unused(), words().size());
}

TEST_P(own_index_errors, fail_what_uses_the_results) {
  gate closed;
  closed.hold(test_executor().lane().stream());
  const auto values = x();
  const auto first =
      run(test_executor(), pick{.x = values, .at = at({0, 4, 2})}, {.reply = reply_on::enqueued});
  auto second = submit(test_executor(), pick{.x = first, .at = at({9})});
  auto third = submit(test_executor(), pick{.x = values, .at = at({1})});
  closed.open();
  EXPECT_TRUE(throws(errc::upstream_failed, text(4, 1), [&] { return wait(second); }));
  EXPECT_EQ(elements(wait(third)), (std::vector<float>{6}));
  EXPECT_TRUE(throws(errc::upstream_failed, "",
                     [&] { return run(test_executor(), pick{.x = first, .at = at({0})}); }));
}

TEST_P(own_index_errors, of_an_indexed_operation) {
  if (pretends()) GTEST_SKIP() << "it has no kernel";
  EXPECT_TRUE(throws(errc::invalid_argument, text(-2, 1), [&] {
    return run(test_executor(), elements_of{.x = x(), .at = at({1, -2})});
  }));
  EXPECT_EQ(elements(run(test_executor(), elements_of{.x = x(), .at = at({1, 0})})),
            (std::vector<float>{6, 5}));
}

TEST_P(own_index_errors, in_programs_name_the_step) {
  if (pretends()) GTEST_SKIP() << "the planner loads kernels, which needs a GPU's driver";
  program_builder p;
  const auto values = p.input("values");
  const auto places = p.input("places");
  const auto once = p.add("once", pick{.x = values, .at = places});
  const auto what = std::move(p).build({p.add("twice", pick{.x = once, .at = places})});
  std::vector<pending<tensors>> answers;
  const std::vector<std::vector<std::int64_t>> all{{0, 1, 2}, {2, -1, 0}, {2, 1, 0}, {0, 1, 3}};
  for (int i = 0; i < 40; ++i) {
    answers.push_back(submit(test_executor(),
                             sluice::run{what, {x(), at(all[static_cast<std::size_t>(i % 4)])}}));
  }
  for (int i = 0; i < 40; ++i) {
    auto& answer = answers[static_cast<std::size_t>(i)];
    if (i % 4 == 1) {
      EXPECT_TRUE(throws(errc::invalid_argument, "step 'once': " + text(-1, 1),
                         [&] { return wait(answer); }));
    } else if (i % 4 == 3) {
      EXPECT_TRUE(throws(errc::invalid_argument, "step 'once': " + text(3, 2),
                         [&] { return wait(answer); }));
    } else {
      EXPECT_EQ(elements(wait(answer)[0]), (std::vector<float>{5, 6, 7}));
    }
  }
}

TEST_P(own_index_errors, of_a_lost_device_give_way_to_the_loss) {
  gate closed;
  closed.hold(test_executor().lane().stream());
  auto answer = submit(test_executor(), pick{.x = x(), .at = at({9})});
  test_executor().work();
  runtime().device().lose(error(errc::library_failure, "gone"));
  EXPECT_TRUE(throws(errc::device_lost, "", [&] { return wait(answer); }));
}

INSTANTIATE_TEST_SUITE_P(devices, own_index_errors, ::testing::Values("host", "host:0"),
                         [](const ::testing::TestParamInfo<std::string>& parameter) {
                           return parameter.param == "host" ? "host" : "pretended_gpu";
                         });

}  // namespace
}  // namespace sluice::test
