// SPDX-License-Identifier: Apache-2.0
#include "service/front/sequence_backend.hpp"

#include "service/front/sequence_dispatch.hpp"

#include <utility>

namespace sluice::service {
namespace {

// The numbers of requests of sequences have this bit, which those of the backend never reach.
constexpr model_backend::number sequence_bit = model_backend::number{1} << 63U;

}  // namespace

sequence_backend::sequence_backend(model_backend& backend, sequence_limits limits,
                                   std::function<std::chrono::steady_clock::time_point()> now)
    : backend_(backend),
      dispatch_(std::make_shared<sequence_dispatch>(backend, limits, std::move(now))) {}

sequence_backend::~sequence_backend() {
  dispatch_->close();
}

bool sequence_backend::is_ready() const {
  return backend_.is_ready();
}

model_metadata sequence_backend::describe(std::string_view model, std::string_view version) const {
  return backend_.describe(model, version);
}

model_config sequence_backend::configuration(std::string_view model,
                                             std::string_view version) const {
  return backend_.configuration(model, version);
}

std::vector<repository_entry> sequence_backend::index() const {
  return backend_.index();
}

void sequence_backend::load(std::string model, load_answer done) {
  backend_.load(std::move(model), std::move(done));
}

void sequence_backend::unload(std::string model, load_answer done) {
  backend_.unload(std::move(model), std::move(done));
}

backend_status sequence_backend::status() const {
  return backend_.status();
}

state_descriptor sequence_backend::state_of(std::string_view model,
                                            std::string_view version) const {
  return backend_.state_of(model, version);
}

std::unique_ptr<input_memory> sequence_backend::allocate(std::span<const std::uint64_t> sizes) {
  return backend_.allocate(sizes);
}

model_backend::number sequence_backend::submit(run_request request,
                                               std::unique_ptr<input_memory> inputs,
                                               std::function<void(run_result)> done) {
  if (!request.sequence) {
    return backend_.submit(std::move(request), std::move(inputs), std::move(done));
  }
  const auto submitted = std::make_shared<sequence_request>();
  submitted->number = next_number_.fetch_add(1, std::memory_order_relaxed) | sequence_bit;
  submitted->starts = request.sequence->starts;
  submitted->ends = request.sequence->ends;
  submitted->outputs = request.outputs;
  submitted->run = std::move(request);
  submitted->inputs = std::move(inputs);
  submitted->done = std::move(done);
  dispatch_->submit(submitted);
  return submitted->number;
}

void sequence_backend::cancel(number request) noexcept {
  if ((request & sequence_bit) == 0) return backend_.cancel(request);
  dispatch_->cancel(request);
}

void sequence_backend::expire() {
  dispatch_->expire();
}

sequence_statistics sequence_backend::statistics() const {
  return dispatch_->statistics();
}

}  // namespace sluice::service
