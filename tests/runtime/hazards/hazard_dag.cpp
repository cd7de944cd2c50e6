// SPDX-License-Identifier: Apache-2.0
#include "tests/runtime/hazards/hazard_dag.hpp"

#include <algorithm>
#include <array>
#include <map>

namespace sluice::test {
namespace {

/// Generates one DAG.
class dag_maker {
 public:
  dag_maker(std::mt19937_64& random, const dag_limits& limits) : random_(random), limits_(limits) {
    dag_.streams = 2 + below(limits.max_streams - 1);
    dag_.threads = 1 + below(limits.max_threads);
  }

  hazard_dag make() {
    const auto steps = limits_.max_steps / 4 + below(limits_.max_steps * 3 / 4);
    // Few live blocks give many conflicts and early reuse of addresses.
    const auto max_live = 3 + below(10);
    while (dag_.steps.size() < steps) {
      if (live_.size() < 2 || (live_.size() < max_live && below(8) == 0)) {
        allocate();
      } else if (live_.size() > 2 && below(10) == 0) {
        release();
      } else {
        operate();
      }
    }
    return std::move(dag_);
  }

 private:
  struct live_block {
    std::size_t number = 0;
    std::size_t stream = 0;
    bool confined = false;  // used only on its own stream, so that it is freed on that stream
  };

  std::size_t below(std::size_t bound) {
    return std::uniform_int_distribution<std::size_t>(0, bound - 1)(random_);
  }

  dag_step& add(step_kind kind, std::size_t stream) {
    dag_step step;
    step.kind = kind;
    step.thread = below(dag_.threads);
    step.stream = stream;
    step.constant = random_();
    step.delay = limits_.longest_delay == 0 || below(4) != 0
                     ? 0
                     : static_cast<std::uint32_t>(below(limits_.longest_delay));
    return dag_.steps.emplace_back(step);
  }

  void allocate() {
    // Most sizes belong to one class, so that blocks fit into freed memory.
    const auto spread = below(40) == 0  ? limits_.largest_block - limits_.smallest_block + 1
                        : below(4) != 0 ? 32
                                        : 300;
    const auto size = limits_.smallest_block + below(spread);
    const live_block block{dag_.block_sizes.size(), below(dag_.streams), below(3) == 0};
    dag_.block_sizes.push_back(size);
    add(step_kind::allocate, block.stream).out = {block.number, 0, size};
    live_.push_back(block);
    // The first use writes the whole block, often on a stream other than the allocating one.
    write_to(block, {block.number, 0, size});
  }

  void release() {
    const auto chosen = below(live_.size());
    auto& step = add(step_kind::release, live_[chosen].stream);
    step.out = {live_[chosen].number, 0, dag_.block_sizes[live_[chosen].number]};
    step.explicitly = below(2) == 0;
    live_.erase(live_.begin() + static_cast<std::ptrdiff_t>(chosen));
  }

  view part_of(std::size_t block) {
    const auto size = dag_.block_sizes[block];
    if (below(2) == 0) return {block, 0, size};
    const auto first = below(size);
    return {block, first, 1 + below(size - first)};
  }

  void operate() {
    const auto target = live_[below(live_.size())];
    write_to(target, part_of(target.number));
  }

  void write_to(const live_block& target, const view& out) {
    const bool fresh = out.count == dag_.block_sizes[target.number] &&
                       dag_.steps.back().kind == step_kind::allocate;
    const auto stream = target.confined ? target.stream : below(dag_.streams);
    const auto choice = below(8);
    auto step = dag_step{};
    if (choice == 0) {
      step = add(step_kind::fill, stream);
    } else if (choice == 1) {
      const auto source = input(target.number, stream);
      if (!source || source->count < out.count) {
        step = add(step_kind::fill, stream);
      } else {
        step = add(step_kind::copy, stream);
        step.a = {source->block, source->first, out.count};
      }
    } else {
      step = add(step_kind::mix, stream);
      // In place, from other blocks, or both. An input overlaps the output entirely or not at all.
      if (!fresh && below(3) == 0) {
        step.a = out;
      } else {
        step.a = input(target.number, stream);
      }
      if (below(2) == 0) step.b = input(target.number, stream);
    }
    step.out = out;
    // An input has no more elements than the output, because the kernel reads no more.
    for (auto* read : {&step.a, &step.b}) {
      if (*read) (*read)->count = std::min((*read)->count, out.count);
    }
    dag_.steps.back() = step;
  }

