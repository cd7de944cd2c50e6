// SPDX-License-Identifier: Apache-2.0
#include "operations/dnn/cuda/convolution_trial.hpp"

#include "operations/aligned.hpp"
#include "operations/core/algorithm_choices.hpp"
#include "operations/core/algorithm_trial_cuda.hpp"
#include "operations/dnn/convolution_functions.hpp"
#include "operations/dnn/cuda/bias_activation.hpp"
#include "operations/dnn/cuda/check_cudnn.hpp"
#include "operations/dnn/cuda/cudnn_handle.hpp"
#include "operations/elementwise/layouts.hpp"
#include "operations/workspace.hpp"
#include "runtime/cuda/check.hpp"

#include <sluice/runtime/error.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>

namespace sluice::cuda {
namespace {

using operations::algorithm_choices;
using operations::aligned;
using operations::convolution_key;
using operations::convolution_operands;

/// The most scratch memory that an algorithm may need.
constexpr std::size_t max_workspace = std::size_t{256} << 20U;

/// Operands up to this size, together, are convolved when a plan is made.
constexpr std::size_t max_tried_bytes = std::size_t{256} << 20U;

/// The most scratch memory of a plan that replaces one with less. Each lane keeps it.
constexpr std::size_t max_tried_workspace = std::size_t{64} << 20U;

/// The most plans of a kind in a trial.
constexpr std::size_t max_tried_plans = 6;

/// The most plans without the epilogue in a trial of plans with one, and the most calls with
/// descriptors.
constexpr std::size_t max_tried_others = 2;

/// How long plans are made for a trial. Each takes up to some tens of milliseconds.
constexpr std::chrono::milliseconds max_planning_time{100};

/// Memory in place of the operands of a convolution.
struct trial_layout {
  explicit trial_layout(const convolution_key& key) {
    const auto bytes = [size = size_of(key.type())](std::int64_t elements) {
      return aligned(static_cast<std::size_t>(elements) * size);
    };
    // cuDNN refuses some operands for their alignment, at a launch only.
    const auto alignment = static_cast<std::size_t>(key.alignment);
    x = alignment < convolution_key::max_alignment ? alignment : 0;
    w = x + bytes(key.x_extent());
    y = w + bytes(key.w_extent());
    bias = aligned(y + bytes(key.y_extent()));
    end = bias + bytes(key.y_channels());
  }
  /// The positions of the operands, in bytes.
  ///@{
  std::size_t x;
  std::size_t w;
  std::size_t y;
  std::size_t bias;
  ///@}
  std::size_t end;  ///< size of all operands, in bytes
};

/// Makes `scratch` at least `bytes` large. False if there is no memory now.
bool try_require(operations::workspace& scratch, std::size_t bytes) {
  try {
    scratch.require(bytes);
    return true;
  } catch (const error& e) {
    if (!is_retryable(e.code())) throw;
    return false;
  }
}

/// The search for the ways of one convolution.
class convolution_search {
 public:
  convolution_search(lane_libraries& libraries, const convolution_key& key)
      : libraries_(libraries),
        device_(libraries.runtime().device()),
        handle_(libraries.get<planning_cudnn>().get()),
        key_(key),
        layout_(key),
        scratch_(libraries.runtime(), libraries.stream(), "cudnn trial") {
    static_assert(std::has_unique_object_representations_v<convolution_key>);
    if (libraries.algorithms().policy == algorithm_policy::proposed || !key.uses_graphs()) return;
    subject_ = subject_of_choice("cuDNN " + dnn_version(), device_, &key, sizeof key);
    choice_ = algorithm_choices::of_process().find(*subject_);
  }

  std::vector<std::unique_ptr<convolution_way>> run() {
    convolution_ways ways(handle_, key_, max_workspace, choice_);
    std::optional<error> no_memory;
    while (auto way = ways.next()) {
      if (layout_.end > max_tried_bytes || !require(way->workspace_bytes())) {
        if (try_require(scratch_, way->workspace_bytes())) {
          if (must_change(ways.number())) return run();
          return with_replacements(std::move(way), ways);
        }
        no_memory = error(errc::out_of_memory, "convolution: there is no memory for the workspace");
        continue;
      }
      const unsigned char zero = 0;
      device_.fill(operands_, &zero, 1, layout_.end, libraries_.stream().native());
      if (is_taken(*way)) return fastest(std::move(way), ways);
      device_.require_usable();
    }
    if (no_memory) throw *no_memory;
    throw error(errc::unsupported,
                std::string("convolution: cuDNN has no algorithm for this geometry: ") +
                    cudnnGetErrorString(status_),
                library_status{"cuDNN", static_cast<long>(status_)});
  }

 private:
  using way_list = std::vector<std::unique_ptr<convolution_way>>;

  /// Makes memory for the operands, behind a workspace. False if there is none now.
  [[nodiscard]] bool require(std::size_t workspace_bytes) {
    const auto first = aligned(workspace_bytes);
    if (!try_require(scratch_, first + layout_.end)) return false;
    operands_ = static_cast<std::byte*>(scratch_.address()) + first;
    return true;
  }
  /// Enqueues a convolution. Returns whether cuDNN takes it.
  [[nodiscard]] bool is_taken(convolution_way& way) {
    const convolution_operands operands{.x = operands_ + layout_.x,
                                        .w = operands_ + layout_.w,
                                        .bias = operands_ + layout_.bias,
                                        .y = operands_ + layout_.y};
    status_ = way.run(handle_, operands, scratch_.address());
    if (status_ == CUDNN_STATUS_SUCCESS) return true;
    (void)cudaGetLastError();  // do not leave it to an unrelated later call
    return false;
  }

