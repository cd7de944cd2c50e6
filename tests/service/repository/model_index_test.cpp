// SPDX-License-Identifier: Apache-2.0
#include "service/repository/model_index.hpp"

#include <gtest/gtest.h>

#include <string>

namespace sluice::service {
namespace {

TEST(model_index, knows_names) {
  for (const std::string name : {"a", "resnet50", "A-b_c.d", "0", "-", "a..b", "a."})
    EXPECT_TRUE(is_model_name(name)) << name;
  EXPECT_TRUE(is_model_name(std::string(255, 'x')));
  for (const std::string name : {"", ".", "..", ".a", "..data", "a/b", "/", "a b", "a\n",
                                 "\xc3\xa9", "a:b", "%2e", "a\\b", "*"})
    EXPECT_FALSE(is_model_name(name)) << name;
  EXPECT_FALSE(is_model_name(std::string(256, 'x')));
  EXPECT_FALSE(is_model_name(std::string("a\0b", 3)));
}

TEST(model_index, knows_versions) {
  EXPECT_EQ(version_number("1"), 1u);
  EXPECT_EQ(version_number("20261130"), 20'261'130u);
  EXPECT_EQ(version_number("9223372036854775807"), 9'223'372'036'854'775'807u);
  for (const char* name : {"", "0", "01", "-1", "+1", " 1", "1 ", "1.0", "1a", "0x1", "latest",
                           "9223372036854775808", "18446744073709551616", "99999999999999999999"})
    EXPECT_FALSE(version_number(name).has_value()) << name;
}

TEST(model_index, serves_versions_with_files) {
  indexed_model model;
  model.versions[1].file = file_status();
  model.versions[2].problem = "there is no model.onnx";
  EXPECT_TRUE(served_versions(model).empty()) << "there is no config";
  model.config = model_config();
  EXPECT_EQ(served_versions(model), std::vector<std::uint64_t>{1});
}

}  // namespace
}  // namespace sluice::service
