// SPDX-License-Identifier: Apache-2.0
#include "operations/executor/request_launcher.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace sluice::operations {

using detail::failure_of;
using detail::operation_request;

/// The addresses of the operands of one launch, on the heap if there are many.
class request_launcher::operand_addresses {
 public:
  explicit operand_addresses(std::size_t count) : count_(count) {
    if (count > array_.size())
      vector_.resize(count);
    else
      std::fill_n(array_.begin(), count, nullptr);
  }
  [[nodiscard]] void*& operator[](std::size_t i) noexcept { return data()[i]; }
  [[nodiscard]] std::span<void* const> span() noexcept { return {data(), count_}; }

 private:
  [[nodiscard]] void** data() noexcept { return vector_.empty() ? array_.data() : vector_.data(); }

  std::size_t count_;
  std::array<void*, max_operands> array_;  // as many as there are
  std::vector<void*> vector_;
};

/// The element types of the operands of one launch.
class request_launcher::operand_types {
 public:
  explicit operand_types(std::span<const inference::use> uses) noexcept {
    if (uses.size() > types_.size()) return;  // of a program, whose steps have types of their own
    for (const auto& u : uses) types_[count_++] = u.spec ? u.spec->type : element_type();
  }
  [[nodiscard]] std::span<const element_type> span() const noexcept {
    return {types_.data(), count_};
  }

 private:
  std::size_t count_ = 0;
  std::array<element_type, max_operands> types_;  // as many as there are
};

void request_launcher::launch(operation_request& r) noexcept {
  if (const auto failure = failure_of([&] { enqueue(r); })) r.fail(*failure);
}

void request_launcher::launch_together(const request_queue::list& requests) noexcept {
  const auto& founder = *requests.front();
  const operand_types types(founder.uses());
  std::optional<request_batch> batch;
  if (requests.size() != 1) {
    try {
      const auto* const plan = founder.plan.get();
      const auto bytes = plan != nullptr ? plan->batch_workspace_bytes() : 0;
      memory_.use(bytes, [&] { workspace_.require(bytes); });
      batch.emplace(batch_memory_, libraries_, founder.descriptor, founder.call, requests.size(),
                    founder.uses().size(),
                    launch_memory{.types = types.span(),
                                  .plan = plan,
                                  .workspace = bytes != 0 ? workspace_.address() : nullptr});
    } catch (...) {
      // Alone, each of them needs less memory.
    }
  }
  if (!batch) {
    for (const auto& r : requests) launch(*r);
    return;
  }
  improve(founder.plan);
  const kernel_envelope* envelope = nullptr;
  for (const auto& r : requests) {
    if (const auto failure = failure_of([&] { add(*batch, *r, envelope); })) r->fail(*failure);
  }
  if (envelope != nullptr) batch->launch(lane_, *envelope);
}

void request_launcher::improve(const std::shared_ptr<const operation_plan>& plan) noexcept {
  if (plan && plan->wants_improvement()) planning_.improve(plan);
}

void request_launcher::add(request_batch& batch, operation_request& r,
                           const kernel_envelope*& envelope) {
  operands uses;
  operand_addresses addresses(r.uses().size());
  std::unique_ptr<packing> copies;  // stays null
  const auto launch = r.descriptor.begin(libraries_, r.operation(), r.call);
  take_operands(r, uses, addresses, copies);
  const auto facts = r.descriptor.facts(r.call);
  detail::launch_errors_owner errors;
  if (facts.errors != error_detection::none) {
    errors = errors_of(r, facts);
    if (launch) launch->errors = errors.word();
  }
  auto options = options_of(r, facts);
  // The commands count if it is launched alone after all.
  if (r.plan) {
    options.commands += r.plan->commands();
    uses.keep(r.plan);
  }
  std::shared_ptr<operation_launch> finisher;
  if (launch) {
    options.commands += launch->commands();
    uses.keep(launch);
    if (launch->must_finish()) {
      options.when = reply_on::finished;
      finisher = launch;
    }
  }
  // Equal calls have equal types.
  if (envelope == nullptr) envelope = &envelope_of(r.descriptor, r.type());
  auto work = r.launch(*envelope, lane_, std::move(uses), options, std::move(finisher));
  if (work && errors.get() != nullptr) work->find_errors(std::move(errors));
  if (work) batch.add(std::move(work), addresses.span(), launch.get());
}

detail::launch_errors_owner request_launcher::errors_of(const operation_request& r,
                                                        const launch_facts& facts) const {
  if (!detects_errors(facts.errors, lane_.runtime().device().id().kind)) return {};
  return {lane_.runtime(), r.descriptor.names_of_errors(r.plan.get())};
}

