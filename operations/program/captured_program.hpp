// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/operations/lane_libraries.hpp>
#include <sluice/runtime/error_word.hpp>
#include <sluice/runtime/stream.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

namespace sluice::operations {

/// Memory of a launch that changes from launch to launch: that of an input or of an output. Each
/// launch gives its address to the kernels of the graph. If that is not possible, the graph copies
/// an input before the first step, and an output after the last one.
struct staged_external {
  std::uint32_t number = 0;  ///< among the externals of the executable
  std::size_t bytes = 0;
  std::size_t alignment = 0;  ///< of its address, as libraries choose kernels by it
  bool is_written = false;
};

/// What is captured. The libraries are those of `capture_libraries`.
struct steps_to_capture {
  /// Enqueues the steps with the addresses `externals` and `scratch`, which report errors to
  /// `errors`.
  std::function<void(std::span<void* const> externals, void* scratch, error_word* errors)>
      enqueue{};
  std::size_t scratch_bytes = 0;
  std::vector<void*> externals{};  ///< null for those that are staged
  std::vector<staged_external> staged_externals{};
  bool finds_errors = false;         ///< each launch has an error word
  bool apart = false;                ///< no output shares memory with an input
  std::size_t max_copied_bytes = 0;  ///< of `staged_externals`, if the graph has to copy
};

/// The steps of a program as one graph of a device, with scratch memory of their own. All launches
/// are on the stream of one lane.
class captured_program {
 public:
  captured_program() = default;
  captured_program(const captured_program&) = delete;
  captured_program& operator=(const captured_program&) = delete;
  /// The launches have completed. May block in the driver.
  virtual ~captured_program() = default;

  /// Enqueues the graph with the addresses of one launch. Only the owner of the lane calls it.
  /// @throws nothing_enqueued if the driver refuses it
  virtual void launch(stream_ref stream, std::span<void* const> externals, error_word* errors) = 0;
  /// Its part of the scratch memory that the captured programs of a lane share, in bytes.
  [[nodiscard]] virtual std::size_t shared_device_bytes() const noexcept = 0;
};

}  // namespace sluice::operations

namespace sluice::cuda {

/// The libraries with which the programs of a lane are captured, bound to a stream on which nothing
/// else happens. Made when they are first asked for. They keep the stream.
/// @throws error as the libraries
[[nodiscard]] std::shared_ptr<lane_libraries> capture_libraries(lane_libraries& libraries);

/// Captures steps into a graph. Waits for the stream of the capture. Only the planner calls it.
/// @throws error `unsupported` if a step enqueues something that a graph cannot repeat, or if it
///   would have to copy too much
/// @throws error `library_failure` if a step makes a call that a capture forbids
/// @throws error as an allocation
[[nodiscard]] std::unique_ptr<operations::captured_program> capture(
    lane_libraries& libraries, const operations::steps_to_capture& steps);

}  // namespace sluice::cuda
