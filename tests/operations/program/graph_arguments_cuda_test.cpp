// SPDX-License-Identifier: Apache-2.0
// The addresses among the arguments of the kernels of a graph.
#include "operations/program/graph_arguments_cuda.hpp"

#include "runtime/cuda/check.hpp"
#include "runtime/cuda/driver.hpp"
#include "tests/operations/program/graph_kernels_cuda.hpp"
#include "tests/operations/program/programs.hpp"
#include "tests/operations/program/random_program.hpp"
#include "tests/support/compute_sanitizer.hpp"
#include "tests/support/gate.hpp"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace sluice::test {
namespace {

using cuda::captured_address;
using cuda::check;
using cuda::graph_arguments;

/// Captures work on two floats at `x` and one at `y`, with two pairs of addresses.
class graph_arguments_test : public ::testing::Test {
 protected:
  void SetUp() override {
    int count = 0;
    if (cudaGetDeviceCount(&count) != cudaSuccess || count == 0) {
      (void)cudaGetLastError();
      GTEST_SKIP() << "there is no GPU";
    }
    // Through the seam, so that it is known which functions the driver has.
    device_ = open_device("cuda:0");
    check(cudaSetDevice(0));
    check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking));
    void* memory = nullptr;
    check(cudaMalloc(&memory, 4096));
    memory_ = static_cast<std::byte*>(memory);
  }
  void TearDown() override {
    if (executable_ != nullptr) (void)cudaGraphExecDestroy(executable_);
    for (auto* const graph : graphs_) {
      if (graph != nullptr) (void)cudaGraphDestroy(graph);
    }
    if (stream_ != nullptr) (void)cudaStreamDestroy(stream_);
    (void)cudaFree(memory_);
  }

  [[nodiscard]] cudaStream_t stream() const { return stream_; }
  [[nodiscard]] cudaGraphExec_t executable() const { return executable_; }
  [[nodiscard]] float* address(std::size_t byte) const {
    return reinterpret_cast<float*>(memory_ + byte);
  }
  /// Captures `work(x, y)` twice.
  template <class Work>
  std::optional<graph_arguments> find(const Work& work) {
    const std::array<captured_address, 2> addresses{
        captured_address{memory_, memory_ + 1024, 2 * sizeof(float)},
        captured_address{memory_ + 256, memory_ + 1536, 2 * sizeof(float)}};
    for (std::size_t i = 0; i < 2; ++i) {
      check(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal));
      work(address(i == 0 ? 0 : 1024), address(i == 0 ? 256 : 1536));
      check(cudaStreamEndCapture(stream_, &graphs_[i]));
    }
    auto found = graph_arguments::find(graphs_[0], graphs_[1], addresses);
    if (found) check(cudaGraphInstantiate(&executable_, graphs_[0], 0));
    return found;
  }
  /// Sets x to two numbers, launches the graph and returns y.
  float launch(graph_arguments& arguments, float* x, float* y, float first, float second) {
    const std::array<float, 2> numbers{first, second};
    float result = 0;
    check(cudaMemcpy(x, numbers.data(), sizeof numbers, cudaMemcpyHostToDevice));
    const std::array<void*, 2> addresses{x, y};
    check(arguments.set(executable_, addresses));
    check(cudaGraphLaunch(executable_, stream_));
    check(cudaStreamSynchronize(stream_));
    check(cudaMemcpy(&result, y, sizeof result, cudaMemcpyDeviceToHost));
    return result;
  }

 private:
  std::shared_ptr<device> device_;
  cudaStream_t stream_ = nullptr;
  std::byte* memory_ = nullptr;
  std::array<cudaGraph_t, 2> graphs_{};
  cudaGraphExec_t executable_ = nullptr;
};

