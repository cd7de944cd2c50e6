// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runtime/blocks/block_record.hpp"
#include "tests/runtime/hazards/hazard_kernels.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <random>
#include <vector>

namespace sluice::test {

/// The kind of a step of a random DAG.
enum class step_kind : std::uint8_t {
  allocate,  ///< allocates the block `out.block`
  release,   ///< releases it; later blocks may get its address
  fill,      ///< the fill of the device
  copy,      ///< the copy of the device, from `a`
  mix,       ///< the kernel of hazard_kernels.hpp
};

/// The elements [first, first + count) of a block.
struct view {
  std::size_t block = 0;
  std::size_t first = 0;
  std::size_t count = 0;
  bool operator==(const view&) const = default;
};

struct dag_step {
  step_kind kind = step_kind::mix;
  std::size_t thread = 0;  ///< the thread that submits it
  std::size_t stream = 0;  ///< the stream on which it runs or allocates
  view out{};
  std::optional<view> a{};
  std::optional<view> b{};
  hazard_word constant = 0;
  std::uint32_t delay = 0;
  bool explicitly = false;  ///< release: frees the block although references exist
};

/// Operations on blocks, in the order in which they take effect. Steps without a common block are
/// unordered.
struct hazard_dag {
  std::size_t streams = 0;
  std::size_t threads = 0;
  std::vector<std::size_t>
      block_sizes;  ///< the number of elements of each block; each is allocated once
  std::vector<dag_step> steps;
};

struct dag_limits {
  std::size_t max_streams = 16;
  std::size_t max_threads = 8;
  std::size_t max_steps = 160;
  std::size_t smallest_block = 1;      ///< in elements
  std::size_t largest_block = 16'384;  ///< in elements; few blocks are this large
  std::uint32_t longest_delay = 0;
};

/// Generates a random DAG. Every element is written before it is read.
[[nodiscard]] hazard_dag make_dag(std::mt19937_64& random, const dag_limits& limits);

using block_contents = std::vector<std::vector<hazard_word>>;

/// Runs the steps one after the other on this thread and returns the contents of the blocks.
/// Released blocks are empty.
[[nodiscard]] block_contents run_serially(const hazard_dag& dag);

/// A class of waits of one step.
struct step_wait {
  std::size_t step = 0;
  detail::hazard kind = detail::hazard::read_after_write;
  std::size_t elements = 0;  ///< the number of elements that are unordered without the wait
};

/// The address of each block of a DAG, for a memory resource that reuses freed memory. Empty for
/// the resource `async`.
using block_places = std::vector<const void*>;

/// Returns the waits that matter.
///
/// The DAG is submitted step by step before any of it runs. A wait matters if, without that step's
/// waits of its class, two accesses to the same bytes are unordered and one of them is a write or a
/// free. The model uses vector clocks and only the rules of use states.
[[nodiscard]] std::vector<step_wait> waits_that_matter(const hazard_dag& dag,
                                                       const block_places& places = {});

}  // namespace sluice::test
