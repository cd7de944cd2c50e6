// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/runtime/device_runtime.hpp>
#include <sluice/runtime/stream.hpp>

namespace sluice::detail {

/// The words that the launches of a lane may need at once. A library object of the lane, so that
/// their memory is allocated before its first launch.
class error_words_of_lane {
 public:
  /// @throws error `out_of_memory`; `device_lost`
  error_words_of_lane(device_runtime& runtime, stream_ref stream);
  error_words_of_lane(const error_words_of_lane&) = delete;
  error_words_of_lane& operator=(const error_words_of_lane&) = delete;
  ~error_words_of_lane();

 private:
  stream_ref stream_;
};

}  // namespace sluice::detail
