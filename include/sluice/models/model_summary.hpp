// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace sluice {

/// A set of operators that a model imports, in one version.
struct model_opset {
  std::string domain{};      ///< empty: that of ONNX itself
  std::int64_t version = 0;  ///< as the file states it
};

/// An operator, or a function of the model, that nodes of a model name.
struct model_operator {
  std::string domain{};     ///< empty: that of ONNX itself
  std::string name{};       ///< "Conv"
  std::uint64_t nodes = 0;  ///< the number of nodes that name it
};

/// The contents of a file of a model. See `model::summary`.
///
/// Nodes and constants in graphs within nodes and in functions count once each, however often the
/// graph or the function is computed.
struct model_summary {
  std::int64_t ir_version = 0;        ///< the version of the format
  std::string producer{};             ///< the program that has written it; empty if not stated
  std::string producer_version{};     ///< its version; empty if not stated
  std::vector<model_opset> opsets{};  ///< in the order of the file
  std::vector<model_operator> operators{};  ///< the most frequent operator first, then by name
  /// The elements of all constants, which are initializers and `Constant` nodes, as their shapes
  /// state them.
  std::uint64_t parameters = 0;
  /// The size of these elements. Those of a type that sluice does not have count as 0.
  std::uint64_t parameter_bytes = 0;
};

}  // namespace sluice
