// SPDX-License-Identifier: Apache-2.0
#include "tests/actors/session_test.hpp"
#include "tests/support/expect_error.hpp"

#include <sluice/actors/answer.hpp>
#include <sluice/actors/device.hpp>

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace sluice::test {
namespace {

/// A service that answers with the sum of the first results of a program.
class converted_answers : public session_test {
 protected:
  static program doubled() {
    program_builder p;
    const auto x = p.input("x");
    return std::move(p).build({p.add(multiply(x, 2))});
  }
  caf::actor summing(const program& program) {
    return s().spawn(
        [programs = device().programs(), program](caf::event_based_actor* self) -> caf::behavior {
          return {[=](const host_tensor& x) {
            const auto to_sum = [](const host_tensors& results) -> std::int32_t {
              float sum = 0;
              for (const float value : results.front().values<float>()) sum += value;
              if (sum < 0) throw error(errc::unsupported, "a negative sum");
              return static_cast<std::int32_t>(sum);
            };
            return answer_with(self, programs, to_sum, run_to_host{program, {x}},
                               request_options{.tag = "sum"});
          }};
        });
  }
};

TEST_P(converted_answers, are_converted_results) {
  const auto service = summing(doubled());
  EXPECT_EQ(s().ask<std::int32_t>(service, host_tensor(std::vector<float>{1, 2, 3})), 12);
}

TEST_P(converted_answers, are_the_error_of_the_request_or_of_the_conversion) {
  const auto service = summing(doubled());
  const auto send = [&](std::vector<float> values) {
    return s().ask<std::int32_t>(service, host_tensor(std::move(values)));
  };
  EXPECT_TRUE(throws(errc::unsupported, "a negative sum", [&] { (void)send({-1, -2}); }));
  EXPECT_TRUE(throws(errc::invalid_argument, "step 'multiply'", [&] {
    (void)s().ask<std::int32_t>(service, host_tensor(std::vector<bool>{true}));
  }));
  // The actor goes on.
  EXPECT_EQ(send({4}), 8);
}

INSTANTIATE_TEST_SUITE_P(devices, converted_answers, every_device(), parameter_name);

}  // namespace
}  // namespace sluice::test
