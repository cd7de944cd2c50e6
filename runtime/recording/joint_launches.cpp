// SPDX-License-Identifier: Apache-2.0
#include "runtime/recording/joint_launches.hpp"

#include "runtime/recording/recorder_state.hpp"

#include <algorithm>
#include <mutex>
#include <utility>

namespace sluice::detail {

void recorder_state::expect(std::size_t launches, std::size_t uses) {
  uses_.expect(uses);
  joint_launches_.reserve(launches);
  joint_uses_.reserve(uses);
}

void recorder_state::begin_next() {
  joint_launches_.push_back(
      {static_cast<std::uint32_t>(joint_uses_.size()), 0, {}, false, false, no_list, nullptr});
}

std::span<recorder_state::joint_use> recorder_state::uses_of(std::size_t i) noexcept {
  const auto first = joint_launches_[i].first_use;
  const auto end =
      i + 1 < joint_launches_.size() ? joint_launches_[i + 1].first_use : joint_uses_.size();
  return joint_uses_.view().subspan(first, end - first);
}

bool recorder_state::is_refused(std::size_t i) const noexcept {
  if (refused_record_ == nullptr) return false;
  const auto uses = const_cast<recorder_state*>(this)->uses_of(i);
  return std::any_of(uses.begin(), uses.end(), [&](const joint_use& u) {
    return u.record == refused_record_ && u.generation == refused_generation_;
  });
}

void recorder_state::relate_joint_launches() {
  joint_dependencies_.clear();
  long_dependencies_.clear();
  for (auto& u : uses_) {
    u.users = 0;
    u.writer = recorded_use::no_launch;
  }
  for (std::uint32_t i = 0; i < joint_launches_.size(); ++i) {
    joint_launches_[i].first_dependency = static_cast<std::uint32_t>(joint_dependencies_.size());
    for (auto& u : uses_of(i)) {
      auto* const use = std::lower_bound(uses_.begin(), uses_.end(),
                                         recorded_use{u.record, u.generation, {}, {}, {}, {}},
                                         one_use_per_block::before);
      u.use_index = static_cast<std::uint32_t>(use - uses_.begin());
      ++use->users;
      if (u.access != access_kind::write || !u.whole) {
        // Without an order among the launches this is none of their work; but the outcome of one
        // that writes another part of the block must not hide that of an earlier one.
        if (use->writer != recorded_use::no_launch) {
          joint_dependencies_.push_back({stream_->id(), use->writer | earlier_launch});
        }
        if (use->last_write) joint_dependencies_.push_back(use->last_write);
      }
      if (u.access != access_kind::read) use->writer = i;
    }
    keep_dependencies_of(joint_launches_[i]);
  }
}

void recorder_state::keep_dependencies_of(joint_launch& launch) {
  constexpr std::size_t most_inline = 8;  // of `dependency_points`
  const std::size_t first = launch.first_dependency;
  if (joint_dependencies_.size() - first <= most_inline) return;
  // Several blocks written by one launch yield the same point.
  auto* const begin = joint_dependencies_.begin() + first;
  std::sort(begin, joint_dependencies_.end(), [](timeline_point a, timeline_point b) {
    return a.stream != b.stream ? a.stream < b.stream : a.ticket < b.ticket;
  });
  const auto count =
      static_cast<std::size_t>(std::unique(begin, joint_dependencies_.end()) - begin);
  joint_dependencies_.truncate(first + count);
  if (count <= most_inline) return;
  launch.long_list = static_cast<std::uint32_t>(long_dependencies_.size());
  long_dependencies_.emplace_back().reserve(count);
}

template <class TicketOf>
dependency_points recorder_state::dependencies_of(std::size_t i,
                                                  const TicketOf& ticket_function) noexcept {
  const auto first = joint_launches_[i].first_dependency;
  const auto end = i + 1 < joint_launches_.size() ? joint_launches_[i + 1].first_dependency
                                                  : joint_dependencies_.size();
  dependency_points dependencies;
  if (const auto list = joint_launches_[i].long_list; list != no_list) {
    dependencies = std::move(long_dependencies_[list]);  // empty, with room for all of them
  }
  for (auto point : joint_dependencies_.view().subspan(first, end - first)) {
    if ((point.ticket & earlier_launch) != 0) {
      point.ticket = ticket_function(point.ticket & ~earlier_launch);
    }
    if (point.ticket != 0) dependencies.push_back(point);
  }
  joint_launches_[i].may_fail = core_->tasks_may_fail() || !dependencies.empty();
  return dependencies;
}

std::uint64_t recorder_state::submit_one(std::size_t i, const std::optional<error>& failure) {
  auto& launch = joint_launches_[i];
  const auto ticket_function = [&](std::uint64_t j) {
    return joint_launches_[j].point.ticket;
  };
  std::uint64_t ticket = 0;
  try {
    ticket = stream_->submit(dependencies_of(i, ticket_function), failure ? &*failure : nullptr,
                             first_ticket_, nullptr,
                             launch.errors != nullptr ? launch.errors->get() : nullptr);
    if (launch.errors != nullptr) {
      launch.errors->release();
      launch.may_fail = true;
    }
    launch.point = {stream_->id(), ticket};
    first_ticket_ = ticket + 1;
  } catch (...) {
    // As for a launch of its own: its work has ended, or the stream is retired.
    launch.point = stand_in(current_error());
    launch.may_fail = true;
    launch.published = static_cast<bool>(launch.point);
    throw;
  }
  launch.may_fail |= failure.has_value();
  launch.published = true;
  return ticket;
}

std::uint64_t recorder_state::submit_all(const std::optional<error>& failure) {
  std::uint64_t first = 0;
  try {
    first = stream_->submit_together(
        joint_launches_.size(), failure ? &*failure : nullptr, first_ticket_,
        [&](std::size_t i, std::uint64_t first_ticket) {
          return dependencies_of(i, [&](std::uint64_t j) { return first_ticket + j; });
        },
        [&](const auto& set) {
          if (!joint_launches_find_errors_) return;
          for (std::size_t i = 0; i < joint_launches_.size(); ++i) {
            auto& launch = joint_launches_[i];
            if (launch.errors == nullptr) continue;
            set(i, launch.errors->get());
            launch.errors->release();
            launch.may_fail = true;
          }
        });
  } catch (...) {
    const auto point = stand_in(current_error());
    for (auto& launch : joint_launches_) {
      launch.point = point;
      launch.may_fail = true;
      launch.published = static_cast<bool>(point);
    }
    throw;
  }
  for (std::size_t i = 0; i < joint_launches_.size(); ++i) {
    joint_launches_[i].point = {stream_->id(), first + i};
    joint_launches_[i].may_fail |= failure.has_value();
    joint_launches_[i].published = true;
  }
  return first;
}

void recorder_state::cancel_one(std::size_t i) noexcept {
  joint_launches_[i].errors = nullptr;  // the launch keeps its word
  try {
    // A later one that depends on this one depends on what this one depends on.
    (void)submit_one(i, std::nullopt);
  } catch (...) {
    // The device is lost.
  }
  joint_launches_[i].published = false;
}

void recorder_state::publish_all() noexcept {
  phase_ = phase::committed;
  if (core_->device().inherited()) return leases_.all_given();
  leases_.at(launch_step::submitted);
  for (std::size_t i = 0; i < joint_launches_.size(); ++i) {
    const auto& launch = joint_launches_[i];
    for (const auto& launch_use : uses_of(i)) {
      auto& u = uses_[launch_use.use_index];
      auto& state = u.record->uses;
      u.record->lock_and_publish(*core_, [&](timeline_point completed_point) {
        if (!launch.published) return timeline_point{};
        if (state.version() != u.fence_version) {
          return state.add(launch_use.access, launch.point, *core_, launch.may_fail,
                           completed_point);
        }
        const auto dropped_point = state.publish(launch_use.access, launch.point, *core_,
                                                 launch.may_fail, completed_point);
        // The next of the launches is ordered after this one.
        if (!dropped_point) u.fence_version = state.version();
        return dropped_point;
      });
      if (--u.users == 0) {
        leases_.unlock_and_give(u);
      } else {
        u.record->lease.unlock();
      }
    }
  }
  leases_.at(launch_step::published);
  stop_reading_outcomes();
  leases_.all_given();
}

void joint_launches::expect(launch_recorder& recorder, std::size_t launches, std::size_t uses) {
  recorder.state_->expect(launches, uses);
}
void joint_launches::begin_next(launch_recorder& recorder) {
  recorder.state_->begin_next();
}
bool joint_launches::is_refused(const launch_recorder& recorder, std::size_t i) noexcept {
  return recorder.state_->is_refused(i);
}
void joint_launches::find_errors(launch_recorder& recorder, std::size_t i,
                                 launch_errors_owner& errors) noexcept {
  recorder.state_->find_errors(i, errors);
}
std::uint64_t joint_launches::submit(launch_recorder& recorder, std::size_t i,
                                     const std::optional<error>& failure) {
  return recorder.state_->submit_one(i, failure);
}
std::uint64_t joint_launches::submit_all(launch_recorder& recorder,
                                         const std::optional<error>& failure) {
  return recorder.state_->submit_all(failure);
}
void joint_launches::cancel(launch_recorder& recorder, std::size_t i) noexcept {
  recorder.state_->cancel_one(i);
}
void joint_launches::publish(launch_recorder& recorder) noexcept {
  recorder.state_->publish_all();
}

}  // namespace sluice::detail
