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

/// What a step of a random DAG does.
enum class step_kind : std::uint8_t {
  allocate,  ///< makes the block `out.block`
  release,   ///< gives it back; later blocks may get its address
  fill,      ///< the device's own fill
  copy,      ///< the device's own copy of `a`
  mix,       ///< the kernel of hazard_kernels.hpp
};

/// Elements [first, first + count) of a block.
struct view {
  std::size_t block = 0;
  std::size_t first = 0;
  std::size_t count = 0;
  bool operator==(const view&) const = default;
};

struct dag_step {
  step_kind kind = step_kind::mix;
  std::size_t thread = 0;  ///< which thread submits it
  std::size_t stream = 0;  ///< on which stream it runs, or allocates
  view out{};
  std::optional<view> a{};
  std::optional<view> b{};
  hazard_word constant = 0;
  std::uint32_t delay = 0;
  bool explicitly = false;  ///< release: frees the block although references exist
};

/// Operations on blocks, in the order in which they take effect. Steps that share no block have no
/// order among themselves.
struct hazard_dag {
  std::size_t streams = 0;
  std::size_t threads = 0;
  std::vector<std::size_t> block_sizes;  ///< elements of each block; each is allocated once
  std::vector<dag_step> steps;
};

struct dag_limits {
  std::size_t most_streams = 16;
  std::size_t most_threads = 8;
  std::size_t most_steps = 160;
  std::size_t smallest_block = 1;      ///< elements
  std::size_t largest_block = 16'384;  ///< elements, of which there are few as large
  std::uint32_t longest_delay = 0;
};

/// A random DAG. No element is read before it was written.
[[nodiscard]] hazard_dag make_dag(std::mt19937_64& random, const dag_limits& limits);

using block_contents = std::vector<std::vector<hazard_word>>;

/// What the blocks hold after the steps, run one after the other on this thread. Blocks that have
/// been released are empty.
[[nodiscard]] block_contents run_serially(const hazard_dag& dag);

/// A class of waits of one step.
struct step_wait {
  std::size_t step = 0;
  detail::hazard kind = detail::hazard::read_after_write;
  std::size_t elements = 0;  ///< how many elements lose their order without it
};

/// Where each block of a DAG came to lie, for a memory resource that keeps what is freed and hands
/// it out again; empty for the resource `async`.
using block_places = std::vector<const void*>;

/// The waits that matter when the DAG is submitted step by step and nothing runs before all is
/// submitted: without that step's waits of that class, two accesses to the same bytes, one of them
/// a write or a free, have no order. Found with vector clocks, from the rules of use states alone.
[[nodiscard]] std::vector<step_wait> waits_that_matter(const hazard_dag& dag,
                                                       const block_places& places = {});

}  // namespace sluice::test
