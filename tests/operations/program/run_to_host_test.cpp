// SPDX-License-Identifier: Apache-2.0
// Runs whose results go to host memory.
#include "tests/operations/program/programs.hpp"
#include "tests/operations/program/random_program.hpp"
#include "tests/support/expect_error.hpp"
#include "tests/support/gate.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <utility>
#include <vector>

namespace sluice::test {
namespace {

class run_to_host_test : public programs {
 protected:
  host_tensors on_host(sluice::run_to_host request, const request_options& options = {}) {
    return run(test_executor(), std::move(request), options);
  }
  /// Has the shapes and the bits of the results on the device.
  void expect_equal(const host_tensors& found, const std::vector<tensor>& expected) {
    ASSERT_EQ(found.size(), expected.size());
    for (std::size_t i = 0; i < expected.size(); ++i) {
      const auto there = get(expected[i]);
      ASSERT_EQ(found[i].shape(), there.shape());
      ASSERT_EQ(found[i].type(), there.type());
      const auto* const a = static_cast<const std::byte*>(std::as_const(found[i]).data().get());
      const auto* const b = static_cast<const std::byte*>(std::as_const(there).data().get());
      ASSERT_TRUE(std::equal(a, a + there.bytes(), b)) << "output " << i;
    }
  }
};

TEST_P(run_to_host_test, equals_a_run_and_downloads) {
  auto generator = make_generator();
  for (int round = 0; round < 20; ++round) {
    const program_options options{.capture = round % 2 == 0 ? capture_policy::at_prepare
                                                            : capture_policy::never};
    const random_program random(*this, generator, 1 + generator() % 15, options);
    for (int again = 0; again < 3; ++again) {
      std::vector<run_input> run_inputs(random.inputs().begin(), random.inputs().end());
      for (auto& input : run_inputs) {
        if (generator() % 2 == 0) input = get(input.on_device());
      }
      expect_equal(on_host({random.get(), run_inputs, random.scalars()}), random.expected());
    }
  }
}

TEST_P(run_to_host_test, packs_views) {
  program_builder p;
  const auto x = p.input("x");
  const auto sum = p.add("sum", add(x, x));
  const program program =
      std::move(p).build({sum.transposed(), sum, sum.slice(1, 1, std::nullopt, 2), sum.select(0, 2),
                          sum.slice(0, 1, 3), sum.reshape({-1}), sum.slice(0, 0, 0)});
  const auto input = numbers({5, 6});
  const auto alone_sum = alone(add(input, input));
  const std::vector<tensor> expected{alone_sum.transposed(),      alone_sum,
                                     alone_sum.slice(1, 1, 6, 2), alone_sum.select(0, 2),
                                     alone_sum.slice(0, 1, 3),    alone_sum.reshape({-1}),
                                     alone_sum.slice(0, 0, 0)};
  for (int i = 0; i < 3; ++i) expect_equal(on_host({program, {input}}), expected);
  // Large outputs go through the ring of pinned memory.
  const auto large = numbers({700, 900});
  const auto of_large = alone(add(large, large));
  const auto results = on_host({program, {get(large)}});
  expect_equal({results[0], results[1]}, {of_large.transposed(), of_large});
}

TEST_P(run_to_host_test, packs_results_in_another_order_of_dimensions) {
  program_builder p;
  const auto turned = p.add("turned", negate(p.input("x").permute({2, 0, 1})));
  const program program = std::move(p).build({turned, p.add("sum", add(turned, 1))});
  const auto x = numbers({5, 6, 7});
  const auto result = alone(negate(x.permute({2, 0, 1})));
  EXPECT_EQ(result.strides(), (extents{1, 42, 7}));
  const std::vector<tensor> expected{result, alone(add(result, 1))};
  expect_equal(on_host({program, {x}}), expected);
  expect_equal(on_host({program, {get(x)}}), expected);
  const auto elements = get(result).to_vector<float>();
  const auto original = values(x);
  for (std::size_t i = 0; i < elements.size(); ++i) {
    ASSERT_EQ(elements[i], -original[i % 30 * 7 + i / 30]);
  }
}

// The last step writes the memory that is downloaded, or that of a given output, in its order.
TEST_P(run_to_host_test, needs_no_copies_of_results_in_another_order_of_dimensions) {
  program_builder p;
  const auto x = p.input("x");
  const program program = std::move(p).build({p.add("turned", exp(x.permute({2, 0, 1})))});
  const auto input = numbers({5, 6, 7});
  const auto expected = alone(exp(input.permute({2, 0, 1})));
  const auto commands = [&](sluice::prepare request) {
    request.what = program;
    request.inputs = {tensor_spec::of(input)};
    return prepare_of(std::move(request));
  };
  const auto row_major = tensor_spec::row_major(element_type::f32, {7, 5, 6});
  EXPECT_EQ(commands({}).outputs[0].strides, expected.strides());
  EXPECT_EQ(commands({.to_host = true}).outputs[0].strides, row_major.strides);
  for (const auto& request :
       {sluice::prepare{.to_host = true}, sluice::prepare{.outputs = {row_major}},
        sluice::prepare{.outputs = {tensor_spec::of(expected)}}}) {
    EXPECT_EQ(commands(request).commands, commands({}).commands);
    EXPECT_EQ(commands(request).scratch_bytes, 0U);
  }
  const auto output = numbers({7, 5, 6});
  EXPECT_EQ(results_of({program, {input}, {output}})[0], output);
  EXPECT_EQ(bits(output), bits(expected));
  expect_equal(on_host({program, {input}}), {expected});
  // A view of the result must not depend on its output.
  program_builder q;
  const auto turned = q.add("turned", exp(q.input("x").transposed()));
  (void)turned.permute({1, 0}).reshape({-1});
  const auto viewed = std::move(q).build({turned});
  const auto square = numbers({4, 4});
  expect_equal(on_host({viewed, {square}}), {alone(exp(square.transposed()))});
  // Elements with gaps are copied at the end.
  const auto gaps = numbers({7, 5, 12}).slice(2, 0, 12, 2);
  EXPECT_EQ(results_of({program, {input}, {gaps}})[0], gaps);
  EXPECT_EQ(bits(gaps), bits(expected));
}

TEST_P(run_to_host_test, is_prepared_ahead) {
  program_builder p;
  const auto x = p.input("x");
  const auto sum = p.add("sum", add(x, x));
  const program program = std::move(p).build({sum.transposed()});
  const auto input = numbers({3, 4});
  const auto known =
      prepare_of({.what = program, .inputs = {tensor_spec::of(input)}, .to_host = true});
  EXPECT_EQ(known.outputs[0].shape, (extents{4, 3}));
  const auto plans = test_executor().status().plans.made;
  expect_equal(on_host({program, {input}}), {alone(add(input, input)).transposed()});
  EXPECT_EQ(test_executor().status().plans.made, plans);
  EXPECT_TRUE(throws(errc::invalid_argument, "outputs: are given", [&] {
    (void)prepare_of({.what = program,
                      .inputs = {tensor_spec::of(input)},
                      .outputs = {tensor_spec::row_major(element_type::f32, {4, 3})},
                      .to_host = true});
  }));
}

/// A tensor in external memory. Its last owner sets `destroyed`.
host_tensor external_tensor(element_type type, const extents& shape, std::atomic<bool>& destroyed) {
  const auto bytes = host_tensor(type, shape).bytes();
  const std::shared_ptr<std::byte> memory(new (std::align_val_t(256)) std::byte[bytes],
                                          [&destroyed](std::byte* address) {
                                            ::operator delete[](address, std::align_val_t(256));
                                            destroyed = true;
                                          });
  return host_tensor::external(memory, type, shape);
}

TEST_P(run_to_host_test, writes_to_given_outputs) {
  program_builder p;
  const auto x = p.input("x");
  const auto sum = p.add("sum", add(x, x));
  const program program = std::move(p).build({sum.transposed(), sum, sum.select(0, 2)});
  // The last one goes through the ring of pinned memory.
  for (const auto& shape : {extents{5, 6}, extents{700, 900}}) {
    const auto input = numbers(shape);
    const auto alone_sum = alone(add(input, input));
    const std::vector<tensor> expected{alone_sum.transposed(), alone_sum, alone_sum.select(0, 2)};
    std::array<std::atomic<bool>, 2> destroyed{};
    {
      const auto first =
          external_tensor(element_type::f32, {shape[1], shape[0]}, destroyed.front());
      const auto last = external_tensor(element_type::f32, {shape[1]}, destroyed.back());
      const auto results = on_host(
          {.what = program, .inputs = {get(input)}, .outputs = {first, host_tensor(), last}});
      expect_equal(results, expected);
      EXPECT_EQ(results[0].data(), std::as_const(first).data());
      EXPECT_EQ(results[2].data(), std::as_const(last).data());
      EXPECT_FALSE(destroyed.front() || destroyed.back());
    }
    await([&] {
      runtime().reap_pending();
      return destroyed.front() && destroyed.back();
    });
  }
}

TEST_P(run_to_host_test, refuses_outputs_that_do_not_fit) {
  program_builder p;
  const program program = std::move(p).build({p.add("sum", add(p.input("x"), 1))});
  const auto refuses = [&](const std::vector<host_tensor>& outputs, const char* text) {
    return throws(errc::invalid_argument, text, [&] {
      (void)on_host({.what = program, .inputs = {numbers({3, 4})}, .outputs = outputs});
    });
  };
  const host_tensor fitting(element_type::f32, {3, 4});
  EXPECT_TRUE(refuses({fitting, fitting}, "outputs: there are 2, but the program has 1"));
  EXPECT_TRUE(refuses({host_tensor(element_type::f16, {3, 4})}, "is of type f16"));
  EXPECT_TRUE(refuses({host_tensor(element_type::f32, {4, 3})}, "has the shape [4, 3]"));
  EXPECT_TRUE(refuses({host_tensor(element_type::f32, {12})}, "has the shape [12]"));
}

TEST_P(run_to_host_test, keeps_a_given_output_until_nothing_writes_it) {
  program_builder p;
  const auto x = p.input("x");
  const program program = std::move(p).build({p.add("sum", add(x, x))});
  const auto input = numbers({16, 16});
  (void)on_host({program, {input}});
  std::atomic<bool> destroyed{false};
  gate closed;
  closed.hold(test_executor().lane().stream());
  auto late = submit(
      test_executor(),
      sluice::run_to_host{.what = program,
                          .inputs = {input},
                          .outputs = {external_tensor(element_type::f32, {16, 16}, destroyed)}},
      {.deadline = timer().now() + std::chrono::milliseconds(5)});
  timer().advance(std::chrono::milliseconds(5));
  EXPECT_TRUE(throws(errc::deadline_exceeded, "", [&] { (void)wait(late); }));
  EXPECT_FALSE(destroyed);
  closed.open();
  await([&] {
    runtime().reap_pending();
    return destroyed.load();
  });
}

// A client that has its answer can allocate the memory again, and shares its own with nobody.
TEST_P(run_to_host_test, has_returned_all_memory_when_the_answer_comes) {
  program_builder p;
  const auto x = p.input("x");
  const program program = std::move(p).build({p.add("sum", add(x, x))});
  const auto input = numbers({16, 16});
  (void)on_host({program, {input}});
  const auto before = runtime().bytes_outstanding();
  for (int i = 0; i < 20; ++i) {
    std::size_t bytes = 0;
    long owners = 0;
    const auto alarm = waking_alarm();
    std::atomic<bool> answered{false};
    test_executor().submit(sluice::run_to_host{program, {input}}, {},
                           reply_token<host_tensors>::from(
                               [&, alarm](const host_tensors& results) {
                                 bytes = runtime().bytes_outstanding();
                                 owners = std::as_const(results[0]).data().use_count() - 1;
                                 answered = true;
                                 alarm->ring();
                               },
                               [&, alarm](const error&) {
                                 answered = true;
                                 alarm->ring();
                               }));
    for (test_executor().work(); !answered; test_executor().work()) alarm->await();
    EXPECT_LE(bytes, before);
    EXPECT_EQ(owners, 1);
  }
}

TEST_P(run_to_host_test, leaves_no_memory_behind) {
  program_builder p;
  const auto x = p.input("x");
  const program program = std::move(p).build({p.add("sum", add(x, x))});
  const auto input = numbers({64, 64});
  (void)on_host({program, {input}});
  const auto before = runtime().statistics().blocks;
  for (int i = 0; i < 50; ++i) (void)on_host({program, {input}});
  await([&] {
    runtime().reap_pending();
    return runtime().statistics().blocks <= before;
  });
}

TEST_P(run_to_host_test, is_answered_with_one_error) {
  program_builder p;
  const auto x = p.input("x");
  const program program = std::move(p).build({p.add("product", gemm{.a = x, .b = x})});
  EXPECT_TRUE(throws(errc::invalid_argument, "step 'product': b:", [&] {
    (void)on_host({program, {numbers({3, 4})}});
  }));
  EXPECT_TRUE(throws(errc::invalid_argument, "what: is no program", [&] { (void)on_host({}); }));
  const auto input = numbers({3, 3});
  (void)on_host({program, {input}});
  // The answer comes at the deadline. The launch then still fills memory that nobody else has.
  gate closed;
  closed.hold(test_executor().lane().stream());
  auto late = submit(test_executor(), sluice::run_to_host{program, {input}},
                     {.deadline = timer().now() + std::chrono::milliseconds(5)});
  EXPECT_FALSE(late.answered());
  timer().advance(std::chrono::milliseconds(5));
  EXPECT_TRUE(throws(errc::deadline_exceeded, "", [&] { (void)wait(late); }));
  closed.open();
  expect_equal(on_host({program, {input}}), {alone(gemm{.a = input, .b = input})});
}

INSTANTIATE_TEST_SUITE_P(devices, run_to_host_test, every_device(), parameter_name);

}  // namespace
}  // namespace sluice::test
