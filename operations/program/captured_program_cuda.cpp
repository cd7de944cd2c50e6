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

  [[nodiscard]] static places first(const std::vector<staged_external>& staged) {
    places made;
    for (const auto& s : staged) made.add(s.alignment % alignment, s.bytes, 0);
    return made;
  }
  /// Other places, which may overlap the first ones: each is at least `alignment` further from its
  /// first place than the one before. Unless there is only one, it has another distance from the
  /// next boundary of 256 bytes, so that an argument that depends on it differs.
  [[nodiscard]] static places second(const std::vector<staged_external>& staged) {
    places made{.bytes = 2 * alignment};
    for (const auto& s : staged) {
      made.add((alignment - s.alignment % alignment) % alignment, s.bytes, 2 * alignment);
    }
    return made;
  }

 private:
  void add(std::size_t residue, std::size_t size, std::size_t gap) {
    offsets.push_back(bytes + residue);
    bytes = aligned(offsets.back() + size) + gap;
  }
};

class captured_graph final : public captured_program {
 public:
  captured_graph(std::shared_ptr<capture_set> set, device& device, const steps_to_capture& what)
      : set_(std::move(set)), device_(device), graph_(device) {
    for (const auto& s : what.staged) staged_.push_back({s});
    set_->stream().ref().synchronize();  // nothing of before may be asked for meanwhile
    if (!what.apart || !capture_for_arguments(what)) capture_with_copies(what);
    const auto upload = set_->memory_stream();
    graph_.upload(reinterpret_cast<cudaStream_t>(upload.native()));
    upload.synchronize();
  }

  void launch(stream_ref on, std::span<void* const> externals) override {
    try {
      const current_device_scope current(device_);
      if (arguments_) {
        for (std::size_t i = 0; i < staged_.size(); ++i) {
          addresses_[i] = externals[staged_[i].what.number];
        }
        check(arguments_->set(graph_.executable(), addresses_));
      } else {
        retarget_copies(externals);
      }
      check(cudaGraphLaunch(graph_.executable(), reinterpret_cast<cudaStream_t>(on.native())));
    } catch (...) {
      throw nothing_enqueued(current_error());
    }
  }
  std::size_t shared_device_bytes() const noexcept override {
    return scratch_->bytes() / static_cast<std::size_t>(std::max(1L, scratch_.use_count()));
  }

 private:
  struct staged {
    staged_external what;
    std::byte* place = nullptr;      // from or to which it is copied
    cudaGraphNode_t node = nullptr;  // that copies it
    void* address = nullptr;         // of the last launch
  };

