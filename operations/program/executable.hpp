// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "operations/fusion/fused_kernels.hpp"
#include "operations/program/fusion.hpp"
#include "operations/program/kept_plans.hpp"
#include "operations/program/program_capture.hpp"
#include "operations/program/program_inference.hpp"
#include "operations/program/stacked_executables.hpp"
#include "operations/program/uploaded_constants.hpp"

#include <sluice/operations/lane_libraries.hpp>
#include <sluice/operations/operation.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace sluice::operations {

class program_launch;

/// A program prepared for inputs of given properties on one lane: the plans of its steps, and the
/// places of all intermediate values in scratch memory.
///
/// An *external* is memory that a launch states: that of an input, a constant or an output,
/// numbered in this order. Constants that came from host memory are no externals: the
/// executable owns their copies.
class executable final : public operation_plan {
 public:
  /// Makes the plans of all steps. It is never captured. If `kept` is not null, it takes these
  /// plans of earlier attempts, and adds those that it makes.
  /// @throws error what a step refuses, with its name
  /// @throws error `cancelled` if `kept` says so
  executable(const detail::program_graph& graph, const program_inference& inferred,
             lane_libraries& libraries, kept_plans* kept = nullptr);
  /// Likewise. It may be captured, as the program states.
  executable(const std::shared_ptr<const detail::program_graph>& graph,
             const std::shared_ptr<const program_inference>& inferred, lane_libraries& libraries);

  /// Likewise, of padded runs on a GPU. It is never captured.
  executable(const std::shared_ptr<const detail::program_graph>& graph,
             const std::shared_ptr<const batch_layout>& layout, lane_libraries& libraries);

  std::size_t bytes() const noexcept override;
  std::size_t device_bytes() const noexcept override;
  std::size_t shared_device_bytes() const noexcept override;
  std::size_t workspace_bytes() const noexcept override {
    const auto* const runs = padded_runs();
    return runs != nullptr ? runs->workspace_bytes_of_one() : scratch_bytes();
  }
  /// The scratch memory of the steps alone, in bytes.
  [[nodiscard]] std::size_t scratch_bytes() const noexcept {
    return std::max(steps_.scratch_bytes, fused_.scratch_bytes);
  }
  /// The most device commands of the steps alone.
  [[nodiscard]] std::size_t step_commands() const noexcept {
    return std::max(steps_.commands, fused_.commands);
  }
  batch_growth* growth() const noexcept override { return on_host_ ? nullptr : stacked_.get(); }
  std::size_t batch_workspace_bytes() const noexcept override;
  std::size_t batch_commands(std::size_t count) const noexcept override;
  std::size_t commands() const noexcept override {
    const auto* const runs = padded_runs();
    return runs != nullptr ? runs->commands(1) : step_commands() + copies_of_graph_;
  }
  bool obsolete() const noexcept override { return graph_.expired(); }
  /// Kernels are loaded first, so that a graph has them.
  bool wants_improvement() const noexcept override {
    return wants_kernels() || (!awaits_kernels() && wants_capture());
  }
  void improve(lane_libraries& libraries) const noexcept override;
  bool captured() const noexcept override { return capture_ && capture_->is_used(); }
  bool refuses_capture() const noexcept override { return capture_ && capture_->is_refused(); }
  /// Why launches will not be captured; empty if they may be.
  [[nodiscard]] std::string not_captured() const {
    return pads_ ? "the runs are padded" : capture_->refusal();
  }
  /// The number of steps that are computed together with others.
  [[nodiscard]] std::size_t fused_steps() const noexcept {
    return on_host_ || kernels_state_.load(std::memory_order_acquire) == kernels_state::loaded
               ? steps_in_groups_
               : steps_in_epilogues_;
  }
  /// Why steps that could be computed together are not; empty if they are, or if there are none.
  [[nodiscard]] std::string not_fused() const;
  /// Whether kernels for it are being made or loaded.
  [[nodiscard]] bool awaits_kernels() const noexcept;
  /// Whether kernels for it have been made and are not loaded yet. True once. Only the owner of the
  /// lane calls it.
  [[nodiscard]] bool wants_kernels() const noexcept;
  /// Loads kernels that are wanted. Only the planner calls it.
  void load_kernels(lane_libraries& libraries) const noexcept;
  /// From now on runs enqueue the same kernels. Nobody enqueues one yet.
  void keep_form() noexcept;
  /// From now on runs may be captured, as the policy states. `inferred` is what it was made of.
  /// Nobody enqueues one yet.
  /// @throws std::bad_alloc
  void allow_capture(const std::shared_ptr<const detail::program_graph>& graph,
                     const std::shared_ptr<const program_inference>& inferred,
                     capture_policy policy, device_kind kind);
  /// Whether the planner is asked to capture it, and has not done so.
  [[nodiscard]] bool awaits_capture() const noexcept {
    return capture_ && capture_->is_requested();
  }
  /// Whether the planner is to capture it, or one of the executables of its batches. True once for
  /// each, and for one after the other. Only the owner of the lane calls it.
  [[nodiscard]] bool wants_capture() const noexcept;
  /// Captures what the planner is asked to capture. Only the planner calls it.
  void make_capture(lane_libraries& libraries) const noexcept;

