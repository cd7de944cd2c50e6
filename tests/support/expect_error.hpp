// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/runtime/error.hpp>

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <utility>

namespace sluice::test {

/// The error that `action` throws; empty when it throws none. Any other exception passes.
template <class Action>
std::optional<error> error_of(Action&& action) {
  try {
    static_cast<void>(action());
  } catch (const error& e) {
    return e;
  }
  return std::nullopt;
}

/// Succeeds if `function` throws a `sluice::error` with `code` and a text that contains `word`.
template <class Function>
::testing::AssertionResult throws(errc code, const std::string& word, Function&& function) {
  try {
    std::forward<Function>(function)();
  } catch (const error& e) {
    if (e.code() != code) {
      return ::testing::AssertionFailure() << "the code is " << to_string(e.code()) << ", not "
                                           << to_string(code) << ": " << e.what();
    }
    if (std::string(e.what()).find(word) == std::string::npos) {
      return ::testing::AssertionFailure()
             << "the text does not mention '" << word << "': " << e.what();
    }
    return ::testing::AssertionSuccess();
  } catch (const std::exception& e) {
    return ::testing::AssertionFailure() << "not a sluice::error: " << e.what();
  }
  return ::testing::AssertionFailure() << "nothing was thrown";
}

}  // namespace sluice::test
