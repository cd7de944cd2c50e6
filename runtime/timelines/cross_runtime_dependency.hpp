// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runtime/sync/reader_epochs.hpp"

#include <sluice/runtime/releasable.hpp>

#include <cstdint>
#include <memory>
#include <optional>

namespace sluice::detail {

class runtime_core;
class timeline;

/// A ticket of another runtime that a ticket here has been made to wait for, and whose failure is
/// that one's too. Keeps what is left of that runtime. Whoever settles the ticket puts this on the
/// release list: the last share of a core must not go under the locks of a timeline.
struct cross_runtime_dependency final : releasable {
  /// Before the ticket is taken.
  cross_runtime_dependency(std::shared_ptr<runtime_core> of, timeline& on);

  std::shared_ptr<runtime_core> core;
  timeline* stream;
  std::uint64_t ticket = 0;
  std::optional<epoch_reader> outcome;  // until it has been asked for
};

}  // namespace sluice::detail
