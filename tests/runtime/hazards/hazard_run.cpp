// SPDX-License-Identifier: Apache-2.0
#include "tests/runtime/hazards/hazard_run.hpp"

#include "runtime/core/runtime_core.hpp"
#include "tests/support/gate.hpp"
#include "tests/support/use_state.hpp"

#include <sluice/runtime/host_task.hpp>
#include <sluice/runtime/launch_recorder.hpp>
#include <sluice/runtime/memory_adaptors.hpp>
#include <sluice/runtime/memory_guard.hpp>
#include <sluice/runtime/memory_log.hpp>

#include <atomic>
#include <thread>

namespace sluice::test {
namespace {

thread_local std::size_t current_step = 0;

runtime_options with(hazard_session::memory resource,
                     const std::shared_ptr<guard_counters>& findings) {
  using memory = hazard_session::memory;
  runtime_options options;
  switch (resource) {
    case memory::async:
      options.resource = make_async_resource();
      break;
    case memory::direct:
      options.resource = make_direct_resource({.tracked = true});
      break;
    case memory::pool:
    case memory::pool_of_unfinished:
      options.resource = make_budget_resource(make_pool_resource(
          make_async_resource(), {.prefer_unfinished = resource == memory::pool_of_unfinished}));
      break;
    case memory::pool_over_direct:
      options.resource = make_pool_resource(make_direct_resource({.tracked = true}));
      break;
    case memory::guard:
      options.resource = make_guard_resource(make_default_resource(),
                                             {.quarantine_blocks = 8, .counters = findings});
      break;
    case memory::logging:
      options.resource =
          make_logging_resource(make_default_resource(), std::make_shared<memory_log>(1024));
      break;
    case memory::statistics:
      options.resource =
          make_statistics_resource(make_default_resource(), std::make_shared<memory_statistics>());
      break;
  }
  return options;
}

/// The progress of submitting one block's uses. A use waits until earlier writers have passed
/// preflight; a writer also waits for earlier readers.
struct block_turn {
  std::atomic<std::size_t> writers{0};
  std::atomic<std::size_t> readers{0};
};
struct needed_turn {
  std::size_t block = 0;
  std::size_t writers = 0;
  std::size_t readers = 0;
  bool writes = false;
};

std::vector<std::vector<needed_turn>> turns_of(const hazard_dag& dag) {
  std::vector<needed_turn> so_far(dag.block_sizes.size());
  std::vector<std::vector<needed_turn>> turns;
  for (const auto& step : dag.steps) {
    auto& needed = turns.emplace_back();
    const auto add = [&](std::size_t block, bool writes) {
      for (const auto& known : needed) {
        if (known.block == block) return;
      }
      needed.push_back({block, so_far[block].writers, so_far[block].readers, writes});
    };
    add(step.out.block, true);
    if (step.a) add(step.a->block, false);
    if (step.b) add(step.b->block, false);
    for (const auto& n : needed) (n.writes ? so_far[n.block].writers : so_far[n.block].readers)++;
  }
  return turns;
}

}  // namespace

void enqueue_mix(stream_ref stream, const mix_arguments& arguments) {
  if (stream.device().id().kind == device_kind::host) {
    submit_host_task(stream, [arguments] { mix_on_host(arguments); });
    return;
  }
#if defined(SLUICE_HAS_CUDA)
  const current_device_scope current(stream.device());
  if (const int status = launch_mix(arguments, stream.native()); status != 0) {
    throw error(errc::library_failure, "the kernel could not be launched",
                {"CUDA runtime", static_cast<long>(status)});
  }
#else
  throw error(errc::unsupported, "this build has no CUDA kernels");
#endif
}

/// One run of a DAG.
class hazard_session::submission {
 public:
  submission(hazard_session& session, const hazard_dag& dag, bool operates = true)
      : session_(session),
        dag_(dag),
        operates_(operates),
        turns_(turns_of(dag)),
        done_(dag.block_sizes.size()),
        blocks_(dag.block_sizes.size()),
        places_(dag.block_sizes.size()),
        inherited_(dag.block_sizes.size()) {}

  /// Submits all steps on the threads of the DAG.
  void submit() {
    std::vector<std::thread> threads;
    for (std::size_t t = 1; t < dag_.threads; ++t) threads.emplace_back([this, t] { work(t); });
    work(0);
    for (auto& thread : threads) thread.join();
    if (failed_) throw *failure_;
    count_reuse();
  }