  /// Captures the steps into a graph whose kernels get the addresses of each launch. Returns false
  /// if there is none.
  [[nodiscard]] bool capture_for_arguments(const steps_to_capture& what) {
    scratch_ = set_->scratch(std::max(what.scratch_bytes, alignment));
    const auto first = places::first(what.staged);
    const auto second = places::second(what.staged);
    const auto memory = set_->addresses(second.bytes);
    if (!memory) return false;
    auto* const base = static_cast<std::byte*>(memory->address());
    std::vector<captured_address> addresses;
    for (std::size_t i = 0; i < staged_.size(); ++i) {
      addresses.push_back(
          {base + first.offsets[i], base + second.offsets[i], staged_[i].what.bytes});
    }
    const auto capture = [&](graph_handles& to, std::byte* captured_address::*which) {
      auto externals = what.externals;
      for (std::size_t i = 0; i < staged_.size(); ++i) {
        externals[staged_[i].what.number] = addresses[i].*which;
      }
      to.capture(set_->stream().native(), [&] { what.enqueue(externals, scratch_->address()); });
      (void)audit(to);
    };
    graph_handles one(device_);
    graph_handles two(device_);
    capture(one, &captured_address::first);
    capture(two, &captured_address::second);
    arguments_ = graph_arguments::find(one.get(), two.get(), addresses);
    if (!arguments_) return false;
    one.instantiate();
    for (const auto& a : addresses) addresses_.push_back(a.second);
    if (arguments_->set(one.executable(), addresses_) != cudaSuccess) {
      arguments_.reset();
      return false;
    }
    graph_.swap(one);
    return true;
  }
  void capture_with_copies(const steps_to_capture& what) {
    // Behind the scratch memory of the steps lie the places of the externals, then a stand-in for
    // the addresses of a launch.
    std::erase_if(staged_, [](const staged& s) { return s.what.bytes == 0; });
    const auto begin = aligned(what.scratch_bytes);
    const auto at = places::first(what.staged);
    std::size_t largest = 0;
    std::size_t copied = 0;
    for (const auto& s : what.staged) {
      largest = std::max(largest, aligned(s.bytes));
      copied += s.bytes;
    }
    if (copied > what.max_copied_bytes) {
      throw error(errc::unsupported, "the inputs and outputs are too large");
    }
    scratch_ = set_->scratch(std::max(begin + at.bytes + largest, alignment));
    auto* const base = static_cast<std::byte*>(scratch_->address());
    auto* const stand_in = base + begin + at.bytes;
    auto externals = what.externals;
    for (std::size_t i = 0; i < what.staged.size(); ++i) {
      externals[what.staged[i].number] = base + begin + at.offsets[i];
    }
    for (auto& s : staged_) s.place = static_cast<std::byte*>(externals[s.what.number]);
    const auto on = set_->stream().native();
    const auto copy = [&](bool written) {
      for (const auto& s : staged_) {
        if (s.what.is_written != written) continue;
        check(cudaMemcpyAsync(written ? stand_in : s.place, written ? s.place : stand_in,
                              s.what.bytes, cudaMemcpyDeviceToDevice, on));
      }
    };
    graph_.capture(on, [&] {
      copy(false);
      what.enqueue(externals, scratch_->address());
      copy(true);
    });
    for (const auto& found : audit(graph_)) {
      for (auto& s : staged_) {
        if (s.what.is_written ? found.from == s.place && found.to == stand_in
                              : found.from == stand_in && found.to == s.place) {
          s.node = found.node;
        }
      }
    }
    if (std::any_of(staged_.begin(), staged_.end(), [](const auto& s) { return !s.node; })) {
      throw error(errc::unsupported, "the copy of an input or an output is not in the graph");
    }
    graph_.instantiate();
  }
  void retarget_copies(std::span<void* const> externals) {
    for (auto& s : staged_) {
      void* const address = externals[s.what.number];
      if (address == s.address) continue;
      check(cudaGraphExecMemcpyNodeSetParams1D(
          graph_.executable(), s.node, s.what.is_written ? address : s.place,
          s.what.is_written ? s.place : address, s.what.bytes, cudaMemcpyDeviceToDevice));
      s.address = address;
    }
  }

  std::shared_ptr<capture_set> set_;  // the graph uses workspaces of its libraries
  device& device_;                    // that the set owns
  std::shared_ptr<const block_ref> scratch_;
  std::vector<staged> staged_;
  graph_handles graph_;
  std::optional<graph_arguments> arguments_;  // without them, the graph copies
  std::vector<void*> addresses_;              // of a launch, in the order of `staged_`
};

}  // namespace

std::shared_ptr<lane_libraries> capture_libraries(lane_libraries& of_lane) {
  const auto& set = of_lane.get<capture_set_of_lane>().set;
  return {set, &set->libraries()};
}

std::unique_ptr<captured_program> capture(lane_libraries& of_lane, const steps_to_capture& what) {
  auto& device = of_lane.runtime().device();
  const detail::library_call in_library(device.id());
  device.require_usable();
  const current_device_scope current(device);
  return std::make_unique<captured_graph>(of_lane.get<capture_set_of_lane>().set, device, what);
}

}  // namespace sluice::cuda
