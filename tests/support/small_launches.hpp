// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/runtime/device.hpp>
#include <sluice/runtime/gpu_ref.hpp>
#include <sluice/runtime/launch_recorder.hpp>
#include <sluice/runtime/stream.hpp>

#include <type_traits>

namespace sluice::test {

/// A launch that reads `memory`, between preflight and commit.
template <class Memory>
[[nodiscard]] launch_recorder begin_read(const Memory& memory, stream_ref stream) {
  auto recorder = launch_recorder::strict(stream);
  recorder.read(memory);
  recorder.preflight();
  return recorder;
}

/// A launch that writes `memory`, between preflight and commit.
template <class Memory>
[[nodiscard]] launch_recorder begin_write(const Memory& memory, stream_ref stream) {
  auto recorder = launch_recorder::strict(stream);
  recorder.write(memory);
  recorder.preflight();
  return recorder;
}

/// Enqueues a write of `value` to every element, without a recorder.
template <element T>
void enqueue_fill(const gpu_ref<T>& ref, std::type_identity_t<T> value, stream_ref stream) {
  stream.device().fill(ref.data(), &value, sizeof value, ref.size(), stream.native());
}

/// Launches a write of `value` to every element.
template <element T>
timeline_point launch_fill(const gpu_ref<T>& ref, std::type_identity_t<T> value,
                           stream_ref stream) {
  auto recorder = begin_write(ref, stream);
  enqueue_fill(ref, value, stream);
  return recorder.commit();
}

}  // namespace sluice::test