  /// Enqueues the uploads of a launch, then all steps or the graph that has been captured of them.
  /// `run_data` is that of the launch; nullptr if it has none.
  void enqueue(lane_libraries& libraries, std::span<void* const> externals, void* scratch,
               program_launch* run_data) const;
  /// The names of steps and operands in errors that a launch finds; nullptr if it finds none.
  [[nodiscard]] std::shared_ptr<const detail::error_names> names_of_errors() const noexcept {
    return names_of_errors_;
  }
  /// Whether runs can be launched together, on a GPU perhaps later; see `batch_growth`.
  [[nodiscard]] bool may_take_batches() const noexcept {
    return stacked_ && (on_host_ || stacked_->may_take_batches());
  }
  /// Enqueues runs together on a GPU. Only if `may_take_batches()`.
  void enqueue_batch(lane_libraries& libraries, const stacked_executables::members& batch,
                     void* scratch) const {
    stacked_->enqueue(libraries, batch, scratch);
  }
  /// Enqueues all steps on the stream of the libraries. On a host device one task runs them and
  /// stops at the first that throws. The steps report errors to `errors`, unless that is null.
  void enqueue_steps(lane_libraries& libraries, std::span<void* const> externals, void* scratch,
                     program_launch* run_data, error_word* errors) const;

 private:
  /// Where an operand of an action is.
  struct place {
    enum class kind : std::uint8_t { nowhere, external, scratch, constant, constant_copy };
    kind memory = kind::nowhere;
    std::uint32_t number = 0;  ///< of the external, the buffer, the block of constants or the copy
    std::size_t offset = 0;    ///< in bytes
  };
  /// A constant in host memory that an action packs in each run, for the action of a step.
  struct constant_packing {
    std::size_t operand = 0;  ///< of the step
    std::size_t action = 0;   ///< the number of the action that packs it
    std::size_t bytes = 0;    ///< of the packed copy
    std::string order{};      ///< see `constant_copy_key::packing`
  };
  /// A step, several steps that are computed together, or a copy before or after a step.
  struct action {
    const operation_descriptor* descriptor = nullptr;  ///< nullptr: `fused`
    std::shared_ptr<const fused_map> fused{};
    std::shared_ptr<cuda::fused_kernel> kernel{};  ///< of `fused`, on a GPU
    std::string label{};                           ///< in errors: "step 'mel'"
    std::optional<std::uint32_t> varying{};        ///< number of the varying step that has the call
    call_storage call;
    std::vector<place> operands{};
    std::vector<element_type> types{};  ///< of the operands
    std::shared_ptr<const operation_plan> plan{};
    place workspace{};
    std::uint64_t prepacked = 0;               ///< see `launch_memory::prepacked`
    std::uint32_t step = 0;                    ///< its number
    bool ends_step = false;                    ///< the last one of its step
    std::vector<constant_packing> packings{};  ///< of its operands, until the places are settled
    /// It packs a constant of which the planner has made a copy, and is about to be removed.
    bool is_left_out = false;
    /// The steps before it that have no action of their own, because a later one computes them.
    std::uint32_t steps_without_action = 0;
  };
  /// What a run does, in order.
  struct form {
    std::vector<action> actions{};
    std::size_t scratch_bytes = 0;
    std::size_t commands = 0;
    [[nodiscard]] std::size_t bytes() const noexcept;
    /// Removes the copies that are left out.
    void erase_left_out();
  };
  enum class kernels_state : std::uint8_t {
    none,     ///< no run uses generated kernels
    awaited,  ///< another thread makes them
    wanted,   ///< the planner has been asked to load them
    loaded,   ///< all runs use them
  };
  class builder;
  struct construction;

