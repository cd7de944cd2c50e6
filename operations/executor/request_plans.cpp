// SPDX-License-Identifier: Apache-2.0
#include "operations/executor/request_plans.hpp"

#include <sluice/operations/elementwise.hpp>

#include <algorithm>
#include <string_view>

namespace sluice::operations {

using detail::operation_request;

namespace {

/// The key of the plan of a request, which has its bytes.
plan_key_view key_of(const operation_request& request, device_kind kind) {
  const auto bytes = request.descriptor.key(kind, request.call);
  return {&request.descriptor,
          std::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size())};
}
const launch_descriptor& copy_descriptor() {
  return descriptor_of(operation_type<strided_copy>{});
}

}  // namespace

void request_plans::find(operation_request& request) {
  find_for_operation(request);
  if (request.plan_job != nullptr || is_prepared(copy_descriptor())) return;
  const auto uses = request.uses();
  if (std::any_of(uses.begin(), uses.end(), [](const auto& u) { return u.packed; })) {
    request.plan_job =
        planning_.request({&copy_descriptor(), {}, plan_part::libraries}, nullptr, request.sender);
  }
}

void request_plans::find_for_operation(operation_request& request) {
  const auto& descriptor = request.descriptor;
  if (descriptor.makes_plans(kind_)) {
    const auto key = key_of(request, kind_);
    const auto* const outcome = cache_.find(key);
    if (outcome == nullptr) {
      cache_.drop_some_obsolete();  // the new plan may need their memory
      const auto shared = request.share_call();
      request.plan_job = planning_.request(plan_key(key), &shared.call, request.sender,
                                           shared.owner, request.shared_device_bytes());
    } else if (outcome->failure) {
      throw *outcome->failure;
    } else {
      request.plan = outcome->plan;
      (void)request_batches(request);
    }
  } else if (!is_prepared(descriptor)) {
    request.plan_job =
        planning_.request({&descriptor, {}, plan_part::libraries}, nullptr, request.sender);
  }
}

bool request_plans::request_batches(operation_request& request) {
  if (!request.needs_batches() || !request.plan) return false;
  const auto* const growth = request.plan->growth();
  if (growth == nullptr || growth->next_size() == 0) return false;
  request.plan_job =
      planning_.request_batches(plan_key(key_of(request, kind_)), request.plan, request.sender);
  request.plan.reset();
  return true;
}

void request_plans::start_growth(const operation_request& request) noexcept {
  try {
    planning_.grow(plan_key(key_of(request, kind_)), request.plan);
  } catch (...) {
    // There is no memory. Batches stay as they are.
  }
}

bool request_plans::adopt_batches(const plan_job& job) noexcept {
  const auto& plan = job.grown_plan;
  auto& growth = *plan->growth();
  planning_.adopt_batches(*plan);
  if (job.is_idle) growth.end_request();
  auto key = job.key;
  key.part = plan_part::plan;
  const bool dropped = cache_.recount(key, *plan);
  if (growth.wants_next()) planning_.grow(std::move(key), plan);
  return dropped;
}

void request_plans::prepare(const launch_descriptor& descriptor) noexcept {
  if (is_prepared(descriptor)) return;
  try {
    requested_.insert(&descriptor);
    (void)planning_.request({&descriptor, {}, plan_part::libraries}, nullptr, {});
    planning_.start();
  } catch (...) {
    // The first request tries again, or is answered with the reason.
  }
}

bool request_plans::has(const plan_key& key) {
  return key.part == plan_part::libraries
             ? is_prepared(*key.descriptor)
             : cache_.find({key.descriptor, key.bytes, key.part}) != nullptr;
}

bool request_plans::retry(const std::shared_ptr<plan_job>& job) noexcept {
  const auto& failure = job->outcome.failure;
  if (!failure || !memory_.frees(job->device_bytes, *failure)) return false;
  try {
    planning_.retry(job);
    return true;
  } catch (...) {
    return false;
  }
}

bool request_plans::keep(const plan_job& job) noexcept {
  const auto& outcome = job.outcome;
  try {
    if (!outcome.failure) {
      prepared_.insert(job.key.descriptor);
      requested_.erase(job.key.descriptor);
      prepared_.insert(&copy_descriptor());
    }
    // Another failure may not happen again.
    if (outcome.plan || (outcome.failure && outcome.failure->code() == errc::unsupported)) {
      return cache_.insert(plan_key(job.key), outcome);
    }
  } catch (...) {
    // There is no memory to remember it.
  }
  return false;
}

}  // namespace sluice::operations