TEST_F(graph_arguments_test, are_found_within_structures) {
  auto found = find([&](float* x, float* y) { enqueue_sum(stream(), x, y); });
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(launch(*found, address(2048), address(2304), 1, 2), 3);
  EXPECT_EQ(launch(*found, address(2048), address(2304), 3, 4), 7);
  EXPECT_EQ(launch(*found, address(2052), address(2304), 5, 6), 11);
  EXPECT_EQ(launch(*found, address(2052), address(3000), 7, 8), 15);
}

TEST_F(graph_arguments_test, are_no_differences_of_addresses) {
  EXPECT_FALSE(find([&](float* x, float* y) { enqueue_copy_by_distance(stream(), y, x - y); }));
}

TEST_F(graph_arguments_test, are_not_those_of_fills_and_copies) {
  EXPECT_FALSE(find([&](float* x, float* y) {
    enqueue_sum(stream(), x, y);
    check(cudaMemsetAsync(y, 0, sizeof *y, stream()));
  }));
}

TEST_F(graph_arguments_test, are_not_of_more_memory_than_there_is) {
  EXPECT_FALSE(find([&](float* x, float* y) { enqueue_sum(stream(), x + 3, y); }));
}

TEST_F(graph_arguments_test, are_all_of_the_addresses) {
  EXPECT_FALSE(find([&](float*, float* y) { enqueue_sum(stream(), address(2048), y); }));
}

TEST_F(graph_arguments_test, are_none_that_cannot_be_read) {
  static cuda::driver_functions real;
  real = cuda::driver();
  auto failing = real;
  failing.function_param_info = [](CUfunction, std::size_t, std::size_t*, std::size_t*) {
    return CUDA_ERROR_INVALID_VALUE;
  };
  (void)cuda::exchange_driver(failing);
  const auto found = find([&](float* x, float* y) { enqueue_sum(stream(), x, y); });
  (void)cuda::exchange_driver(real);
  EXPECT_FALSE(found);
}

// Each call fails once. What it could not set is set by the next one.
TEST_F(graph_arguments_test, are_set_again_after_a_failure) {
  auto found = find([&](float* x, float* y) {
    enqueue_sum(stream(), x, y);
    enqueue_sum(stream(), y, y);  // y + the number behind it
  });
  ASSERT_TRUE(found.has_value());
  static cuda::driver_functions real;
  static int calls;
  real = cuda::driver();
  calls = 0;
  auto failing = real;
  failing.graph_set_kernel_params = [](CUgraphExec executable, CUgraphNode node,
                                       const CUDA_KERNEL_NODE_PARAMS* params) {
    return ++calls == 2 ? CUDA_ERROR_OUT_OF_MEMORY
                        : real.graph_set_kernel_params(executable, node, params);
  };
  (void)cuda::exchange_driver(failing);
  const std::array<void*, 2> addresses{address(2048), address(2304)};
  EXPECT_EQ(found->set(executable(), addresses), cudaErrorMemoryAllocation);
  check(cudaMemset(address(2304), 0, 2 * sizeof(float)));
  EXPECT_EQ(launch(*found, address(2048), address(2304), 1, 2), 3);
  (void)cuda::exchange_driver(real);
  EXPECT_EQ(calls, 3);
}

TEST_F(graph_arguments_test, are_not_changed_in_many_kernels) {
  EXPECT_FALSE(find([&](float* x, float* y) {
    for (int i = 0; i < 9; ++i) enqueue_sum(stream(), x, y);
  }));
}

TEST_F(graph_arguments_test, are_of_equal_graphs) {
  int captures = 0;
  EXPECT_FALSE(find([&](float* x, float* y) {
    for (int i = 0; i <= captures; ++i) enqueue_sum(stream(), x, y);
    ++captures;
  }));
}

