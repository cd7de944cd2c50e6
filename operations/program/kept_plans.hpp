// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/operations/operation_descriptor.hpp>
#include <sluice/operations/operation_plan.hpp>

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>

namespace sluice::operations {

/// The plans of steps by descriptor and launch key.
using plans_by_key = std::map<std::pair<const operation_descriptor*, std::string>,
                              std::shared_ptr<const operation_plan>>;

/// The plans of the steps of an executable that is made in several attempts. Each attempt makes at
/// least one plan more.
struct kept_plans {
  plans_by_key plans{};                    ///< that earlier attempts have made
  std::function<bool()> is_interrupted{};  ///< called after each new plan; null: never
  bool was_interrupted = false;            ///< that is why the attempt has failed
};

}  // namespace sluice::operations