  /// Part of a random block other than `target` that `stream` may use.
  std::optional<view> input(std::size_t target, std::size_t stream) {
    for (int attempt = 0; attempt < 4; ++attempt) {
      const auto& chosen = live_[below(live_.size())];
      if (chosen.number == target || (chosen.confined && chosen.stream != stream)) continue;
      return part_of(chosen.number);
    }
    return std::nullopt;
  }

  std::mt19937_64& random_;
  const dag_limits limits_;
  hazard_dag dag_;
  std::vector<live_block> live_;
};

/// The order that streams and waits establish, as vector clocks over the streams.
class order_model {
 public:
  order_model(const hazard_dag& dag, const block_places& places)
      : dag_(dag),
        places_(places),
        reclaim_stream_(dag.streams),
        now_(dag.streams + 1, clock(dag.streams + 1, 0)),
        passed_(dag.streams + 1) {
    for (auto& stream : passed_) stream.push_back(clock(dag.streams + 1, 0));
    blocks_.resize(dag.block_sizes.size());
  }

  std::vector<step_wait> run() {
    for (std::size_t i = 0; i < dag_.steps.size(); ++i) take(i);
    return found_;
  }

 private:
  using clock = std::vector<std::uint64_t>;

  struct point {
    std::size_t stream = 0;
    std::uint64_t ticket = 0;
  };
  /// A published use and its range.
  struct use {
    point submission;
    view range;
    bool writes = false;
    bool is_allocation = false;
  };
  struct block {
    std::size_t stream = 0;  // the stream that allocated it
    std::optional<use> last_write;
    std::vector<use> reads;  // the newest of each stream
    std::vector<use>
        inherited;  // uses of the previous block at this address, until the first write
  };
  struct wait {
    use earlier;
    detail::hazard kind;
    std::size_t elements =
        0;  // elements that both accesses touch, at least one of which is a write
  };

  struct block_access {
    std::size_t block = 0;
    std::vector<view> reads;
    std::optional<view> write;
  };

  point submit(std::size_t stream) {
    now_[stream][stream] += 1;
    passed_[stream].push_back(now_[stream]);
    return {stream, now_[stream][stream]};
  }

  static std::size_t common(const view& a, const view& b) {
    const auto begin = std::max(a.first, b.first);
    const auto end = std::min(a.first + a.count, b.first + b.count);
    return begin < end ? end - begin : 0;
  }

  static std::vector<block_access> accesses_of(const dag_step& step) {
    std::vector<block_access> all;
    const auto access_of = [&all](std::size_t block) -> block_access& {
      for (auto& known : all) {
        if (known.block == block) return known;
      }
      return all.emplace_back(block_access{block, {}, std::nullopt});
    };
    access_of(step.out.block).write = step.out;
    if (step.a) access_of(step.a->block).reads.push_back(*step.a);
    if (step.b) access_of(step.b->block).reads.push_back(*step.b);
    return all;
  }

  static std::size_t conflict(const use& earlier, const block_access& later) {
    std::size_t most = later.write ? common(earlier.range, *later.write) : 0;
    if (!earlier.writes) return most;
    for (const auto& read : later.reads) most = std::max(most, common(earlier.range, read));
    return most;
  }

  void take(std::size_t index) {
    const auto& step = dag_.steps[index];
    if (step.kind == step_kind::allocate) return allocate(step);
    if (step.kind == step_kind::release) return release(index, step);

    const auto accesses = accesses_of(step);
    std::vector<wait> waits;
    for (const auto& access : accesses) {
      const auto& state = blocks_[access.block];
      if (state.last_write) {
        const auto kind = state.last_write->is_allocation ? detail::hazard::allocation_ready
                          : access.write                  ? detail::hazard::write_after_write
                                                          : detail::hazard::read_after_write;
        waits.push_back({*state.last_write, kind, conflict(*state.last_write, access)});
      }
      for (const auto& before : state.inherited) {
        waits.push_back({before, detail::hazard::inherited, conflict(before, access)});
      }
      if (!access.write) continue;
      for (const auto& read : state.reads) {
        waits.push_back({read, detail::hazard::write_after_read, conflict(read, access)});
      }
    }
    take_waits(index, step.stream, waits);
    const auto submission = submit(step.stream);
    for (const auto& access : accesses) publish(access, submission);
  }