  /// Turns the steps into actions, without those that are `folded`.
  void build(construction& parts, const folding& folded);
  /// How copies of constants are made.
  struct constant_copying {
    lane_libraries& libraries;
    std::vector<std::size_t> sizes_of_run{};  ///< of the blocks of a run, in bytes
    bool lacks_memory = false;                ///< a copy found no memory, so no other one is made
  };
  /// Brings the constants to the device, with the results of the steps `folded` if there is memory
  /// for them beside one run. Otherwise the constants have no such results.
  /// @throws error as `constants_on_devices::upload`
  void upload_constants(const detail::program_graph& graph, const program_inference& inferred,
                        const folding& folded, lane_libraries& libraries);
  /// Makes copies of the constants that steps want in another order, packed or prepacked, and lets
  /// the steps use them. A step for whose copy there is no memory uses the constant itself, which
  /// each run packs if need be.
  void copy_constants(const program_inference& inferred, lane_libraries& libraries);
  void copy_constants(form& steps, constant_copying& copying);
  /// Likewise of one of the actions `steps`, and of one of its operands.
  ///@{
  void copy_operands(form& steps, action& entry, constant_copying& copying);
  void copy_operand(form& steps, action& entry, std::size_t number, constant_copying& copying);
  ///@}
  /// The copy that is requested; nullptr if there is none and none can be made.
  [[nodiscard]] std::shared_ptr<const constant_copy> copy_constant(constant_copy_request request,
                                                                   constant_copying& copying) const;
  /// The share of this executable in these copies, in bytes.
  [[nodiscard]] std::size_t copied_bytes() const noexcept;
  /// The executables of padded runs; nullptr if runs are not padded.
  [[nodiscard]] const stacked_executables* padded_runs() const noexcept {
    return pads_ ? stacked_.get() : nullptr;
  }
  [[nodiscard]] void* address(const place& location, std::span<void* const> externals,
                              void* scratch) const noexcept;
  template <class Launch>
  void for_each(const form& steps, std::span<void* const> externals, void* scratch,
                const program_launch* run_data, error_word* errors, const Launch& launch) const;
  [[nodiscard]] bool kernels_are_settled() const noexcept;

  std::weak_ptr<const detail::program_graph> graph_;
  /// The number of its sets of plans: a graph has one of its own.
  [[nodiscard]] std::size_t sets() const noexcept { return copies_of_graph_ == 0 ? 1 : 2; }

  form steps_;  // with those that are computed together, if that needs no kernels
  form fused_;  // with those that generated kernels compute together; empty if there are none
  mutable std::atomic<kernels_state> kernels_state_{kernels_state::none};
  mutable std::string kernels_refusal_;  // written by the planner before the state
  std::vector<std::shared_ptr<const operation_plan>> plans_;
  std::shared_ptr<const uploaded_constants> constants_;
  std::vector<std::shared_ptr<const constant_copy>> copies_;
  std::shared_ptr<const detail::error_names> names_of_errors_;
  std::size_t copies_of_graph_ = 0;     // of inputs and outputs, if there may be one
  std::size_t steps_in_groups_ = 0;     // those that can be computed together with others
  std::size_t steps_in_epilogues_ = 0;  // those of them that need no generated kernels
  bool fuses_ = false;                  // whether the program allows it
  bool on_host_ = false;
  bool pads_ = false;
  std::unique_ptr<program_capture> capture_;
  std::unique_ptr<stacked_executables> stacked_;  // if runs may be stacked; empty on a host device
};

}  // namespace sluice::operations