  block_contents contents() {
    block_contents all(blocks_.size());
    const stream_ref stream = session_.streams_.front();
    auto recorder = launch_recorder::strict(stream);
    for (const auto& block : blocks_) {
      if (block) recorder.read(block);
    }
    recorder.preflight();
    for (std::size_t i = 0; i < blocks_.size(); ++i) {
      if (!blocks_[i]) continue;
      all[i].resize(blocks_[i].size());
      stream.device().copy(all[i].data(), blocks_[i].data(), blocks_[i].bytes(),
                           copy_direction::device_to_host, stream.native());
    }
    (void)recorder.commit();
    stream.synchronize();
    return all;
  }

 private:
  /// The earlier uses that came with the memory of a block.
  struct earlier_uses {
    bool any = false;
    bool elsewhere = false;
  };

  void count_reuse() {
    auto& reused = session_.reused_;
    std::unordered_set<const void*> of_this_dag;
    for (const auto* address : places_) {
      if (!of_this_dag.insert(address).second) ++reused.within_a_dag;
      session_.addresses_.insert(address);
    }
    for (const auto& earlier : inherited_) {
      reused.unfinished += earlier.any ? 1 : 0;
      reused.unfinished_elsewhere += earlier.elsewhere ? 1 : 0;
    }
    reused.allocations += places_.size();
    reused.distinct_addresses = session_.addresses_.size();
    session_.places_ = places_;
  }

  void work(std::size_t thread) noexcept {
    try {
      for (std::size_t i = 0; i < dag_.steps.size(); ++i) {
        if (dag_.steps[i].thread != thread) continue;
        current_step = i;
        if (session_.in_order_) await_count(steps_taken_, i);
        await_turn(turns_[i]);
        take(dag_.steps[i], turns_[i]);
        if (session_.in_order_) {
          steps_taken_.fetch_add(1, std::memory_order_acq_rel);
          steps_taken_.notify_all();
        }
      }
    } catch (...) {
      const auto failure = current_error();
      if (!claimed_.exchange(true)) {
        failure_ = failure;
        failed_ = true;
        pass_all_turns();
      }
    }
  }

  void await_turn(const std::vector<needed_turn>& needed) const {
    for (const auto& n : needed) {
      const auto& done = done_[n.block];
      await_count(done.writers, n.writers);
      if (n.writes) await_count(done.readers, n.readers);
    }
  }

  void await_count(const std::atomic<std::size_t>& count, std::size_t wanted) const {
    for (auto seen = count.load(std::memory_order_acquire); seen < wanted;
         seen = count.load(std::memory_order_acquire)) {
      count.wait(seen, std::memory_order_acquire);
    }
    if (claimed_.load(std::memory_order_acquire)) {
      throw error(errc::cancelled, "another submitting thread failed");
    }
  }

  void pass_turn(const std::vector<needed_turn>& needed) {
    for (const auto& n : needed) {
      auto& done = done_[n.block];
      auto& count = n.writes ? done.writers : done.readers;
      count.fetch_add(1, std::memory_order_acq_rel);
      count.notify_all();
    }
  }

  /// After a failure: lets all other threads pass their turns, so that they find the failure.
  void pass_all_turns() {
    steps_taken_.fetch_add(dag_.steps.size(), std::memory_order_acq_rel);
    steps_taken_.notify_all();
    for (auto& done : done_) {
      for (auto* count : {&done.writers, &done.readers}) {
        count->fetch_add(dag_.steps.size(), std::memory_order_acq_rel);
        count->notify_all();
      }
    }
  }

  gpu_ref<hazard_word> at(const view& v) const {
    return blocks_[v.block].subspan(v.first, v.count);
  }

  void take(const dag_step& step, const std::vector<needed_turn>& turn) {
    const stream_ref stream = session_.streams_[step.stream];
    if (step.kind == step_kind::allocate) {
      auto& block = blocks_[step.out.block];
      block = session_.runtime_.allocate<hazard_word>(step.out.count, stream, "hazards");
      places_[step.out.block] = block.data();
      inherited_[step.out.block] = uses_that_came_with(block.block(), stream);
      pass_turn(turn);
      return;
    }
    if (step.kind == step_kind::release) {
      // Other threads may hold leases on the block; the last one completes the free.
      if (step.explicitly) session_.runtime_.deallocate(blocks_[step.out.block].block());
      blocks_[step.out.block] = {};
      pass_turn(turn);
      return;
    }

    const auto out = at(step.out);
    gpu_ref<hazard_word> a;
    gpu_ref<hazard_word> b;
    auto recorder = launch_recorder::strict(stream);
    recorder.write(out);
    if (step.a) recorder.read(a = at(*step.a));
    if (step.b) recorder.read(b = at(*step.b));
    recorder.preflight();
    // The leases are held, so the next thread may try, and waits for the commit.
    pass_turn(turn);
    if (operates_) operate(step, stream, out, a, b);
    (void)recorder.commit();
  }

