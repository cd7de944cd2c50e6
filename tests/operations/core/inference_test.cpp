// SPDX-License-Identifier: Apache-2.0
// Mistakes that the author of an operation can make in `infer`, and outputs that are optional.
#include "tests/operations/executing.hpp"
#include "tests/support/expect_error.hpp"

#include <sluice/operations/indexed_operation.hpp>
#include <sluice/operations/transfer.hpp>

#include <gtest/gtest.h>

#include <cstddef>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

namespace sluice::test {
namespace {

struct relu_body {
  const float* x;
  float* y;
  bool* mask;
  void operator()(std::size_t i) const {
    const bool positive = x[i] > 0;
    if (y != nullptr) y[i] = positive ? x[i] : 0;
    if (mask != nullptr) mask[i] = positive;
  }
};

/// y = max(x, 0), and mask = x > 0 if it is given. What `infer` does wrong is a parameter.
struct relu {
  enum class mistake {
    none,
    no_result,
    copies,
    structured_binding,
    ignores_all,
    updates_an_input,
    result_of_an_input,
    input_in_place
  };

  operand x{};
  operand y{};
  operand mask{};
  mistake does = mistake::none;
  static constexpr auto members() {
    return std::make_tuple(input("x", &relu::x), output("y", &relu::y), output("mask", &relu::mask),
                           parameter("does", &relu::does));
  }
  static constexpr std::string_view name = "relu";
  static constexpr bool has_kernel = false;
  struct call {
    std::size_t count;
  };
  static call infer(const relu& op, inference& inference) {
    if (op.does == mistake::structured_binding) {
      auto [x, y, mask, does] = op;
      return {inference.require(x).size()};
    }
    if (op.does == mistake::copies) {
      for (const auto& one : {op.x, op.y}) {
        if (inference.given(one) != nullptr && inference.given(one)->type != element_type::f32) {
          throw inference.refusal(one, "is not of type f32");
        }
      }
    }
    const auto& x = inference.require(op.x);
    if (op.does == mistake::updates_an_input) inference.update(op.x);
    if (op.does == mistake::result_of_an_input) inference.result(op.x, x.type, x.shape);
    if (op.does == mistake::input_in_place) inference.allow_in_place(op.x, op.x);
    if (op.does == mistake::ignores_all) {
      inference.ignore(op.y);
    } else if (op.does != mistake::no_result) {
      inference.result(op.y, x.type, x.shape);
    }
    if (inference.given(op.mask) != nullptr) {
      inference.result(op.mask, element_type::boolean, x.shape);
    } else {
      inference.ignore(op.mask);
    }
    return {x.size()};
  }
  static relu_body body(const call&, const launch_of<relu>& launch) {
    return {launch.get<const float>(&relu::x), launch.get<float>(&relu::y),
            launch.get<bool>(&relu::mask)};
  }
};

/// y = a copy of x by a plan, whose call has no launch key.
struct keyless {
  operand x{};
  operand y{};
  static constexpr auto members() {
    return std::make_tuple(input("x", &keyless::x), output("y", &keyless::y));
  }
};
struct keyless_call {
  std::size_t count;
};
struct keyless_plan final : operation_plan {
  std::size_t element = sizeof(float);
};

const operation_descriptor& descriptor_of(operation_type<keyless>) {
  static const typed_operation_descriptor<keyless, keyless_call> descriptor(
      {.name = "keyless",
       .infer = [](const keyless& op, inference& inference) -> keyless_call {
         const auto& x = inference.require(op.x);
         (void)inference.result(op.y, x.type, x.shape);
         return {x.size()};
       },
       .host = {.library = "test",
                .prepare = [](lane_libraries&) {},
                .make_plan = [](lane_libraries&,
                                const keyless_call&) -> std::shared_ptr<const operation_plan> {
                  return std::make_shared<keyless_plan>();
                }},
       .compute =
           [](const keyless_call& call, const launch_of<keyless>& launch) {
             std::memcpy(launch.get<void>(&keyless::y), launch.get<const void>(&keyless::x),
                         call.count * launch.plan<keyless_plan>().element);
           }});
  return descriptor;
}

class own_inference : public executor_test {
 protected:
  void SetUp() override {
    executor_test::SetUp();
    if (!IsSkipped())
      x_ = run(test_executor(), sluice::upload{.values = std::vector<float>{-1, 2, -3, 4, -5, 6}});
  }
  void TearDown() override {
    x_ = tensor();
    executor_test::TearDown();
  }
  template <class T>
  std::vector<T> values(const tensor& source) {
    const auto result = std::make_shared<host_tensor>();
    (void)run(test_executor(), sluice::download{.x = source, .target = result});
    return result->to_vector<T>();
  }
  [[nodiscard]] const tensor& x() const { return x_; }

 private:
  tensor x_;
};

TEST_P(own_inference, an_ignored_output_that_is_not_given_is_an_empty_tensor) {
  const std::vector<float> expected{0, 2, 0, 4, 0, 6};
  const auto alone = run(test_executor(), relu{.x = x()});
  ASSERT_EQ(alone.size(), 2U);
  EXPECT_FALSE(alone[1]);
  const auto& y = alone[0];
  EXPECT_EQ(y.type(), element_type::f32);
  EXPECT_EQ(values<float>(y), expected);
  const auto mask = run(test_executor(), fill{.shape = extents{6}, .type = element_type::boolean});
  EXPECT_EQ(run(test_executor(), relu{.x = x(), .y = y, .mask = mask}), (tensors{y, mask}));
  EXPECT_EQ(values<bool>(mask), (std::vector<bool>{false, true, false, true, false, true}));
  EXPECT_EQ(run(test_executor(), relu{.x = x(), .does = relu::mistake::ignores_all}),
            (tensors{tensor(), tensor()}));
}

TEST_P(own_inference, a_mistake_in_infer_refuses_the_request) {
  const auto before = runtime().statistics();
  const auto refused = [&](const char* text, const relu& operation) {
    SCOPED_TRACE(text);
    EXPECT_TRUE(
        throws(errc::invalid_argument, text, [&] { (void)run(test_executor(), operation); }));
  };
  refused("y: infer states no result", {.x = x(), .does = relu::mistake::no_result});
  const auto small = x().slice(0, 0, 1);
  refused("y: infer states no result", {.x = x(), .y = small, .does = relu::mistake::no_result});
  refused("is a copy", {.x = x(), .does = relu::mistake::copies});
  refused("x: is an input", {.x = x(), .does = relu::mistake::updates_an_input});
  refused("x: is an input", {.x = x(), .does = relu::mistake::result_of_an_input});
  refused("x: is an input", {.x = x(), .does = relu::mistake::input_in_place});
  refused("is a copy", {.x = x(), .does = relu::mistake::structured_binding});
  EXPECT_EQ(runtime().statistics().launches, before.launches);
  EXPECT_EQ(runtime().statistics().blocks, before.blocks);
}

TEST_P(own_inference, the_library_objects_of_an_operation_are_not_taken_for_its_plan) {
  const auto fresh = make_executor();
  fresh->prepare(descriptor_of(operation_type<keyless>{}));
  EXPECT_EQ(values<float>(run(*fresh, keyless{.x = x()})), values<float>(x()));
}

INSTANTIATE_TEST_SUITE_P(devices, own_inference, ::testing::Values(std::string("host")),
                         parameter_name);

}  // namespace
}  // namespace sluice::test
