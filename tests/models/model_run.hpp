// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/models/model.hpp>
#include <sluice/operations/host_tensor.hpp>
#include <sluice/operations/tensors.hpp>

#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>

namespace sluice::test {

/// Runs models on one device.
class model_run {
 public:
  explicit model_run(std::string_view device);
  model_run(const model_run&) = delete;
  model_run& operator=(const model_run&) = delete;
  ~model_run();

  /// The results of a program. @throws error the answer of the run, if it is an error
  [[nodiscard]] host_tensors run(const model_program& made,
                                 const std::map<std::string, host_tensor>& inputs);
  /// Likewise of a model. Inputs that must be bound are bound, and so are those that `bound` has;
  /// it then has all of them.
  [[nodiscard]] host_tensors run(const model& what,
                                 const std::map<std::string, host_tensor>& inputs,
                                 std::set<std::string>& bound);

 private:
  class serving;
  std::unique_ptr<serving> serving_;
};

}  // namespace sluice::test
