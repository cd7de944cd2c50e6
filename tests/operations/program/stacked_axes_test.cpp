// SPDX-License-Identifier: Apache-2.0
// Random programs whose runs lie along random axes, in batches. The device is a host
// device that presents itself as a GPU, so that the runs are put together and taken apart on
// machines without GPUs.
#include "operations/program/executable.hpp"
#include "operations/program/program_graph.hpp"
#include "tests/operations/executing.hpp"
#include "tests/operations/program/host_member_copies.hpp"
#include "tests/support/pretended_gpu.hpp"
#include "tests/support/seed.hpp"

#include <sluice/operations.hpp>
#include <sluice/operations/operation.hpp>
#include <sluice/runtime/host_device.hpp>
#include <sluice/runtime/launch_recorder.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <numeric>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace sluice::test {
namespace {

constexpr std::size_t most_dimensions = 4;

/// y = 2 · x + index along axis `counted` of x, with the dimensions in the order `order`.
struct counted_turn {
  operand x{};
  operand y{};
  extents order{};
  std::int64_t counted = 0;
  static constexpr auto members() {
    return std::make_tuple(input("x", &counted_turn::x), output("y", &counted_turn::y),
                           parameter("order", &counted_turn::order),
                           parameter("counted", &counted_turn::counted));
  }
};
struct counted_turn_call {
  std::array<std::int64_t, most_dimensions> shape{};  // of x, with ones behind it
  std::array<std::int64_t, most_dimensions> order{};
  std::int64_t counted = 0;
};

/// Calls `visit(i, j, index)` for each element `i` of x, where `j` is the number of the element of
/// y that it becomes, and `index` that along the counted axis.
template <class Visit>
void for_each_turned(const counted_turn_call& call, const Visit& visit) {
  std::array<std::int64_t, most_dimensions> strides{};  // in y, by dimension of x
  std::int64_t stride = 1;
  for (std::size_t d = most_dimensions; d-- > 0;) {
    const auto source = static_cast<std::size_t>(call.order[d]);
    strides[source] = stride;
    stride *= call.shape[source];
  }
  for (std::int64_t i = 0; i < stride; ++i) {
    std::array<std::int64_t, most_dimensions> index{};
    auto rest = i;
    for (std::size_t d = most_dimensions; d-- > 0;) {
      index[d] = rest % call.shape[d];
      rest /= call.shape[d];
    }
    visit(i, std::inner_product(index.begin(), index.end(), strides.begin(), std::int64_t{0}),
          index[static_cast<std::size_t>(call.counted)]);
  }
}

counted_turn_call call_of_turn(const extents& shape, const extents& order, std::int64_t counted) {
  counted_turn_call call{.counted = counted};
  for (std::size_t d = 0; d < most_dimensions; ++d) {
    call.shape[d] = d < shape.size() ? shape[d] : 1;
    call.order[d] = d < order.size() ? order[d] : static_cast<std::int64_t>(d);
  }
  return call;
}
extents in_order(const extents& shape, const extents& order) {
  extents turned;
  for (const auto d : order) turned.push_back(shape[static_cast<std::size_t>(d)]);
  return turned;
}

const operation_descriptor& descriptor_of(operation_type<counted_turn>) {
  static const typed_operation_descriptor<counted_turn, counted_turn_call> descriptor(
      {.name = "counted_turn",
       .infer = [](const counted_turn& op, inference& inference) -> counted_turn_call {
         const auto& x = inference.require(op.x);
         (void)inference.result(op.y, x.type, in_order(x.shape, op.order));
         inference.make_contiguous(op.x);
         return call_of_turn(x.shape, op.order, op.counted);
       },
       .enqueue =
           [](lane_libraries& libraries, const counted_turn_call& call,
              const launch_of<counted_turn>& launch) {
             libraries.runtime().device().notify(
                 libraries.stream().native(), [call, x = launch.get<const float>(&counted_turn::x),
                                               y = launch.get<float>(&counted_turn::y)] {
                   for_each_turned(call, [&](auto i, auto j, auto index) {
                     y[j] = 2 * x[i] + static_cast<float>(index);
                   });
                 });
           }});
  return descriptor;
}

/// Numbers of a shape on the host.
struct host_numbers {
  extents shape;
  std::vector<float> values;

