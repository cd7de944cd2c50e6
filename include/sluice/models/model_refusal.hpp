// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/runtime/error.hpp>

#include <string>
#include <vector>

namespace sluice {

/// A reason why sluice makes no program of a model. See `model::refusals`.
struct model_refusal {
  errc code = errc::unsupported;  ///< of the error that `program_for` would throw
  /// The name of the node, or of its first output if it has none. Empty: the reason is about no
  /// single node.
  std::string node{};
  std::string domain{};         ///< of its operator; empty: that of ONNX itself
  std::string operator_name{};  ///< "NonZero"
  bool is_inherent = false;     ///< whatever the inputs are, as for an unknown operator
  std::string reason{};         ///< one printable line
  /// The inputs that must be bound by value for this node; see `unbound_inputs`.
  std::vector<std::string> unbound{};
};

}  // namespace sluice
