// SPDX-License-Identifier: Apache-2.0
#include "tests/models/model_run.hpp"

#include "tests/operations/executing.hpp"

#include <sluice/envelope/device_service.hpp>
#include <sluice/operations/executor.hpp>
#include <sluice/operations/run.hpp>

#include <utility>
#include <vector>

namespace sluice::test {

class model_run::serving {
 public:
  explicit serving(std::string_view device) : executor_(std::make_shared<device_service>(device)) {
    executor_.on_wake([rung = alarm_] { rung->ring(); });
  }
  host_tensors run(run_to_host request) {
    pending<host_tensors> answer(alarm_);
    executor_.submit(std::move(request), {}, answer.token());
    for (executor_.work(); !answer.answered(); executor_.work()) alarm_->await();
    return answer.get();
  }

 private:
  std::shared_ptr<alarm> alarm_ = std::make_shared<alarm>();
  executor executor_;
};

model_run::model_run(std::string_view device) : serving_(std::make_unique<serving>(device)) {}
model_run::~model_run() = default;

host_tensors model_run::run(const model_program& made,
                            const std::map<std::string, host_tensor>& inputs) {
  run_to_host request{.what = made.program};
  for (const auto& name : made.inputs) request.inputs.emplace_back(inputs.at(name));
  return serving_->run(std::move(request));
}

host_tensors model_run::run(const model& what, const std::map<std::string, host_tensor>& inputs,
                            std::set<std::string>& bound) {
  for (;;) {
    std::map<std::string, tensor_spec> specs;
    std::map<std::string, host_tensor> values;
    for (const auto& [name, x] : inputs) {
      if (bound.contains(name)) {
        values.emplace(name, x);
      } else {
        specs.emplace(name, tensor_spec::row_major(x.type(), x.shape()));
      }
    }
    try {
      return run(what.program_for(specs, values), inputs);
    } catch (const unbound_inputs& e) {
      if (e.names().empty()) throw;
      bound.insert(e.names().begin(), e.names().end());
    }
  }
}

}  // namespace sluice::test
