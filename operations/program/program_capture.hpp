// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "operations/program/captured_program.hpp"
#include "operations/program/program_inference.hpp"

#include <sluice/envelope/kernel_envelope.hpp>
#include <sluice/operations/lane_libraries.hpp>
#include <sluice/operations/program.hpp>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

namespace sluice::operations {

class executable;

/// The captured form of an executable: when it is made, and whether launches use it.
///
/// The owner of the lane launches, and the planner makes the graph meanwhile. With
/// `capture_policy::automatic` the first launches enqueue the steps and the next ones the graph;
/// the rest do what took the owner less time.
class program_capture {
 public:
  program_capture(std::shared_ptr<const detail::program_graph> graph,
                  std::shared_ptr<const program_inference> inferred, capture_policy policy,
                  device_kind kind);

  /// Whether `capture_policy::automatic` captures an executable whose inputs and outputs have
  /// `staged_bytes`, as far as its steps say.
  [[nodiscard]] static bool may_be_captured(const executable& steps,
                                            std::size_t staged_bytes) noexcept;

  /// Launches on the stream of the lane: the graph, or `steps()`. Only the owner calls it. `errors`
  /// is the error word of the launch; nullptr if it has none.
  template <class Steps>
  void launch(stream_ref stream, std::span<void* const> externals, error_word* errors,
              const Steps& steps) {
    const auto current = state_.load(std::memory_order_acquire);
    if (current == state::never) return steps();
    const auto start = std::chrono::steady_clock::now();
    if (current != state::made && current != state::kept) {
      steps();
      return note_steps(std::chrono::steady_clock::now() - start);
    }
    try {
      graph_->launch(stream, externals, errors);
    } catch (const nothing_enqueued& failure) {
      note_refusal(failure);
      return steps();
    }
    if (current == state::made) note_graph(std::chrono::steady_clock::now() - start);
  }
  /// Whether `make` shall be called now. True once. Only the owner calls it.
  [[nodiscard]] bool wanted() noexcept;
  /// Whether `wanted` has asked for the graph.
  [[nodiscard]] bool is_requested() const noexcept {
    return state_.load(std::memory_order_acquire) == state::being_made;
  }
  /// Makes the graph. Only the planner calls it.
  void make(lane_libraries& libraries) noexcept;

  /// Whether launches use the graph.
  [[nodiscard]] bool is_used() const noexcept {
    const auto current = state_.load(std::memory_order_acquire);
    return current == state::made || current == state::kept;
  }
  /// Whether launches will not use a graph although the program asks for one.
  [[nodiscard]] bool is_refused() const noexcept {
    return policy_ != capture_policy::never &&
           state_.load(std::memory_order_acquire) == state::never;
  }
  /// Why launches will not use a graph; empty if they may.
  [[nodiscard]] std::string refusal() const;
  /// Its size in host memory, without the second set of plans.
  [[nodiscard]] std::size_t bytes() const noexcept {
    return sizeof(*this) + (inferred_ ? inferred_->bytes : 0);
  }
  /// The part of the scratch memory of captured programs that falls to this one, in bytes.
  [[nodiscard]] std::size_t shared_device_bytes() const noexcept;
  /// Whether a second set of plans has been made for the graph.
  [[nodiscard]] bool has_plans() const noexcept;

 private:
  using duration = std::chrono::steady_clock::duration;
  enum class state : std::uint8_t {
    steps,       ///< the first launches
    wanted,      ///< the owner has to ask the planner
    being_made,  ///< the planner has been asked
    made,        ///< the first launches of the graph
    kept,        ///< all launches use the graph
    never,       ///< no launch does
  };

  void note_steps(duration time) noexcept;
  void note_graph(duration time) noexcept;
  /// The driver has not taken the addresses of a launch: memory of another kind than that of the
  /// runtime, for example.
  void note_refusal(const error& failure) noexcept;
  /// What the graph consists of, without the steps.
  /// @throws error `unsupported` with the reason if there is none
  [[nodiscard]] steps_to_capture describe(const detail::program_graph& graph) const;

  std::atomic<state> state_;
  std::weak_ptr<const detail::program_graph> program_;
  std::shared_ptr<const program_inference> inferred_;
  capture_policy policy_;
  // Written by the planner before `state_`, then immutable.
  std::shared_ptr<lane_libraries> libraries_;  // of the capture; destroyed after the plans
  std::shared_ptr<const executable> steps_;    // bound to them
  std::unique_ptr<captured_program> graph_;    // destroyed first
  std::string refusal_;
  // Of the owner.
  unsigned step_launches_ = 0;
  unsigned graph_launches_ = 0;
  unsigned refused_launches_ = 0;
  unsigned attempts_ = 0;  // of the planner
  duration best_of_steps_ = duration::max();
  duration best_of_graph_ = duration::max();
};

}  // namespace sluice::operations
