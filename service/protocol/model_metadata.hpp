// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "service/protocol/datatype.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace sluice::service {

/// An input or an output of a model.
struct tensor_metadata {
  std::string name{};
  datatype type = datatype::fp32;
  std::vector<std::int64_t> shape{};  ///< -1: any extent
};

/// What clients may know of a model.
struct model_metadata {
  std::string name{};
  std::vector<std::string> versions{};  ///< that are served, as numbers in ascending order
  std::string platform{};               ///< "onnx_sluice", or "ensemble" for a chain
  std::vector<tensor_metadata> inputs{};
  std::vector<tensor_metadata> outputs{};
};

}  // namespace sluice::service