launch_options request_launcher::options_of(const operation_request& r,
                                            const launch_facts& facts) const {
  return {
      .when = r.options.reply,
      .sizes = facts.sizes,
      .commands = facts.commands,
      .tag = r.options.tag.empty() ? nullptr : std::make_shared<const std::string>(r.options.tag),
      .steps = trace_ ? r.steps() : nullptr,
      .is_batch = r.most_in_batch != 0};
}

void request_launcher::enqueue(operation_request& r) {
  operands uses;
  operand_addresses addresses(r.uses().size());
  const operand_types types(r.uses());
  launch_memory memory{.types = types.span(), .plan = r.plan.get()};
  std::unique_ptr<packing> copies;  // none without packed operands
  // Also without a need, so that launches that have none let the workspace shrink.
  const auto workspace_bytes = r.plan ? r.plan->workspace_bytes() : 0;
  memory_.use(workspace_bytes, [&] { workspace_.require(workspace_bytes); });
  if (workspace_bytes != 0) memory.workspace = workspace_.address();
  const auto launch = r.descriptor.begin(libraries_, r.operation(), r.call);
  memory.own = launch.get();
  take_operands(r, uses, addresses, copies);
  memory.addresses = addresses.span();
  const bool must_finish = launch && launch->must_finish();
  const auto facts = r.descriptor.facts(r.call);
  detail::launch_errors_owner errors;
  if (facts.errors != error_detection::none) {
    errors = errors_of(r, facts);
    memory.errors = errors.word();
    if (launch) launch->errors = errors.word();
  }
  auto options = options_of(r, facts);
  if (must_finish) options.when = reply_on::finished;
  options.commands += (r.plan ? r.plan->commands() : 0) + (launch ? launch->commands() : 0) +
                      (copies ? copies->commands() : 0);
  if (r.plan) uses.keep(r.plan);
  if (launch) uses.keep(launch);
  improve(r.plan);
  const auto& envelope = envelope_of(r.descriptor, r.type());
  auto work = r.launch(envelope, lane_, std::move(uses), options, must_finish ? launch : nullptr);
  if (!work) return;
  if (errors.get() != nullptr) work->find_errors(std::move(errors));
  const auto closure = [&](const launch_context&) {
    const auto operation = [&] {
      r.descriptor.enqueue(libraries_, r.call, memory);
    };
    if (copies) return copies->enqueue(libraries_, operation);
    operation();
  };
  detail::launch_continuation::run(std::move(work), lane_, envelope.label(), closure);
}

void request_launcher::take_operands(operation_request& r, operands& uses,
                                     operand_addresses& addresses,
                                     std::unique_ptr<packing>& copies) {
  std::size_t i = 0;
  for (const auto& u : r.uses()) {
    auto& value = *u.operand.value;
    const bool is_output = u.operand.role == member_role::output;
    if (is_output && !value && u.stated) {
      value = tensor(allocate(u.spec->bytes(), "output of an operation"), u.spec->type,
                     u.spec->shape, u.spec->strides);
    }
    r.add_operand(value.value(), is_output);
    if (value && !u.ignored) {
      const auto& t = value.value();
      addresses[i] = t.address();
      if (u.packed && u.spec->size() != 0) {
        const tensor packed(allocate(u.spec->bytes(), "packed operand"), u.spec->type,
                            u.spec->shape, u.spec->strides);
        if (!copies) copies = std::make_unique<packing>();
        copies->add(t, packed, u.access);
        addresses[i] = packed.address();
        uses.add({packed.block(), access_kind::write, true});
      }
      // The owners hold the references from here on: a client that has its reply shares its
      // memory with nobody.
      const bool whole = t.bytes() == t.block().bytes();
      uses.add({std::move(value).value().block(), u.access, whole});
    } else {
      value = operand();
    }
    ++i;
  }
}

const kernel_envelope& request_launcher::envelope_of(const launch_descriptor& descriptor,
                                                     element_type type) {
  const std::pair key{&descriptor, type};
  if (last_envelope_ != nullptr && last_envelope_->first == key) return last_envelope_->second;
  if (const auto found = envelopes_.find(key); found != envelopes_.end()) {
    last_envelope_ = &*found;
    return found->second;
  }
  const auto library = std::string(descriptor.library(lane_.runtime().device().id().kind));
  const auto name = std::string(descriptor.name());
  kernel_envelope envelope({library, name, type});
  envelope.trace(trace_).nvtx_label(library + ' ' + name + ' ' + std::string(to_string(type)));
  return envelopes_.emplace(key, std::move(envelope)).first->second;
}

block_ref request_launcher::allocate(std::size_t bytes, allocation_tag tag) {
  return memory_.use(bytes,
                     [&] { return lane_.runtime().allocate_bytes(bytes, lane_.stream(), tag); });
}

}  // namespace sluice::operations
