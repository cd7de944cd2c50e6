// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/export.hpp>
#include <sluice/operations/host_tensor.hpp>
#include <sluice/operations/operand.hpp>
#include <sluice/operations/program.hpp>
#include <sluice/operations/scalar.hpp>
#include <sluice/operations/tensor_spec.hpp>
#include <sluice/operations/tensors.hpp>
#include <sluice/runtime/gpu_ref.hpp>
#include <sluice/runtime/tensor.hpp>

#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace sluice {

/// An input of a run: a tensor on the device, or one in host memory. The launch brings
/// the latter to the device first, as `upload` does.
class run_input {
 public:
  /// Not given.
  run_input() noexcept = default;
  /// A tensor on the device.
  ///@{
  // NOLINTNEXTLINE(google-explicit-constructor): every tensor is an input.
  run_input(tensor value) noexcept : on_device_(std::move(value)) {}
  template <element T>
  // NOLINTNEXTLINE(google-explicit-constructor): every reference is an input.
  run_input(const gpu_ref<T>& ref) noexcept : on_device_(ref) {}
  ///@}
  /// A tensor in host memory. The launch keeps it alive; see `upload` for how long nobody
  /// may write its elements.
  ///@{
  // NOLINTNEXTLINE(google-explicit-constructor): every tensor is an input.
  run_input(host_tensor values) noexcept : on_host_(std::move(values)) {}
  template <element T>
  // NOLINTNEXTLINE(google-explicit-constructor): every vector of elements is an input.
  run_input(std::vector<T> values) : on_host_(std::move(values)) {}
  ///@}

  /// The tensor on the device; without a block if there is none.
  ///@{
  [[nodiscard]] const tensor& on_device() const& noexcept { return on_device_; }
  [[nodiscard]] tensor&& on_device() && noexcept { return std::move(on_device_); }
  ///@}
  /// The tensor in host memory, or no tensor.
  [[nodiscard]] const host_tensor& on_host() const noexcept { return on_host_; }
  /// The element type of the tensor; `u8` if there is none.
  [[nodiscard]] element_type type() const noexcept {
    return on_host_ ? on_host_.type() : on_device_.type();
  }
  /// The shape of the tensor; that of a scalar if there is none.
  [[nodiscard]] extents shape() const noexcept {
    return on_host_ ? on_host_.shape() : on_device_.shape();
  }
  /// The number of elements; 0 if there is no tensor.
  [[nodiscard]] std::size_t size() const noexcept {
    return on_host_ ? on_host_.size() : on_device_ ? on_device_.size() : 0;
  }

 private:
  tensor on_device_;
  host_tensor on_host_;
};

/// Runs a program on inputs. The result is one tensor for each output: those that are given, and
/// new tensors for the others. Several new ones may be views of one block.
///
///     request(self, programs, caf::infinite, run{spectrogram, {samples}})
///     request(self, programs, caf::infinite, run{.what = noise, .outputs = {y}, .scalars = {42}})
/// All steps are one launch: no other launch of the lane runs between them. If a step fails, all
/// outputs of the run have failed.
///
/// A given output has the type and the shape of the result. Its strides are free, but no two of its
/// indices stand for the same element. It may share bytes with inputs, and with no constant and no
/// other output. A step writes its result directly into a given output that has the strides and the
/// alignment of a new one, unless another output is a part of the result. If the output shares
/// bytes with an input, it must also be the same tensor, the step must work in place on it, and no
/// later step may read the input. Otherwise the launch copies the result at the end.
struct run {
  program what{};                   ///< the program; required
  std::vector<run_input> inputs{};  ///< one tensor for each input
  std::vector<operand> outputs{};   ///< empty, or for each output a tensor or nothing
  std::vector<scalar> scalars{};    ///< one number for each scalar
};

/// Runs a program on inputs, and copies the results to host memory. The result is one
/// `host_tensor` for each output, as `host_tensors`.
///
///     request(self, programs, caf::infinite, run_to_host{spectrogram, {samples}})
///
/// Like a `run` followed by a `download` of each result, but in one launch with one reply. The
/// reply is always sent when the device has finished.
///
/// A given output has the type and the shape of the result, and shares memory with no input and
/// no other output. The launch copies the result into it, and the reply has this tensor. No other
/// code may read or write its elements before the reply. If the reply is an error, the launch may
/// write them until it has dropped its copies of the tensor: the owner of `host_tensor::external`
/// is destroyed then.
struct run_to_host {
  program what{};                      ///< the program; required
  std::vector<run_input> inputs{};     ///< one tensor for each input
  std::vector<scalar> scalars{};       ///< one number for each scalar
  std::vector<host_tensor> outputs{};  ///< empty, or for each output a tensor or nothing
};

/// Makes the executable of a program for inputs with these properties, ahead of the first run:
/// plans are made, constants are brought to the device, and the lane gets its scratch memory. The
/// executables of batches are made, too. The answer is a `prepared`.
///
///     request(self, programs, caf::infinite,
///             prepare{spectrogram, {tensor_spec::row_major(element_type::f32, {16000})}})
///
/// A run with given outputs has an executable of its own: `outputs` describes them.
/// Outputs that share bytes with an input cannot be described.
struct prepare {
  program what{};                     ///< the program; required
  std::vector<tensor_spec> inputs{};  ///< the properties of each input
  /// Empty, or for each output its properties if runs give it, or nothing.
  std::vector<std::optional<tensor_spec>> outputs{};
  std::vector<scalar> scalars{};  ///< example values, one for each scalar
  bool to_host = false;           ///< for `run_to_host`; `outputs` must then be empty
};

/// What is known of the runs of a prepared program.
struct prepared {
  std::vector<tensor_spec> outputs{};  ///< the properties of each output
  std::size_t scratch_bytes = 0;       ///< scratch memory of the lane that a run uses, in bytes
  std::size_t commands = 0;            ///< the most device commands that a run enqueues
  bool captured = false;               ///< whether a run is one graph of the device
  /// Why runs will not be captured; empty if they are or may be. See `capture_policy`.
  std::string not_captured{};
  /// Why runs will not be launched together with others; empty if they may be. See `per_request`.
  std::string not_batched{};
  /// The number of steps that are computed together with others; see `program_options::fuse`.
  std::size_t fused_steps = 0;
  /// Why steps that could be computed together are not; empty if they are, or if there are none.
  std::string not_fused{};
};

namespace detail {
/// The host memory that a request holds beyond its own size, in bytes, without its program.
///@{
[[nodiscard]] SLUICE_EXPORT std::size_t host_bytes_of(const run& request) noexcept;
[[nodiscard]] SLUICE_EXPORT std::size_t host_bytes_of(const run_to_host& request) noexcept;
[[nodiscard]] SLUICE_EXPORT std::size_t host_bytes_of(const prepare& request) noexcept;
///@}
/// The share of a request in the host memory of its program, of which at most 32 MiB count, if all
/// others who hold the program now have theirs. The shares of any number of requests that are sent
/// one after the other are not more than the whole.
[[nodiscard]] SLUICE_EXPORT std::size_t host_bytes_of_share(const program& program) noexcept;
}  // namespace detail

}  // namespace sluice
