// SPDX-License-Identifier: Apache-2.0
#include "operations/program/capture_set_cuda.hpp"
#include "operations/program/captured_program.hpp"
#include "operations/program/graph_arguments_cuda.hpp"
#include "operations/program/graph_handles_cuda.hpp"
#include "runtime/cuda/check.hpp"
#include "runtime/seam.hpp"

#include <sluice/envelope/kernel_envelope.hpp>

#include <cuda_runtime_api.h>

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

namespace sluice::cuda {
namespace {

using operations::captured_program;
using operations::staged_external;
using operations::steps_to_capture;

constexpr std::size_t alignment = capture_alignment;
constexpr std::size_t aligned(std::size_t bytes) noexcept {
  return (bytes + alignment - 1) / alignment * alignment;
}

/// Places for the memory that changes from launch to launch, exactly as aligned as the addresses of
/// a launch.
struct places {
  std::vector<std::size_t> offsets{};
  std::size_t bytes = 0;

  [[nodiscard]] static places first(const std::vector<staged_external>& externals) {
    places result;
    for (const auto& s : externals) result.add(s.alignment % alignment, s.bytes, 0);
    return result;
  }
  /// Other places, which may overlap the first ones: each is at least `alignment` further from its
  /// first place than the one before. Unless there is only one, it has another distance from the
  /// next boundary of 256 bytes, so that an argument that depends on it differs.
  [[nodiscard]] static places second(const std::vector<staged_external>& externals) {
    places result{.bytes = 2 * alignment};
    for (const auto& s : externals) {
      result.add((alignment - s.alignment % alignment) % alignment, s.bytes, 2 * alignment);
    }
    return result;
  }

 private:
  void add(std::size_t residue, std::size_t size, std::size_t gap) {
    offsets.push_back(bytes + residue);
    bytes = aligned(offsets.back() + size) + gap;
  }
};

class captured_graph final : public captured_program {
 public:
  captured_graph(std::shared_ptr<capture_set> set, device& device, const steps_to_capture& steps)
      : set_(std::move(set)), device_(device), graph_(device) {
    for (const auto& s : steps.staged_externals) staged_externals_.push_back({s});
    set_->stream().ref().synchronize();  // nothing of before may be asked for meanwhile
    if (!steps.apart || !capture_for_arguments(steps)) {
      if (steps.finds_errors) {
        throw error(errc::unsupported,
                    "the steps report errors, but their kernels cannot be told to which launch");
      }
      capture_with_copies(steps);
    }
    const auto upload = set_->memory_stream();
    graph_.upload(reinterpret_cast<cudaStream_t>(upload.native()));
    upload.synchronize();
  }

  void launch(stream_ref stream, std::span<void* const> externals, error_word* errors) override {
    try {
      const current_device_scope current(device_);
      if (arguments_) {
        for (std::size_t i = 0; i < staged_externals_.size(); ++i) {
          addresses_[i] = externals[staged_externals_[i].external.number];
        }
        if (errors != nullptr) addresses_.back() = errors;
        check(arguments_->set(graph_.executable(), addresses_));
      } else {
        retarget_copies(externals);
      }
      check(cudaGraphLaunch(graph_.executable(), reinterpret_cast<cudaStream_t>(stream.native())));
    } catch (...) {
      throw nothing_enqueued(current_error());
    }
  }
  std::size_t shared_device_bytes() const noexcept override {
    return scratch_->bytes() / static_cast<std::size_t>(std::max(1L, scratch_.use_count()));
  }

 private:
  struct staged {
    staged_external external;
    std::byte* place = nullptr;      // from or to which it is copied
    cudaGraphNode_t node = nullptr;  // that copies it
    void* address = nullptr;         // of the last launch
  };

