// SPDX-License-Identifier: Apache-2.0
#include "runtime/recording/launch_dependencies.hpp"
#include "runtime/recording/recorder_state.hpp"

#include <sluice/runtime/launch_recorder.hpp>

#include <array>
#include <utility>

namespace sluice {
namespace detail {
namespace {

/// Spare states of each thread, so that a recorder allocates no heap memory in the steady state.
struct spare_states {
  static constexpr std::size_t capacity = 4;
  std::array<recorder_state*, capacity> states{};
  std::size_t count = 0;
  ~spare_states();
};
thread_local spare_states spares;
/// Set after the thread's spare states are destroyed. Recorders of later destructors must not use
/// them.
thread_local bool spare_ended = false;

spare_states::~spare_states() {
  while (count != 0) delete states[--count];
  spare_ended = true;
}

using state_ptr = std::unique_ptr<recorder_state, recorder_state_deleter>;

state_ptr take_state() {
  if (!spare_ended && spares.count != 0) return state_ptr(spares.states[--spares.count]);
  return state_ptr(new recorder_state);
}

}  // namespace

void recorder_state_deleter::operator()(recorder_state* state) const noexcept {
  // Dropping the core may destroy it, and with it recorders whose states this thread keeps.
  const auto core = state->end();
  if (!spare_ended && spares.count < spare_states::capacity) {
    spares.states[spares.count++] = state;
  } else {
    delete state;
  }
}

}  // namespace detail

namespace {

detail::state_ptr begin_recorder(stream_ref stream, recorder_mode mode) {
  if (!stream)
    throw error(errc::stream_misuse, "stream: no stream was given; there is no default stream");
  auto state = detail::take_state();
  state->begin(*detail::timeline::of(stream), mode);
  return state;
}

detail::recorder_state& required(const detail::state_ptr& state) {
  if (!state) throw error(errc::stream_misuse, "the launch recorder has been moved from");
  return *state;
}

}  // namespace

launch_recorder::launch_recorder(state_ptr state) noexcept : state_(std::move(state)) {}
launch_recorder::launch_recorder(launch_recorder&& other) noexcept = default;
launch_recorder& launch_recorder::operator=(launch_recorder&& other) noexcept = default;
launch_recorder::~launch_recorder() = default;

launch_recorder launch_recorder::strict(stream_ref launch_stream) {
  return launch_recorder(begin_recorder(launch_stream, recorder_mode::strict));
}

launch_recorder launch_recorder::permissive(stream_ref launch_stream) {
  return launch_recorder(begin_recorder(launch_stream, recorder_mode::permissive));
}

launch_recorder& launch_recorder::note(const block_ref& block, access_kind access, bool whole,
                                       const char* verb) {
  if (!state_) return *this;
  const auto* const record = detail::block_record::of(block);
  state_->note(block, access, whole, verb, record != nullptr && record->read_only);
  return *this;
}

launch_recorder& launch_recorder::note(const tensor& t, access_kind access, const char* verb) {
  return note(t.block(), access, t.is_contiguous() && covers_block(t.block(), t.bytes()), verb);
}

launch_recorder& launch_recorder::note(const column& c, access_kind access, const char* verb) {
  if (!state_) return *this;
  state_->note(c.block(), access, covers_block(c.block(), c.bytes()), verb, c.read_only());
  return *this;
}

stream_id launch_recorder::launch_stream() const noexcept {
  return state_ ? state_->launch_stream() : stream_id{};
}
recorder_mode launch_recorder::mode() const noexcept {
  return state_ ? state_->mode() : recorder_mode::strict;
}
std::size_t launch_recorder::recorded_count() const noexcept {
  return state_ ? state_->count() : 0;
}
void launch_recorder::preflight() {
  (void)required(state_).preflight(true);
}
bool launch_recorder::try_preflight() {
  return required(state_).preflight(false);
}
void launch_recorder::cancel() noexcept {
  if (state_) state_->cancel();
}
timeline_point launch_recorder::commit(const std::optional<error>& failure) {
  return required(state_).commit(failure);
}

namespace detail {

std::span<const timeline_point> launch_dependencies::of(const launch_recorder& recorder) noexcept {
  return recorder.state_->dependencies();
}
void launch_dependencies::look_for_unfinished(launch_recorder& recorder) noexcept {
  recorder.state_->look_for_unfinished();
}
bool launch_dependencies::follow_unfinished(const launch_recorder& recorder) noexcept {
  return recorder.state_->follows_unfinished();
}
void launch_dependencies::add(launch_recorder& recorder,
                              std::unique_ptr<cross_runtime_dependency> upstream) noexcept {
  recorder.state_->depend_on(std::move(upstream));
}
void launch_dependencies::find_errors(launch_recorder& recorder,
                                      launch_errors_owner& errors) noexcept {
  recorder.state_->find_errors(errors);
}

}  // namespace detail
}  // namespace sluice
