// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/runtime/tensor_layout.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>

namespace sluice::operations {

/// A view of a value in which several runs lie one behind the other.
struct stacked_view {
  tensor_layout layout{};
  std::optional<std::size_t> axis{};  ///< along which the runs lie; nothing if along none
};

/// The axis of `result` along which the views of `count` runs lie: the part of each run in `result`
/// is the view of its part in `source`, element by element. Nothing if there is no such axis, or
/// if the view of a run cannot be had.
[[nodiscard]] std::optional<std::size_t> axis_of_views(
    const std::function<tensor_layout(const tensor_layout&)>& view, const tensor_layout& source,
    std::size_t source_axis, std::int64_t count, const tensor_layout& result);

/// The view of `count` runs that lie one behind the other along an axis of `source`. It is the view
/// itself if that is the views of the runs. Otherwise the view states extents of one run, as
/// `reshape` does, and the result is put together of those of the runs, if they lie one behind the
/// other along an axis. If they do not, it is the view itself, and has no such axis.
/// @throws error what the view refuses
[[nodiscard]] stacked_view view_of_runs(
    const std::function<tensor_layout(const tensor_layout&)>& view, const tensor_layout& source,
    std::size_t source_axis, std::int64_t count);

}  // namespace sluice::operations