  [[nodiscard]] host_numbers turned(const extents& order, std::int64_t counted) const {
    host_numbers result{in_order(shape, order), std::vector<float>(values.size())};
    for_each_turned(call_of_turn(shape, order, counted), [&](auto i, auto j, auto index) {
      result.values[static_cast<std::size_t>(j)] =
          2 * values[static_cast<std::size_t>(i)] + static_cast<float>(index);
    });
    return result;
  }
};

/// Steps from one input to one output.
struct turning_line {
  struct turn {
    extents order;
    std::int64_t counted;
  };
  extents shape;
  std::size_t axis = 0;  // along which runs lie in the input
  std::size_t output_axis = 0;
  std::vector<turn> turns;
};

class stacked_axes : public executor_test {
 protected:
  static constexpr std::size_t most = 16;  // runs in a batch

  void SetUp() override {
    executor_test::SetUp();
    copies_.emplace();
    lane_.emplace(runtime(), stream());
  }
  void TearDown() override {
    lane_.reset();
    copies_.reset();
    executor_test::TearDown();
  }
  std::shared_ptr<device> opened_device() override {
    return std::make_shared<pretended_gpu>(0, open_host_device());
  }

  [[nodiscard]] std::int64_t between(std::int64_t least, std::int64_t largest) {
    return std::uniform_int_distribution<std::int64_t>(least, largest)(generator_);
  }
  turning_line new_line() {
    turning_line line;
    const auto rank = between(2, most_dimensions);
    for (std::int64_t d = 0; d < rank; ++d) line.shape.push_back(between(1, 5));
    line.axis = line.output_axis = static_cast<std::size_t>(between(0, rank - 1));
    for (auto count = between(1, 3); count != 0; --count) {
      std::vector<std::int64_t> order(static_cast<std::size_t>(rank));
      std::iota(order.begin(), order.end(), 0);
      std::shuffle(order.begin(), order.end(), generator_);
      // Along the axis of the runs an index would depend on the other runs.
      auto counted = between(0, rank - 2);
      if (counted >= static_cast<std::int64_t>(line.output_axis)) ++counted;
      line.turns.push_back({extents(std::span<const std::int64_t>(order)), counted});
      const auto place =
          std::find(order.begin(), order.end(), static_cast<std::int64_t>(line.output_axis));
      line.output_axis = static_cast<std::size_t>(place - order.begin());
    }
    return line;
  }
  static program program_of(const std::vector<turning_line>& lines) {
    program_builder p;
    std::vector<program_value> outputs;
    std::vector<program_value> inputs;
    for (std::size_t i = 0; i < lines.size(); ++i) {
      inputs.push_back(p.input("x" + std::to_string(i), per_request.along(lines[i].axis)));
    }
    for (std::size_t i = 0; i < lines.size(); ++i) {
      auto last = inputs[i];
      for (const auto& turn : lines[i].turns) {
        last = p.add(counted_turn{.x = last, .order = turn.order, .counted = turn.counted});
      }
      outputs.push_back(last);
    }
    return std::move(p).build(
        outputs, {.capture = capture_policy::never, .max_in_batch = most, .fuse = false});
  }
  host_numbers drawn_numbers(const extents& shape) {
    host_numbers x{shape, {}};
    std::size_t count = 1;
    for (const auto extent : shape) count *= static_cast<std::size_t>(extent);
    // Whole numbers, so that the results are exact.
    for (std::size_t i = 0; i < count; ++i) {
      x.values.push_back(static_cast<float>(between(-100'000, 100'000)));
    }
    return x;
  }
  static std::shared_ptr<const operations::program_inference> inferred(
      const program& what, const std::vector<turning_line>& lines) {
    std::vector<tensor_spec> specs;
    for (const auto& line : lines) {
      specs.push_back(tensor_spec::row_major(element_type::f32, line.shape));
    }
    return what.graph()
        ->infer(specs, {}, std::vector<operations::given_output>(lines.size()))
        .shared;
  }
  /// Runs up to `most` runs as one batch, and compares each result with that of the run alone.
  void compare(const program& what, const std::vector<turning_line>& lines) {
    const auto run = inferred(what, lines);
    ASSERT_TRUE(run->stacks);
    for (std::size_t i = 0; i < lines.size(); ++i) {
      ASSERT_EQ(run->output_axes[i], lines[i].output_axis);
    }
    operations::executable tested(what.graph(), run, *lane_);
    auto& growth = *tested.growth();
    while (growth.next_size() != 0) {
      growth.make(growth.next_size(), *lane_, no_limits, [] { return false; });
      growth.adopt();
    }
    ASSERT_EQ(growth.size(), most);
    for (std::size_t count = 2; count <= most; ++count) compare(tested, lines, count);
  }
  void compare(const operations::executable& tested, const std::vector<turning_line>& lines,
               std::size_t count) {
    std::vector<gpu_ref<float>> blocks;
    std::vector<std::vector<float>> expected;
    std::vector<gpu_ref<float>> results;
    std::vector<void*> externals;
    auto recorder = launch_recorder::strict(stream());
    for (std::size_t i = 0; i < count; ++i) {
      for (const auto& line : lines) {
        auto x = drawn_numbers(line.shape);
        const auto& block = blocks.emplace_back(upload(runtime(), stream(), x.values));
        recorder.read(block);
        externals.push_back(block.data());
        for (const auto& turn : line.turns) x = x.turned(turn.order, turn.counted);
        expected.push_back(std::move(x.values));
      }
      for (std::size_t line = 0; line < lines.size(); ++line) {
        const auto size = expected[i * lines.size() + line].size();
        const auto& block =
            results.emplace_back(runtime().allocate<float>(size, stream(), "result"));
        recorder.write(block);
        externals.push_back(block.data());
      }
    }
    auto scratch = runtime().allocate_bytes(tested.batch_workspace_bytes(), stream(), "scratch");
    recorder.use(scratch, access_kind::write, false).preflight();
    tested.enqueue_batch(*lane_, {externals, {}}, scratch.address());
    recorder.commit();
    for (std::size_t i = 0; i < results.size(); ++i) {
      ASSERT_EQ(download(results[i], stream()), expected[i])
          << "output " << i % lines.size() << " of run " << i / lines.size() << " of " << count;
    }
  }

