// SPDX-License-Identifier: Apache-2.0
// The devices of workers.
#include "service/front/worker_device.hpp"

#include "service/front/worker_process.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace sluice::service {
namespace {

const std::string uuid = "GPU-8c1f3a52-0b1d-4e6f-9a3b-2C4D5E6F7A8B";

TEST(worker_device, has_a_name) {
  for (const auto& name :
       {std::string("auto"), std::string("host"), std::string("cuda"), std::string("cuda:0"),
        std::string("cuda:12"), uuid, "MIG-" + uuid.substr(4)}) {
    EXPECT_TRUE(is_worker_device(name)) << name;
  }
  for (const auto& name :
       {std::string(), std::string("cuda:"), std::string("cuda:-1"), std::string("cuda:1,2"),
        std::string("GPU-"), uuid.substr(1), uuid.substr(0, uuid.size() - 1), uuid + "0",
        uuid + "-", uuid + ",0", "GPU-" + std::string(36, '0'), "GPU-" + std::string(36, '-')}) {
    EXPECT_FALSE(is_worker_device(name)) << name;
  }
}

TEST(worker_device, is_passed_to_the_worker) {
  worker_program numbered;
  set_worker_device(numbered, "cuda:1");
  EXPECT_EQ(numbered.arguments, (std::vector<std::string>{"--device", "cuda:1"}));
  EXPECT_TRUE(numbered.environment.empty());
  EXPECT_TRUE(numbered.device.empty());
  worker_program named;
  set_worker_device(named, uuid);
  EXPECT_EQ(named.arguments, (std::vector<std::string>{"--device", "cuda"}));
  EXPECT_EQ(named.environment, (std::vector<std::string>{"CUDA_VISIBLE_DEVICES=" + uuid}));
  EXPECT_EQ(named.device, uuid);
}

}  // namespace
}  // namespace sluice::service
