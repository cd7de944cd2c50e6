// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "models/messages.hpp"

#include <sluice/models/model.hpp>

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <string>

namespace sluice::test {

using spec_map = std::map<std::string, tensor_spec>;

inline onnx::ModelProto message_of(const std::filesystem::path& path) {
  onnx::ModelProto message;
  std::ifstream stream(path, std::ios::binary);
  EXPECT_TRUE(message.ParseFromIstream(&stream));
  return message;
}
/// The operators of the nodes, with their domains: "MatMul sluice.gemm".
inline std::string operators_of(const std::filesystem::path& path) {
  std::string all;
  const auto message = message_of(path);
  for (const auto& node : message.graph().node()) {
    if (!all.empty()) all += ' ';
    all += node.domain().empty() ? node.op_type() : node.domain() + '.' + node.op_type();
  }
  return all;
}
/// The program of a file, with the steps that the file states.
inline model_program read_as_written(const std::filesystem::path& path, const spec_map& specs) {
  return model::open(path).program_for(specs, {}, {.max_in_batch = 1, .optimize = false});
}

}  // namespace sluice::test