  /// Captures the steps into a graph whose kernels get the addresses of each launch. Returns false
  /// if there is none.
  [[nodiscard]] bool capture_for_arguments(const steps_to_capture& steps) {
    scratch_ = set_->scratch(std::max(steps.scratch_bytes, alignment));
    // The error word of a launch is one more address, the last one.
    auto staged_memory = steps.staged_externals;
    if (steps.finds_errors) {
      staged_memory.push_back(
          {.bytes = sizeof(error_word), .alignment = alignof(error_word), .is_written = true});
    }
    const auto first = places::first(staged_memory);
    const auto second = places::second(staged_memory);
    const auto memory = set_->addresses(second.bytes);
    if (!memory) return false;
    auto* const base = static_cast<std::byte*>(memory->address());
    std::vector<captured_address> addresses;
    for (std::size_t i = 0; i < staged_memory.size(); ++i) {
      addresses.push_back(
          {base + first.offsets[i], base + second.offsets[i], staged_memory[i].bytes});
    }
    const auto capture = [&](graph_handles& handles, std::byte* captured_address::*address) {
      auto externals = steps.externals;
      for (std::size_t i = 0; i < staged_externals_.size(); ++i) {
        externals[staged_externals_[i].external.number] = addresses[i].*address;
      }
      auto* const errors =
          steps.finds_errors ? reinterpret_cast<error_word*>(addresses.back().*address) : nullptr;
      handles.capture(set_->stream().native(),
                      [&] { steps.enqueue(externals, scratch_->address(), errors); });
      (void)audit(handles);
    };
    graph_handles first_graph(device_);
    graph_handles second_graph(device_);
    capture(first_graph, &captured_address::first);
    capture(second_graph, &captured_address::second);
    arguments_ = graph_arguments::find(first_graph.get(), second_graph.get(), addresses);
    if (!arguments_) return false;
    first_graph.instantiate();
    for (const auto& a : addresses) addresses_.push_back(a.second);
    if (arguments_->set(first_graph.executable(), addresses_) != cudaSuccess) {
      arguments_.reset();
      return false;
    }
    graph_.swap(first_graph);
    return true;
  }
  void capture_with_copies(const steps_to_capture& steps) {
    // Behind the scratch memory of the steps lie the places of the externals, then a stand-in for
    // the addresses of a launch.
    std::erase_if(staged_externals_, [](const staged& s) { return s.external.bytes == 0; });
    const auto begin = aligned(steps.scratch_bytes);
    const auto layout = places::first(steps.staged_externals);
    std::size_t largest = 0;
    std::size_t copied_bytes = 0;
    for (const auto& s : steps.staged_externals) {
      largest = std::max(largest, aligned(s.bytes));
      copied_bytes += s.bytes;
    }
    if (copied_bytes > steps.max_copied_bytes) {
      throw error(errc::unsupported, "the inputs and outputs are too large");
    }
    scratch_ = set_->scratch(std::max(begin + layout.bytes + largest, alignment));
    auto* const base = static_cast<std::byte*>(scratch_->address());
    auto* const stand_in = base + begin + layout.bytes;
    auto externals = steps.externals;
    for (std::size_t i = 0; i < steps.staged_externals.size(); ++i) {
      externals[steps.staged_externals[i].number] = base + begin + layout.offsets[i];
    }
    for (auto& s : staged_externals_)
      s.place = static_cast<std::byte*>(externals[s.external.number]);
    const auto stream = set_->stream().native();
    const auto copy = [&](bool written) {
      for (const auto& s : staged_externals_) {
        if (s.external.is_written != written) continue;
        check(cudaMemcpyAsync(written ? stand_in : s.place, written ? s.place : stand_in,
                              s.external.bytes, cudaMemcpyDeviceToDevice, stream));
      }
    };
    graph_.capture(stream, [&] {
      copy(false);
      steps.enqueue(externals, scratch_->address(), nullptr);
      copy(true);
    });
    for (const auto& node_copy : audit(graph_)) {
      for (auto& s : staged_externals_) {
        if (s.external.is_written ? node_copy.source == s.place && node_copy.target == stand_in
                                  : node_copy.source == stand_in && node_copy.target == s.place) {
          s.node = node_copy.node;
        }
      }
    }
    if (std::any_of(staged_externals_.begin(), staged_externals_.end(),
                    [](const auto& s) { return !s.node; })) {
      throw error(errc::unsupported, "the copy of an input or an output is not in the graph");
    }
    graph_.instantiate();
  }
  void retarget_copies(std::span<void* const> externals) {
    for (auto& s : staged_externals_) {
      void* const address = externals[s.external.number];
      if (address == s.address) continue;
      check(cudaGraphExecMemcpyNodeSetParams1D(
          graph_.executable(), s.node, s.external.is_written ? address : s.place,
          s.external.is_written ? s.place : address, s.external.bytes, cudaMemcpyDeviceToDevice));
      s.address = address;
    }
  }

  std::shared_ptr<capture_set> set_;  // the graph uses workspaces of its libraries
  device& device_;                    // that the set owns
  std::shared_ptr<const block_ref> scratch_;
  std::vector<staged> staged_externals_;
  graph_handles graph_;
  std::optional<graph_arguments> arguments_;  // without them, the graph copies
  std::vector<void*> addresses_;  // of a launch, in the order of `staged_`; then its error word
};

}  // namespace

std::shared_ptr<lane_libraries> capture_libraries(lane_libraries& libraries) {
  const auto& set = libraries.get<capture_set_of_lane>().set;
  return {set, &set->libraries(libraries)};
}

std::unique_ptr<captured_program> capture(lane_libraries& libraries,
                                          const steps_to_capture& steps) {
  auto& device = libraries.runtime().device();
  const detail::library_call library_scope(device.id());
  device.require_usable();
  const current_device_scope current(device);
  return std::make_unique<captured_graph>(libraries.get<capture_set_of_lane>().set, device, steps);
}

}  // namespace sluice::cuda
