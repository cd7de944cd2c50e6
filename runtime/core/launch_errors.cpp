// SPDX-License-Identifier: Apache-2.0
#include "runtime/core/error_words_of_lane.hpp"
#include "runtime/core/runtime_core.hpp"

#include <sluice/runtime/launch_errors.hpp>

#include <utility>

namespace sluice::detail {
namespace {

// As many launches as a lane has in flight by default. A lane that is given more takes more words
// when it needs them.
constexpr std::size_t words_of_lane = 128;

}  // namespace

launch_errors_owner::launch_errors_owner(device_runtime& runtime,
                                         std::shared_ptr<const error_names> names)
    : errors_(&runtime_core::of(runtime)->errors().take(std::move(names))) {}

error_word* launch_errors_owner::word() const noexcept {
  return errors_ != nullptr ? errors_->word : nullptr;
}

void launch_errors_owner::give_back() noexcept {
  errors_->pool->give_back_unused(*errors_);
  errors_ = nullptr;
}

error_words_of_lane::error_words_of_lane(device_runtime& runtime, stream_ref stream)
    : stream_(stream) {
  runtime_core::of(runtime)->errors().reserve(words_of_lane);
}

error_words_of_lane::~error_words_of_lane() {
  timeline::of(stream_)->core().errors().unreserve(words_of_lane);
}

}  // namespace sluice::detail
