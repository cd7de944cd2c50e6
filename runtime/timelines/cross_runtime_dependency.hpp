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

/// A ticket of another runtime that a ticket of this one waits for. If it fails, this one fails.
///
/// It keeps the core of the other runtime alive. The thread that settles the ticket pushes it on
/// the release list, because the last share of a core must not be dropped under the locks of a
/// timeline.
struct cross_runtime_dependency final : releasable {
  /// Constructed before the ticket of the other runtime is taken.
  cross_runtime_dependency(std::shared_ptr<runtime_core> owner, timeline& source);

  std::shared_ptr<runtime_core> core;
  timeline* stream;
  std::uint64_t ticket = 0;
  std::optional<epoch_reader> outcome;  // ends once the outcome has been read
};

}  // namespace sluice::detail
