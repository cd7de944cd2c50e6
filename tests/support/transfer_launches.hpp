// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tests/support/copy_side.hpp"
#include "tests/support/seed.hpp"

#include <sluice/runtime/host_transfer.hpp>
#include <sluice/runtime/launch_recorder.hpp>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <random>

namespace sluice::test {

inline constexpr std::size_t mebi = std::size_t{1} << 20U;

/// A launch that moves words between host memory and a block.
struct moving {
  std::shared_ptr<values> memory{};
  std::shared_ptr<host_transfer> transfer{};
  timeline_point point{};
  std::optional<error> failure{};  // the error of enqueueing
};

inline moving launch(moving movement, const words& ref, access_kind access, stream_ref stream) {
  auto recorder = launch_recorder::strict(stream);
  recorder.use(ref.block(), access, ref.bytes() == ref.block().bytes());
  recorder.preflight();
  try {
    movement.transfer->enqueue(ref.data());
  } catch (...) {
    movement.failure = current_error();
  }
  movement.point = recorder.commit(movement.failure);
  return movement;
}

/// Launches an upload of `source` to `target`.
inline moving start_upload(const words& target, const values& source, stream_ref stream) {
  moving movement{.memory = std::make_shared<values>(source)};
  movement.transfer =
      host_transfer::upload(stream, {movement.memory, movement.memory->data()}, target.bytes());
  return launch(std::move(movement), target, access_kind::write, stream);
}

/// Launches a download of `source`.
inline moving start_download(const words& source, stream_ref stream) {
  moving movement{.memory = std::make_shared<values>(source.size())};
  movement.transfer =
      host_transfer::download(stream, {movement.memory, movement.memory->data()}, source.bytes());
  return launch(std::move(movement), source, access_kind::read, stream);
}

/// Waits for the download `movement` and returns its words.
inline const values& finish(const side& s, const moving& movement) {
  detail::runtime_core::of(*s.runtime)->wait_until_complete(movement.point);
  movement.transfer->finish();
  return *movement.memory;
}

}  // namespace sluice::test
