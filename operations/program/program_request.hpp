// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "operations/program/executable.hpp"
#include "operations/program/program_graph.hpp"

#include <sluice/operations/operation_request.hpp>
#include <sluice/operations/owner_memory.hpp>
#include <sluice/operations/run.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace sluice::operations {

/// The call of a program: what is known of the run, and the program that the planner needs.
struct program_call {
  std::shared_ptr<const detail::program_graph> graph{};
  std::shared_ptr<const program_inference> inferred{};
  std::size_t most_in_batch = 0;  ///< with runs like this one
  bool pads = false;              ///< on a GPU

  /// What the plan on devices of this kind is made for.
  [[nodiscard]] const program_inference& planned_on(device_kind kind) const noexcept;
  /// How runs are padded on devices of this kind; nullptr if they are not.
  [[nodiscard]] const batch_layout* padded_on(device_kind kind) const noexcept;
};
/// A copy of the call for the planner.
/// @throws std::bad_alloc if there is no memory
[[nodiscard]] detail::shared_call share(const program_call& call);

/// The descriptor of all programs. The plan of a call is an `executable`.
[[nodiscard]] const launch_descriptor& descriptor_of_programs();

/// What a launch of a run needs beside the plan and the operands.
struct run_parts {
  std::vector<std::pair<std::uint32_t, host_tensor>> host_inputs{};  ///< with their numbers
  std::vector<step_call> calls{};                                    ///< of the varying steps
  std::shared_ptr<host_tensors> downloads{};  ///< becomes the results; null: they stay there
  std::vector<host_tensor> targets{};         ///< empty, or for each download a tensor or nothing
};

/// One run of a program. Its uses are those of the inputs, the constants and the blocks that the
/// outputs lie in, in this order.
class program_request final : public detail::operation_request {
 public:
  /// Downloads the results to `downloads`, unless that is null, and those with a target to that.
  /// The lists of the request are in `memory`.
  program_request(detail::owner_memory& memory, run&& request, request_options&& o,
                  request_sender s, reply_token<tensors>&& t,
                  std::shared_ptr<host_tensors> downloads = nullptr,
                  std::vector<host_tensor> targets = {}) noexcept
      : operation_request(descriptor_of_programs(), std::move(o), s, t.failures()),
        reply_(std::move(t)),
        memory_(memory),
        request_(std::move(request)),
        parts_{.downloads = std::move(downloads), .targets = std::move(targets)} {}

  const void* operation() const noexcept override { return &parts_; }
  [[nodiscard]] std::optional<error> infer() noexcept override {
    return detail::failure_of([this] { infer_steps(); });
  }
  std::span<const inference::use> uses() const noexcept override { return uses_; }
  std::size_t bytes() const noexcept override;
  std::array<detail::shared_memory, 2> shared() const noexcept override;
  detail::shared_call share_call() const override { return share(*call_); }
  std::size_t shared_device_bytes() const noexcept override;
  void add_operand(const tensor& value, bool is_output) override {
    // New memory for an input of the host is no result.
    if (is_output && uploaded_++ >= parts_.host_inputs.size()) outputs_.push_back(value);
  }
  element_type type() const noexcept override { return outputs_.front().type(); }
  std::size_t transfer_commands() const noexcept override;
  [[nodiscard]] bool shares_batch(const detail::operation_request& other) const noexcept override;
  std::shared_ptr<const std::string> steps() const noexcept override;
  [[nodiscard]] std::unique_ptr<detail::launch_continuation> launch(
      const kernel_envelope& envelope, lane& lane, operands&& uses, const launch_options& settings,
      std::shared_ptr<operation_launch> finisher) noexcept override;

 private:
  template <class T>
  using list = std::vector<T, detail::owner_allocator<T>>;

  void infer_steps();
  void require_targets(const program_inference& inferred) const;
  [[nodiscard]] list<given_output> given_outputs() const;
  void drop_operands() noexcept override;
  void drop_program() noexcept;
  [[nodiscard]] tensors results() const;

  reply_token<tensors> reply_;
  detail::owner_memory& memory_;
  run request_;
  run_parts parts_;
  std::size_t uploaded_ = 0;  // inputs of the host that have their memory, and written results
  std::optional<program_call> call_;
  list<operand> operands_{memory_};  // to which the uses refer
  list<inference::use> uses_{memory_};
  list<tensor> outputs_{memory_};  // the results that are outputs or parts of them
};

/// A request for the executable of a program. It launches nothing.
class prepare_request final : public detail::operation_request {
 public:
  prepare_request(prepare&& request, request_options&& o, request_sender s,
                  reply_token<prepared>&& t) noexcept
      : operation_request(descriptor_of_programs(), std::move(o), s, t.failures()),
        reply_(std::move(t)),
        request_(std::move(request)) {}

  const void* operation() const noexcept override { return &parts_; }
  [[nodiscard]] std::optional<error> infer() noexcept override {
    return detail::failure_of([this] { infer_steps(); });
  }
  std::span<const inference::use> uses() const noexcept override { return {}; }
  std::size_t bytes() const noexcept override;
  std::array<detail::shared_memory, 2> shared() const noexcept override;
  detail::shared_call share_call() const override { return share(*call_); }
  std::size_t described_bytes() const noexcept override;
  std::size_t shared_device_bytes() const noexcept override;
  [[nodiscard]] bool needs_batches() const noexcept override { return true; }
  void add_operand(const tensor&, bool) override {}
  element_type type() const noexcept override { return element_type::u8; }
  [[nodiscard]] std::unique_ptr<detail::launch_continuation> launch(
      const kernel_envelope& envelope, lane& lane, operands&& uses, const launch_options& settings,
      std::shared_ptr<operation_launch> finisher) noexcept override;

 private:
  void infer_steps();
  void drop_operands() noexcept override;

  reply_token<prepared> reply_;
  prepare request_;
  run_parts parts_;  // nothing
  std::optional<program_call> call_;
};

}  // namespace sluice::operations