  /// Keeps a plan that is not measured as the choice. Returns whether another one has been kept.
  [[nodiscard]] bool must_change(std::optional<std::uint32_t> number) {
    if (!subject_ || choice_ || !number) return false;
    choice_ = algorithm_choices::of_process().keep(*subject_, *number, false);
    return choice_ != number;
  }

  [[nodiscard]] static way_list with_replacements(std::unique_ptr<convolution_way> way,
                                                  convolution_ways& ways) {
    way_list list;
    list.push_back(std::move(way));
    ways.skip_plans();
    while (auto replacement = ways.next()) {
      // Launches have the workspace of the first way.
      if (replacement->workspace_bytes() <= list.front()->workspace_bytes()) {
        list.push_back(std::move(replacement));
      }
    }
    return list;
  }

  /// The fastest of several ways, beginning with `way`, which works; `way` itself if nothing is
  /// tried.
  [[nodiscard]] way_list fastest(std::unique_ptr<convolution_way> way, convolution_ways& ways) {
    way_list plans;
    plans.push_back(std::move(way));
    const auto first_number = ways.number();
    if (!subject_ || choice_ || !first_number) return plans;
    std::vector<std::uint32_t> numbers{*first_number};
    std::optional<std::size_t> best;
    if (libraries_.algorithms().has_nothing_in_flight) {
      add_ways(ways, plans, numbers);
      best = measure(plans);
    }
    const auto chosen = algorithm_choices::of_process().keep(*subject_, numbers[best.value_or(0)],
                                                             best.has_value());
    const auto position = std::find(numbers.begin(), numbers.end(), chosen) - numbers.begin();
    // Another thread may have chosen a plan that this one has not made.
    if (static_cast<std::size_t>(position) == numbers.size()) {
      choice_ = chosen;
      return run();
    }
    way_list result;
    result.push_back(std::move(plans[static_cast<std::size_t>(position)]));
    return result;
  }
  /// Adds the ways that are compared with the first plan: others of its graph, plans without the
  /// epilogue, and calls. These are faster where the channels do not fill the blocks of tensor
  /// cores.
  void add_ways(convolution_ways& ways, way_list& tried, std::vector<std::uint32_t>& numbers) {
    const auto max_bytes = std::max(tried[0]->workspace_bytes(), max_tried_workspace);
    const auto end = std::chrono::steady_clock::now() + max_planning_time;
    const auto add = [&](std::size_t count, const auto& next) {
      for (std::size_t i = 0; i < count; ++i) {
        auto way = next();
        if (way == nullptr || !ways.number()) return;
        if (way->workspace_bytes() > max_bytes) continue;
        numbers.push_back(ways.number().value());
        tried.push_back(std::move(way));
      }
    };
    const auto next_plan = [&]() -> std::unique_ptr<convolution_way> {
      return std::chrono::steady_clock::now() < end ? ways.next_plan_of_graph() : nullptr;
    };
    const auto next = [&] {
      return ways.next();
    };
    const bool is_fused = tried[0]->is_fused();
    add(max_tried_plans - 1, next_plan);
    if (is_fused) {
      ways.skip_fused_plans();
      add(max_tried_others, next);
    }
    ways.skip_plans();
    add(max_tried_others, next);
  }
  /// The number of the fastest way; nothing if there is no memory, or the device has other work.
  [[nodiscard]] std::optional<std::size_t> measure(const way_list& plans) {
    if (plans.size() < 2) return std::nullopt;
    std::size_t workspace_bytes = 0;
    for (const auto& plan : plans) {
      workspace_bytes = std::max(workspace_bytes, plan->workspace_bytes());
    }
    if (!require(workspace_bytes)) return std::nullopt;
    fill_with_noise(operands_, layout_.end, key_.type(), libraries_.stream());
    const auto best = fastest_algorithm(libraries_, plans.size(), [&](std::size_t i) {
      if (!is_taken(*plans[i])) return false;
      if (!plans[i]->is_fused()) finish();
      return true;
    });
    device_.require_usable();
    return best;
  }

  /// Enqueues the epilogue of a way without one.
  void finish() {
    if (key_.epilogue == operations::convolution_epilogue::none) return;
    const auto size = [](std::int64_t n) {
      return static_cast<std::size_t>(n);
    };
    const auto channels = size(key_.y_channels());
    const auto image = size(key_.y_image());
    const bool is_relu = key_.epilogue == operations::convolution_epilogue::bias_relu;
    const operations::bias_activation epilogue{
        .type = operations::storage_of(key_.type()),
        .y = operands_ + layout_.y,
        .bias = operands_ + layout_.bias,
        .residual = nullptr,
        .count = size(key_.n) * image,
        .image = image,
        .distance = size(key_.y_distance),
        .residual_distance = 0,
        .channels = channels,
        .channel_stride = key_.order == operations::channel_order::last ? 1 : image / channels,
        .overwrites = false,
        .function = is_relu ? activation::relu : activation::none};
    check(static_cast<cudaError_t>(
        operations::launch_bias_activation(epilogue, libraries_.stream().native())));
  }

  lane_libraries& libraries_;
  device& device_;
  cudnnHandle_t handle_;
  const convolution_key& key_;
  trial_layout layout_;
  operations::workspace scratch_;
  std::byte* operands_ = nullptr;
  cudnnStatus_t status_ = CUDNN_STATUS_NOT_SUPPORTED;
  std::optional<std::string> subject_;   // if there is a choice to make
  std::optional<std::uint32_t> choice_;  // `convolution_ways::number`, if it is made
};

}  // namespace

std::vector<std::unique_ptr<convolution_way>> find_convolution_ways(lane_libraries& libraries,
                                                                    const convolution_key& key) {
  return convolution_search(libraries, key).run();
}

}  // namespace sluice::cuda