  void take_waits(std::size_t index, std::size_t stream, const std::vector<wait>& waits) {
    for (const auto kind : {detail::hazard::read_after_write, detail::hazard::write_after_read,
                            detail::hazard::write_after_write, detail::hazard::allocation_ready,
                            detail::hazard::inherited, detail::hazard::free_after_use}) {
      if (const auto lost = unordered_without(kind, stream, waits); lost != 0) {
        found_.push_back({index, kind, lost});
      }
    }
    for (const auto& w : waits) join(now_[stream], w.earlier.submission);
  }

  void allocate(const dag_step& step) {
    auto& state = blocks_[step.out.block];
    state.stream = step.stream;
    if (!places_.empty()) {
      if (const auto left = left_.find(places_[step.out.block]); left != left_.end()) {
        state.inherited = left->second;
        return;
      }
    }
    state.last_write = use{submit(step.stream), step.out, true, true};
  }

  void release(std::size_t index, const dag_step& step) {
    const auto& state = blocks_[step.out.block];
    auto uses = state.reads;
    if (state.last_write) uses.push_back(*state.last_write);
    uses.insert(uses.end(), state.inherited.begin(), state.inherited.end());
    if (!places_.empty()) {
      left_[places_[step.out.block]] = uses;
      return;
    }
    // A block used only on its own stream is freed there.
    if (std::all_of(uses.begin(), uses.end(),
                    [&](const use& u) { return u.submission.stream == state.stream; })) {
      (void)submit(state.stream);
      return;
    }
    std::vector<wait> waits;
    for (const auto& u : uses) {
      waits.push_back({u, detail::hazard::free_after_use, u.range.count});
    }
    take_waits(index, reclaim_stream_, waits);
    (void)submit(reclaim_stream_);
  }

  std::size_t unordered_without(detail::hazard kind, std::size_t stream,
                                const std::vector<wait>& waits) const {
    clock without = now_[stream];
    for (const auto& w : waits) {
      if (w.kind != kind) join(without, w.earlier.submission);
    }
    std::size_t most = 0;
    for (const auto& w : waits) {
      if (w.kind == kind && without[w.earlier.submission.stream] < w.earlier.submission.ticket) {
        most = std::max(most, w.elements);
      }
    }
    return most;
  }

  void join(clock& into, const point& submission) const {
    const auto& other = passed_[submission.stream][submission.ticket];
    for (std::size_t s = 0; s < into.size(); ++s) into[s] = std::max(into[s], other[s]);
  }

  void publish(const block_access& access, const point& submission) {
    auto& state = blocks_[access.block];
    if (access.write) {
      state.last_write = use{submission, *access.write, true, false};
      state.reads.clear();
      state.inherited.clear();
      return;
    }
    const use read{submission, access.reads.front(), false, false};
    for (auto& known : state.reads) {
      if (known.submission.stream == submission.stream) {
        known = read;
        return;
      }
    }
    state.reads.push_back(read);
  }

  const hazard_dag& dag_;
  const block_places& places_;
  const std::size_t reclaim_stream_;
  std::map<const void*, std::vector<use>> left_;  // uses of the previous block at an address
  std::vector<clock> now_;                        // for each stream
  std::vector<std::vector<clock>> passed_;        // for each ticket
  std::vector<block> blocks_;
  std::vector<step_wait> found_;
};

}  // namespace

hazard_dag make_dag(std::mt19937_64& random, const dag_limits& limits) {
  return dag_maker(random, limits).make();
}

block_contents run_serially(const hazard_dag& dag) {
  block_contents blocks(dag.block_sizes.size());
  const auto address_of = [&](const std::optional<view>& v) -> hazard_word* {
    return v ? blocks[v->block].data() + v->first : nullptr;
  };
  for (const auto& step : dag.steps) {
    auto& out = blocks[step.out.block];
    switch (step.kind) {
      case step_kind::allocate:
        out.assign(step.out.count, 0);
        break;
      case step_kind::release:
        out.clear();
        break;
      case step_kind::fill:
        std::fill_n(address_of(step.out), step.out.count, step.constant);
        break;
      case step_kind::copy:
        std::copy_n(address_of(step.a), step.out.count, address_of(step.out));
        break;
      case step_kind::mix:
        mix_on_host({.out = address_of(step.out),
                     .count = step.out.count,
                     .a = address_of(step.a),
                     .a_count = step.a ? step.a->count : 0,
                     .b = address_of(step.b),
                     .b_count = step.b ? step.b->count : 0,
                     .constant = step.constant});
        break;
    }
  }
  return blocks;
}

std::vector<step_wait> waits_that_matter(const hazard_dag& dag, const block_places& places) {
  return order_model(dag, places).run();
}

}  // namespace sluice::test
