// SPDX-License-Identifier: Apache-2.0
#include <sluice/operations/host_bytes.hpp>
#include <sluice/operations/host_tensor.hpp>
#include <sluice/operations/operand.hpp>
#include <sluice/runtime/extents.hpp>

#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace sluice::test {
namespace {

using detail::host_bytes;

TEST(host_bytes, of_values_without_memory_are_0) {
  EXPECT_EQ(host_bytes(1.0), 0U);
  EXPECT_EQ(host_bytes(std::optional<int>(1)), 0U);
  EXPECT_EQ(host_bytes(std::array<int, 100>{}), 0U);
  EXPECT_EQ(host_bytes(extents{1, 2, 3}), 0U);
  const char* const text = "not owned";
  EXPECT_EQ(host_bytes(text), 0U);
}

TEST(host_bytes, of_strings_and_containers_are_counted) {
  const std::string text(1000, 'x');
  EXPECT_GE(host_bytes(text), 1000U);
  EXPECT_GE(host_bytes(std::optional(text)), 1000U);
  EXPECT_GE(host_bytes(std::vector<double>(1000)), 8000U);
  EXPECT_GE(host_bytes(std::vector<std::string>(10, text)), 10'000U);
  EXPECT_GE(host_bytes(std::array<std::string, 2>{text, text}), 2000U);
  EXPECT_GE(host_bytes(std::list<int>(1000)), 16'000U);
  EXPECT_GE(host_bytes(std::map<int, std::string>{{1, text}, {2, text}}), 2000U);
  EXPECT_GE(host_bytes(std::make_shared<const std::vector<char>>(1000)), 1000U);
  EXPECT_EQ(host_bytes(std::shared_ptr<std::string>()), 0U);
}

TEST(host_bytes, of_what_tells_its_bytes_are_these) {
  const host_tensor values(std::vector<float>(100));
  EXPECT_EQ(host_bytes(values), 400U);
  EXPECT_EQ(host_bytes(std::make_shared<host_tensor>(values)), 400U);
  EXPECT_GE(host_bytes(std::vector<host_tensor>(3, values)), 1200U);
}

struct labelled {
  operand x{};
  std::string label{};
  std::vector<float> weights{};
  static constexpr auto members() {
    return std::make_tuple(input("x", &labelled::x), parameter("label", &labelled::label),
                           parameter("weights", &labelled::weights));
  }
};

TEST(host_bytes, of_an_operation_are_those_of_its_parameters) {
  EXPECT_GE(detail::host_bytes_of(
                labelled{.label = std::string(100, 'x'), .weights = std::vector<float>(100)}),
            500U);
}

}  // namespace
}  // namespace sluice::test
