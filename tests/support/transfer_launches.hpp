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

inline moving launch(moving made, const words& ref, access_kind access, stream_ref on) {
  auto recorder = launch_recorder::strict(on);
  recorder.use(ref.block(), access, ref.bytes() == ref.block().bytes());
  recorder.preflight();
  try {
    made.transfer->enqueue(ref.data());
  } catch (...) {
    made.failure = current_error();
  }
  made.point = recorder.commit(made.failure);
  return made;
}

/// Launches an upload of `source` to `target`.
inline moving start_upload(const words& target, const values& source, stream_ref on) {
  moving made{.memory = std::make_shared<values>(source)};
  made.transfer = host_transfer::upload(on, {made.memory, made.memory->data()}, target.bytes());
  return launch(std::move(made), target, access_kind::write, on);
}

/// Launches a download of `source`.
inline moving start_download(const words& source, stream_ref on) {
  moving made{.memory = std::make_shared<values>(source.size())};
  made.transfer = host_transfer::download(on, {made.memory, made.memory->data()}, source.bytes());
  return launch(std::move(made), source, access_kind::read, on);
}

/// Waits for the download `made` and returns its words.
inline const values& finish(const side& s, const moving& made) {
  detail::runtime_core::of(*s.runtime)->wait_until_complete(made.point);
  made.transfer->finish();
  return *made.memory;
}

}  // namespace sluice::test