 private:
  static constexpr plan_limits no_limits{std::numeric_limits<std::size_t>::max(),
                                         std::numeric_limits<std::size_t>::max()};

  std::optional<host_member_copies> copies_;
  std::optional<lane_libraries> lane_;
  std::mt19937_64 generator_ = make_generator();
};

TEST_P(stacked_axes, give_each_run_the_results_that_it_has_alone) {
  int moved = 0;
  for (int i = 0; i < 40; ++i) {
    std::vector<turning_line> lines;
    for (auto count = between(1, 4); count != 0; --count) lines.push_back(new_line());
    const auto what = program_of(lines);
    SCOPED_TRACE(what.text());
    for (const auto& line : lines) moved += line.axis != line.output_axis ? 1 : 0;
    compare(what, lines);
    ASSERT_FALSE(HasFailure());
  }
  EXPECT_GT(moved, 0);
}

TEST_P(stacked_axes, are_those_of_up_to_16_tensors) {
  std::vector<turning_line> lines;
  for (std::size_t i = 0; i < max_tensors_in_batch / 2; ++i) lines.push_back(new_line());
  const auto what = program_of(lines);
  SCOPED_TRACE(what.text());
  EXPECT_TRUE(what.graph()->fits_batch(*inferred(what, lines)));
  compare(what, lines);
  lines.push_back(new_line());
  const auto larger = program_of(lines);
  EXPECT_FALSE(larger.graph()->fits_batch(*inferred(larger, lines)));
}

INSTANTIATE_TEST_SUITE_P(devices, stacked_axes, ::testing::Values("host"), parameter_name);

}  // namespace
}  // namespace sluice::test
