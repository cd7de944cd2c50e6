// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "service/protocol/request_error.hpp"

#include <gtest/gtest.h>

#include <string>
#include <string_view>

namespace sluice::service {

/// An infer request with one input, whose fields are given as JSON.
[[nodiscard]] inline std::string request_with_input(std::string_view fields) {
  return R"({"inputs":[{)" + std::string(fields) + "}]}";
}

/// An infer request whose only input is named x.
[[nodiscard]] inline std::string request_with(std::string_view datatype, std::string_view shape,
                                              std::string_view data) {
  return request_with_input(R"("name":"x","datatype":")" + std::string(datatype) + R"(","shape":)" +
                            std::string(shape) + R"(,"data":)" + std::string(data));
}

/// Expects an error with this status whose message contains `part`.
template <class Function>
void expect_refusal(Function function, request_status status, std::string_view part) {
  try {
    (void)function();
    ADD_FAILURE() << "not refused";
  } catch (const request_error& error) {
    EXPECT_EQ(error.status(), status) << error.what();
    EXPECT_NE(std::string_view(error.what()).find(part), std::string_view::npos)
        << error.what() << "\nshould contain: " << part;
  }
}

}  // namespace sluice::service