/// y = x, with an argument that depends on the distance of x from the next 16 bytes.
struct copy_by_distance {
  operand x{};
  operand y{};
  static constexpr auto members() {
    return std::make_tuple(input("x", &copy_by_distance::x), output("y", &copy_by_distance::y));
  }
};
const operation_descriptor& descriptor_of(operation_type<copy_by_distance>) {
  using launch = launch_of<copy_by_distance>;
  static const typed_operation_descriptor<copy_by_distance, std::size_t> descriptor(
      {.name = "copy_by_distance",
       .infer = [](const copy_by_distance& op, inference& inference) -> std::size_t {
         const auto& x = inference.require(op.x);
         inference.result(op.y, x.type, x.shape);
         return x.size();
       },
       .cuda = {.library = "test"},
       .enqueue =
           [](lane_libraries& libraries, const std::size_t& count, const launch& memory) {
             const auto* const x = memory.get<const float>(&copy_by_distance::x);
             const auto address = reinterpret_cast<std::uintptr_t>(x);
             enqueue_copy_from_boundary(reinterpret_cast<cudaStream_t>(libraries.stream().native()),
                                        x, memory.get<float>(&copy_by_distance::y), count,
                                        (16 - address % 16) % 16 / sizeof(float));
           },
       .can_be_captured = true});
  return descriptor;
}

/// Programs whose executor finds the functions of the driver replaced.
class arguments_of_programs : public programs {
 protected:
  void SetUp() override {
    programs::SetUp();
    if (IsSkipped()) return;
    if (service()->runtime().device().id().kind != device_kind::cuda) {
      GTEST_SKIP() << "the device has no graphs";
    }
    real = cuda::driver();
    if (real.function_param_info == nullptr) GTEST_SKIP() << "the driver cannot tell arguments";
  }
  void TearDown() override {
    if (real.complete()) (void)cuda::exchange_driver(real);
    programs::TearDown();
  }

  static cuda::driver_functions real;
  static std::atomic<int> sets;
};
cuda::driver_functions arguments_of_programs::real;
std::atomic<int> arguments_of_programs::sets{0};

TEST_P(arguments_of_programs, change_with_the_addresses) {
  auto counting = real;
  counting.graph_set_kernel_params = [](CUgraphExec executable, CUgraphNode node,
                                        const CUDA_KERNEL_NODE_PARAMS* params) {
    ++sets;
    return real.graph_set_kernel_params(executable, node, params);
  };
  (void)cuda::exchange_driver(counting);
  program_builder p;
  const auto x = p.input("x");
  const auto product = p.add("product", gemm{.a = x, .b = x});
  const auto twice = p.add("twice", add(product, product));
  const auto program =
      std::move(p).build({p.add("sum", add(twice, x))}, {.capture = capture_policy::at_prepare});
  const std::vector<tensor> inputs{numbers({8, 8}), numbers({8, 8})};
  const std::vector<tensor> outputs{numbers({8, 8}), numbers({8, 8})};
  const auto run_of = [&](std::size_t input, std::size_t output) {
    const auto result = results_of({program, {inputs[input]}, {outputs[output]}})[0];
    const auto squared = alone(gemm{.a = inputs[input], .b = inputs[input]});
    EXPECT_EQ(bits(result), bits(alone(add(alone(add(squared, squared)), inputs[input]))));
  };
  run_of(0, 0);
  EXPECT_EQ(test_executor().status().plans.captured, 1U);
  auto before = sets.load();
  EXPECT_GT(before, 0);
  run_of(0, 0);
  EXPECT_EQ(sets, before) << "for the addresses of the run before";
  run_of(0, 1);
  EXPECT_EQ(sets, ++before) << "only the last step knows the output";
  run_of(1, 1);
  EXPECT_GT(sets, before);
}