  static void operate(const dag_step& step, stream_ref stream, const gpu_ref<hazard_word>& out,
                      const gpu_ref<hazard_word>& a, const gpu_ref<hazard_word>& b) {
    switch (step.kind) {
      case step_kind::fill:
        stream.device().fill(out.data(), &step.constant, sizeof step.constant, out.size(),
                             stream.native());
        break;
      case step_kind::copy:
        stream.device().copy(out.data(), a.data(), out.bytes(), copy_direction::device_to_device,
                             stream.native());
        break;
      default:
        enqueue_mix(stream, {.out = out.data(),
                             .count = out.size(),
                             .a = a.data(),
                             .a_count = a.size(),
                             .b = b.data(),
                             .b_count = b.size(),
                             .constant = step.constant,
                             .delay = step.delay});
    }
  }

  /// Returns the inherited uses of a block that has not been used.
  static earlier_uses uses_that_came_with(const block_ref& block, stream_ref stream) {
    const auto uses = uses_of(block);
    earlier_uses earlier;
    for (const auto& point : uses.all) {
      if (point == uses.last_write) continue;  // the allocation itself
      earlier.any = true;
      earlier.elsewhere = earlier.elsewhere || point.stream != stream.id();
    }
    return earlier;
  }

  hazard_session& session_;
  const hazard_dag& dag_;
  const bool operates_;
  const std::vector<std::vector<needed_turn>> turns_;
  std::vector<block_turn> done_;
  std::vector<gpu_ref<hazard_word>> blocks_;
  block_places places_;
  std::vector<earlier_uses> inherited_;
  std::atomic<std::size_t> steps_taken_{0};  // for runs in the order of steps
  std::atomic<bool> claimed_{false};
  std::atomic<bool> failed_{false};
  std::optional<error> failure_;
};

hazard_session::hazard_session(std::shared_ptr<device> device, memory resource, std::size_t streams)
    : runtime_(std::move(device), with(resource, guard_)) {
  detail::runtime_core::of(runtime_)->leave_out([this](detail::hazard kind) {
    return left_out_ && left_out_->kind == kind && left_out_->step == current_step;
  });
  while (streams_.size() < streams) streams_.push_back(runtime_.create_stream());
}

block_contents hazard_session::run(const hazard_dag& dag, bool gated) {
  submission all(*this, dag);
  gate closed;
  if (gated) close(closed, dag);
  all.submit();
  closed.open();
  for (std::size_t s = 0; s < dag.streams; ++s) streams_[s].synchronize();
  // Passing a gate after its destruction would order a thread after everything that the owner of
  // the gate did.
  if (in_order_) rest(detail::runtime_core::of(runtime_)->reclaim_stream());
  left_out_.reset();
  return all.contents();
}

block_places hazard_session::place(const hazard_dag& dag) {
  submission all(*this, dag, false);
  gate closed;
  close(closed, dag);
  all.submit();
  return places_;
}

void hazard_session::close(gate& closed, const hazard_dag& dag) {
  for (std::size_t s = 0; s < dag.streams; ++s) closed.hold(streams_[s]);
  // A free without its wait must not run first either: the next owner of its memory opens the gate,
  // and that would order everything after the free.
  if (in_order_) closed.hold(detail::runtime_core::of(runtime_)->reclaim_stream());
  // A stream's thread that has not yet gone to sleep on its empty queue might synchronize with
  // later submissions, so wait until all threads have reached the gate.
  closed.wait_until_reached(static_cast<int>(dag.streams) + (in_order_ ? 1 : 0));
}

std::string_view name_of(hazard_session::memory resource) noexcept {
  using memory = hazard_session::memory;
  switch (resource) {
    case memory::async:
      return "async";
    case memory::direct:
      return "direct";
    case memory::pool:
      return "pool";
    case memory::pool_of_unfinished:
      return "pool_of_unfinished";
    case memory::pool_over_direct:
      return "pool_over_direct";
    case memory::guard:
      return "guard";
    case memory::logging:
      return "logging";
    case memory::statistics:
      return "statistics";
  }
  return "unknown";
}

std::string difference(const block_contents& computed, const block_contents& expected) {
  for (std::size_t block = 0; block < expected.size(); ++block) {
    if (block >= computed.size() || computed[block].size() != expected[block].size()) {
      return "block " + std::to_string(block) + " has another size";
    }
    for (std::size_t i = 0; i < expected[block].size(); ++i) {
      if (computed[block][i] != expected[block][i]) {
        return "block " + std::to_string(block) + " differs first at element " + std::to_string(i);
      }
    }
  }
  return {};
}

}  // namespace sluice::test
