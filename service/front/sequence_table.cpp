// SPDX-License-Identifier: Apache-2.0
#include "service/front/sequence_table.hpp"

#include "service/protocol/quoted_name.hpp"

#include <algorithm>
#include <utility>

namespace sluice::service {
namespace {

[[nodiscard]] sequence_key key_of(const run_request& run) {
  return {.tenant = run.tenant, .model = run.model, .id = run.sequence->id};
}

/// Whether a request names the version of its sequence, or none.
[[nodiscard]] bool has_version(const run_request& run, const live_sequence& sequence) {
  return run.version.empty() || run.version == sequence.state.descriptor().version;
}

}  // namespace

void sequence_table::begin(const std::shared_ptr<sequence_request>& first, sequence_state state) {
  auto key = key_of(first->run);
  const auto earlier = sequences_.find(key);
  if (earlier != sequences_.end()) {
    if (earlier->second->is_busy()) {
      throw request_error(request_status::aborted, "sequence_start: requests of the sequence " +
                                                       quoted_name(key.id) + " are in flight");
    }
    erase(*earlier->second);
  }
  // A name is in the key of the map, too.
  const auto bytes = sizeof(live_sequence) + state.bytes() +
                     2 * (key.tenant.size() + key.model.size() + key.id.size());
  if (sequences_.size() >= limits_.sequences) {
    throw request_error(request_status::resource_exhausted, "there are too many sequences");
  }
  if (bytes > limits_.bytes - bytes_) {
    throw request_error(request_status::resource_exhausted, "the memory for sequences is full");
  }
  auto sequence = std::make_shared<live_sequence>(
      live_sequence{.key = std::move(key), .state = std::move(state), .bytes = bytes});
  first->sequence = sequence;
  requests_.emplace(first->number, first);
  try {
    sequences_.emplace(sequence->key, sequence);
    idle_.emplace(sequence->expiry, sequence.get());
    sequence->entry = idle_.extract({sequence->expiry, sequence.get()});
  } catch (...) {
    sequences_.erase(sequence->key);
    requests_.erase(first->number);
    throw;
  }
  bytes_ += bytes;
}

std::optional<bool> sequence_table::add(const std::shared_ptr<sequence_request>& request) {
  const auto found = sequences_.find(key_of(request->run));
  if (found == sequences_.end()) return std::nullopt;
  const auto& sequence = found->second;
  if (!has_version(request->run, *sequence)) {
    throw request_error(request_status::invalid_argument, "the sequence has begun with version " +
                                                              sequence->state.descriptor().version);
  }
  sequence->state.check(request->run);
  const bool is_busy = sequence->is_busy();
  if (is_busy && sequence->waiting.size() >= limits_.waiting) {
    throw request_error(request_status::resource_exhausted,
                        "too many requests of the sequence wait");
  }
  requests entry{request};
  requests_.emplace(request->number, request);
  request->sequence = sequence;
  if (is_busy) {
    request->is_waiting = true;
    sequence->waiting.splice(sequence->waiting.end(), entry);
    return false;
  }
  sequence->entry = idle_.extract({sequence->expiry, sequence.get()});
  return true;
}

sequence_table::succession sequence_table::finish(const sequence_request& request, bool keeps,
                                                  time_point now) {
  auto& sequence = *request.sequence;
  requests_.erase(request.number);
  succession result;
  if (!keeps) {
    result.lost.swap(sequence.waiting);
    for (const auto& each : result.lost) requests_.erase(each->number);
    erase(sequence);
  } else if (!sequence.waiting.empty()) {
    result.next = std::move(sequence.waiting.front());
    result.next->is_waiting = false;
    sequence.waiting.pop_front();
  } else {
    sequence.expiry = now + sequence.state.descriptor().idle_timeout;
    sequence.entry.value() = {sequence.expiry, &sequence};
    idle_.insert(std::move(sequence.entry));
  }
  return result;
}

std::shared_ptr<sequence_request> sequence_table::find(model_backend::number number) const {
  const auto found = requests_.find(number);
  return found == requests_.end() ? nullptr : found->second;
}

void sequence_table::remove_waiting(const sequence_request& request) noexcept {
  std::erase_if(request.sequence->waiting,
                [&](const auto& each) { return each.get() == &request; });
  requests_.erase(request.number);
}

sequence_table::requests sequence_table::take_waiting(std::optional<time_point> now) {
  requests taken;
  for (const auto& [number, request] : requests_) {
    if (!request->is_waiting) continue;  // then `run` is not guarded by the lock
    const auto& deadline = request->run.deadline;
    if (!now || (deadline && *deadline <= *now)) taken.push_back(request);
  }
  for (const auto& each : taken) remove_waiting(*each);
  return taken;
}

void sequence_table::expire(time_point now) noexcept {
  while (!idle_.empty() && idle_.begin()->first <= now) erase(*idle_.begin()->second);
}

void sequence_table::erase(live_sequence& sequence) noexcept {
  bytes_ -= sequence.bytes;
  idle_.erase({sequence.expiry, &sequence});
  sequences_.erase(sequences_.find(sequence.key));
}

}  // namespace sluice::service