TEST_P(arguments_of_programs, are_replaced_by_copies_where_they_cannot_be_read) {
  auto without = real;
  without.function_param_info = nullptr;
  without.graph_set_kernel_params = [](CUgraphExec, CUgraphNode, const CUDA_KERNEL_NODE_PARAMS*) {
    ++sets;
    return CUDA_ERROR_INVALID_VALUE;
  };
  (void)cuda::exchange_driver(without);
  const auto before = sets.load();
  auto generator = make_generator();
  for (int round = 0; round < (under_compute_sanitizer() ? 3 : 15); ++round) {
    const random_program random(*this, generator, 1 + generator() % 12,
                                {.capture = capture_policy::at_prepare});
    for (int again = 0; again < 4; ++again) {
      std::vector<run_input> inputs;
      for (const auto& input : random.inputs())
        inputs.emplace_back(alone(strided_copy{.x = input}));
      const auto results = results_of({random.get(), inputs});
      for (std::size_t i = 0; i < results.size(); ++i) {
        ASSERT_EQ(bits(results[i]), bits(random.expected()[i])) << random.get().text();
      }
    }
    EXPECT_GT(test_executor().status().plans.captured, 0U);
  }
  EXPECT_EQ(sets, before);
}

// The graph copies the input of such an operation to a fixed place.
TEST_P(arguments_of_programs, are_not_derived_from_addresses) {
  program_builder p;
  const auto x = p.input("x");
  const auto copied = p.add("copied", copy_by_distance{.x = x});
  const auto program = std::move(p).build({p.add("sum", add(copied, copied))},
                                          {.capture = capture_policy::at_prepare});
  // As often as launches may be refused before a program is not captured any more, and more.
  for (int i = 0; i < 20; ++i) {
    const auto input = numbers({128}).slice(0, 1, 101);
    EXPECT_EQ(bits(results_of({program, {input}})[0]), bits(alone(add(input, input))));
  }
  const auto memory = numbers({128});
  for (const std::int64_t shift : {1, 3, 5, 7, 1}) {
    const auto input = memory.slice(0, shift, shift + 100);
    EXPECT_EQ(bits(results_of({program, {input}})[0]), bits(alone(add(input, input))))
        << "shift " << shift;
  }
  const auto known =
      prepare_of({.what = program, .inputs = {tensor_spec::of(memory.slice(0, 1, 101))}});
  EXPECT_TRUE(known.captured) << known.not_captured;
}

// With `capture_policy::automatic`, a program with large inputs would not gain from a graph that
// copies them.
TEST_P(arguments_of_programs, let_large_inputs_be_captured) {
  const auto input = numbers({1 << 18});
  const auto reason = [&] {
    program_builder p;
    auto sum = p.input("x");
    for (int i = 0; i < 4; ++i) sum = p.add("sum", add(sum, sum));
    const auto program = std::move(p).build({sum}, {.capture = capture_policy::automatic});
    prepared known;
    await([&] {
      (void)results_of({program, {input}});
      known = prepare_of({.what = program, .inputs = {tensor_spec::of(input)}});
      return known.captured || !known.not_captured.empty();
    });
    return known.not_captured;
  };
  EXPECT_NE(reason(), "the inputs and outputs are too large");
  auto without = real;
  without.function_param_info = nullptr;
  (void)cuda::exchange_driver(without);
  EXPECT_EQ(reason(), "the inputs and outputs are too large");
}

// The trial of a change during the capture shows it.
TEST_P(arguments_of_programs, are_replaced_by_copies_where_the_driver_refuses_them) {
  auto refusing = real;
  refusing.graph_set_kernel_params = [](CUgraphExec, CUgraphNode, const CUDA_KERNEL_NODE_PARAMS*) {
    ++sets;
    return CUDA_ERROR_INVALID_VALUE;
  };
  (void)cuda::exchange_driver(refusing);
  program_builder p;
  const auto x = p.input("x");
  const auto program =
      std::move(p).build({p.add("sum", add(x, x))}, {.capture = capture_policy::at_prepare});
  const auto before = sets.load();
  for (int i = 0; i < 3; ++i) {
    const auto input = numbers({8, 8});
    EXPECT_EQ(bits(results_of({program, {input}})[0]), bits(alone(add(input, input))));
  }
  EXPECT_EQ(test_executor().status().plans.captured, 1U);
  EXPECT_EQ(sets, before + 1) << "during the capture";
}

INSTANTIATE_TEST_SUITE_P(devices, arguments_of_programs, every_device(), parameter_name);

}  // namespace
}  // namespace sluice::test
