// SPDX-License-Identifier: Apache-2.0
#include "tests/support/expect_error.hpp"

#include <sluice/runtime/device.hpp>
#include <sluice/runtime/device_id.hpp>

#include <gtest/gtest.h>

#include <string>

namespace sluice::test {
namespace {

TEST(device_names, are_read_as_they_are_written) {
  for (const auto id : {device_id{device_kind::host, 0}, device_id{device_kind::cuda, 0},
                        device_id{device_kind::cuda, 12}}) {
    EXPECT_EQ(parse_device_id(to_string(id)), id);
  }
  EXPECT_EQ(parse_device_id("host"), (device_id{device_kind::host, 0}));
  EXPECT_EQ(parse_device_id("cuda"), (device_id{device_kind::cuda, 0}));
  EXPECT_EQ(to_string({device_kind::cuda, 3}), "cuda:3");
}

TEST(device_names, that_cannot_be_read_are_refused) {
  for (const std::string name : {"", "gpu", "CUDA", "cuda:", "cuda:x", "cuda:-1", "cuda:1 ",
                                 "cuda:1:2", " host", "host:99999999999999999999", "cuda:0x1"}) {
    EXPECT_TRUE(throws(errc::invalid_argument, "'" + name + "'", [&] {
      (void)parse_device_id(name);
    })) << name;
  }
}

TEST(devices_of_this_machine, end_with_the_host) {
  const auto devices = list_devices();
  ASSERT_FALSE(devices.empty());
  EXPECT_EQ(devices.back().id, (device_id{device_kind::host, 0}));
  for (std::size_t i = 0; i + 1 < devices.size(); ++i) {
    EXPECT_EQ(devices[i].id, (device_id{device_kind::cuda, static_cast<int>(i)}));
  }
  EXPECT_EQ(open_device("auto")->id(), devices.front().id);
  EXPECT_EQ(open_device("host")->id(), devices.back().id);
}

TEST(devices_of_this_machine, do_not_include_others) {
  EXPECT_TRUE(throws(errc::invalid_argument, "cuda:999", [] { (void)open_device("cuda:999"); }));
  EXPECT_TRUE(throws(errc::invalid_argument, "host:1", [] { (void)open_device("host:1"); }));
  EXPECT_TRUE(throws(errc::invalid_argument, "tpu", [] { (void)open_device("tpu"); }));
}

}  // namespace
}  // namespace sluice::test
