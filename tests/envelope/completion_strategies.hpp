// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/envelope/completion_engine.hpp>

#include <gtest/gtest.h>

#include <string>

namespace sluice::test {

inline std::string to_string(completion_strategy strategy) {
  switch (strategy) {
    case completion_strategy::polled:
      return "polled";
    case completion_strategy::host_function:
      return "host_function";
    case completion_strategy::synchronous:
      return "synchronous";
  }
  return "unknown";
}

inline auto every_strategy() {
  return testing::Values(completion_strategy::polled, completion_strategy::host_function,
                         completion_strategy::synchronous);
}
/// The strategies with which the launching thread does not wait for a closed gate.
inline auto asynchronous_strategies() {
  return testing::Values(completion_strategy::polled, completion_strategy::host_function);
}

/// Names a test after its strategy.
inline std::string name_of_strategy(const testing::TestParamInfo<completion_strategy>& parameter) {
  return to_string(parameter.param);
}

}  // namespace sluice::test
