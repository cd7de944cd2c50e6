// SPDX-License-Identifier: Apache-2.0
#include "service/front/worker_backend.hpp"

#include "service/front/worker_supervisor.hpp"

#include <utility>

namespace sluice::service {

worker_backend::worker_backend(worker_options options)
    : supervisor_(std::make_unique<worker_supervisor>(std::move(options))) {}

worker_backend::~worker_backend() = default;

bool worker_backend::is_ready() const {
  return supervisor_->is_ready();
}

model_metadata worker_backend::describe(std::string_view model, std::string_view version) const {
  return supervisor_->describe(model, version);
}

model_config worker_backend::configuration(std::string_view model, std::string_view version) const {
  return supervisor_->configuration(model, version);
}

std::vector<repository_entry> worker_backend::index() const {
  return supervisor_->index();
}

void worker_backend::load(std::string model, load_answer done) {
  supervisor_->load(std::move(model), std::move(done));
}

void worker_backend::unload(std::string model, load_answer done) {
  supervisor_->unload(std::move(model), std::move(done));
}

backend_status worker_backend::status() const {
  return supervisor_->status();
}

state_descriptor worker_backend::state_of(std::string_view model, std::string_view version) const {
  return supervisor_->state_of(model, version);
}

std::unique_ptr<input_memory> worker_backend::allocate(std::span<const std::uint64_t> sizes) {
  return supervisor_->allocate(sizes);
}

model_backend::number worker_backend::submit(run_request request,
                                             std::unique_ptr<input_memory> inputs,
                                             std::function<void(run_result)> done) {
  return supervisor_->submit(std::move(request), std::move(inputs), std::move(done));
}

void worker_backend::drain() noexcept {
  supervisor_->drain();
}

std::shared_ptr<void> worker_backend::receive_on(std::vector<boost::asio::io_context*> loops) {
  return supervisor_->receive_on(std::move(loops));
}

void worker_backend::cancel(number request) noexcept {
  supervisor_->cancel(request);
}

}  // namespace sluice::service
