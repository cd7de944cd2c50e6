// SPDX-License-Identifier: Apache-2.0
#include "operations/program/executable.hpp"

#include "envelope/seam.hpp"
#include "operations/parts_of_launch.hpp"
#include "operations/program/program_graph.hpp"
#include "operations/program/scratch_layout.hpp"

#include <sluice/envelope/kernel_envelope.hpp>
#include <sluice/operations/elementwise.hpp>
#include <sluice/runtime/host_task.hpp>

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <utility>

namespace sluice::operations {

using detail::program_graph;
using located = program_inference::located;

namespace {

bool has_gpu(const lane_libraries& libraries) noexcept {
  return libraries.runtime().device().id().kind != device_kind::host;
}

}  // namespace

/// Turns the inferred steps into actions.
class executable::builder {
 public:
  builder(executable& to, const program_graph& of, const program_inference& inferred,
          lane_libraries& libraries)
      : to_(to), of_(of), inferred_(inferred), libraries_(libraries) {
    const auto given = of.inputs().size() + of.constants().size();
    to.constants_ = of.constants_on(libraries);
    for (std::uint32_t i = 0; i < inferred.written.size(); ++i) {
      if (inferred.written[i].step) written_by_[*inferred.written[i].step] = i;
    }
    for (std::size_t root = 0; root < given + of.steps().size(); ++root) {
      roots_.push_back({place::kind::external, static_cast<std::uint32_t>(root), 0});
      if (root < given) {
        const auto input = root < of.inputs().size();
        const auto* const constant = input ? nullptr : &of.constants()[root - of.inputs().size()];
        if (constant != nullptr && constant->on_host) {
          roots_.back() = {place::kind::constant, 0, constant->offset};
        }
        continue;
      }
      const auto written = written_by_[root - given];
      roots_.back() = written == program_graph::none ? place() : external(written);
    }
  }

  void add_steps() {
    for (std::size_t i = 0; i < of_.steps().size(); ++i) {
      where_ = "step '" + of_.steps()[i].name + "'";
      naming([&] { return where_; }, [&] { add_step(i); });
    }
    for (std::size_t i = 0; i < inferred_.written.size(); ++i) {
      const auto& w = inferred_.written[i];
      if (w.step) continue;
      const auto& value = inferred_.values[of_.outputs()[*w.output]];
      where_ = of_.output_name(*w.output);
      naming([&] { return where_; },
             [&] { add_copy(place_of(value), value.spec(), external(i), w.spec); });
    }
    // A value that several steps use is needed until the last of them.
    for (std::size_t i = 0; i < to_.actions_.size(); ++i) {
      const auto& one = to_.actions_[i];
      for (const auto& at : one.operands) keep(at, i);
      keep(one.workspace, i);
    }
    to_.scratch_bytes_ = lay_out(buffers_);
    for (auto& one : to_.actions_) {
      for (auto& at : one.operands) settle(at);
      settle(one.workspace);
    }
  }

 private:
  /// Memory that the launch writes; see `program_inference::written`.
  [[nodiscard]] place external(std::size_t written) const {
    return {place::kind::external,
            static_cast<std::uint32_t>(of_.inputs().size() + of_.constants().size() + written), 0};
  }
  [[nodiscard]] place new_buffer(std::size_t bytes) {
    // Not `out_of_memory`: it does not help to plan again.
    if (bytes > memory_) {
      throw error(errc::unsupported, "an intermediate value, a packed copy or a workspace takes " +
                                         std::to_string(bytes) + " bytes, but the device has " +
                                         std::to_string(memory_) + " bytes of memory");
    }
    buffers_.push_back({.bytes = bytes, .first = to_.actions_.size()});
    return {place::kind::scratch, static_cast<std::uint32_t>(buffers_.size() - 1), 0};
  }
  void keep(const place& at, std::size_t number) {
    if (at.in != place::kind::scratch) return;
    auto& buffer = buffers_[at.number];
    buffer.first = std::min(buffer.first, number);
    buffer.last = std::max(buffer.last, number);
  }
  void settle(place& at) {
    if (at.in == place::kind::scratch) at.offset += buffers_[at.number].offset;
  }
  [[nodiscard]] place place_of(const located& value) {
    auto at = roots_[value.root];
    at.offset += value.layout.offset();
    return at;
  }

  void add_copy(const place& from, const tensor_spec& from_spec, const place& to,
                const tensor_spec& to_spec) {
    strided_copy copy;
    const std::array given{std::optional(from_spec), std::optional(to_spec)};
    const auto operands = detail::operands_of(copy);
    inference_of<detail::operand_count<strided_copy>()> inferred(operands, given);
    const auto& row = row_of(operation_type<strided_copy>{});
    action made;
    made.row = &row;
    made.operands = {from, to};
    made.types = {from_spec.type, to_spec.type};
    row.infer(&copy, inferred, made.call);
    add(std::move(made));
  }
  void add(action made) {
    const auto kind = libraries_.runtime().device().id().kind;
    made.where = where_;
    made.row->prepare(libraries_);
    if (made.row->makes_plans(kind)) {
      const auto bytes = made.row->key(kind, made.call);
      auto& plan = plans_[{made.row,
                           std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size())}];
      if (!plan) {
        plan = made.row->make_plan(libraries_, made.call);
        if (!plan) throw error(errc::library_failure, "no plan was made");
        to_.plans_.push_back(plan);
      }
      made.plan = plan;
      if (plan->workspace_bytes() != 0) made.workspace = new_buffer(plan->workspace_bytes());
      to_.commands_ += plan->commands();
    }
    to_.commands_ += made.row->facts(made.call).commands;
    to_.actions_.push_back(std::move(made));
  }
  /// The properties of a value that is repeated to `shape`.
  [[nodiscard]] static tensor_spec repeated(const tensor_spec& s, const extents& shape) {
    const auto layout = tensor_layout(s.type, s.shape, s.strides).broadcast_to(shape);
    return {s.type, layout.shape(), layout.strides(), s.alignment};
  }

  /// Whether a step that updates an operand may do so in its memory: the operand is a whole
  /// intermediate value that nothing else needs.
  [[nodiscard]] bool can_take_over(std::size_t number) const {
    const auto& step = of_.steps()[number];
    const auto updated = step.operands[step.output];
    if (updated == program_graph::none) return false;
    const auto& value = inferred_.values[updated];
    const auto& result = inferred_.values[step.result];
    if (roots_[value.root].in != place::kind::scratch || value.layout.offset() != 0 ||
        value.layout.strides() != result.layout.strides() ||
        value.layout.type() != result.layout.type()) {
      return false;
    }
    // Outputs that are copied at the end need their values until then.
    const auto viewed = of_.viewed(updated);
    const auto& use = of_.use_of(viewed);
    if (use.steps > number + 1 || use.outputs != 0) return false;
    for (std::size_t i = 0; i < step.operands.size(); ++i) {
      const auto other = step.operands[i];
      if (i == step.output || other == program_graph::none) continue;
      if (of_.viewed(other) == viewed) return false;
    }
    return true;
  }

  void add_step(std::size_t number) {
    const auto& step = of_.steps()[number];
    const auto& inferred = inferred_.steps[number];
    const auto& result = inferred_.values[step.result];
    auto& root = roots_[result.root];
    const auto result_spec = result.spec();
    const bool takes_over = root.in == place::kind::nowhere && can_take_over(number);
    if (takes_over) {
      root = roots_[inferred_.values[step.operands[step.output]].root];
    } else if (root.in == place::kind::nowhere) {
      root = new_buffer(result_spec.bytes());
    }
    action made;
    made.row = inferred.row;
    made.call = inferred.call;
    // They have the order of the steps.
    if (next_varying_ < inferred_.varying.size() &&
        inferred_.varying[next_varying_].number == number) {
      made.varying = next_varying_++;
    }
    const auto written = written_by_[number];
    const bool is_there =
        written != program_graph::none && inferred_.written[written].updates_input;
    std::optional<std::pair<place, tensor_spec>> written_back;
    for (std::size_t i = 0; i < inferred.uses.size(); ++i) {
      const auto& u = inferred.uses[i];
      auto& at = made.operands.emplace_back();
      const bool is_output = i == step.output;
      const bool is_given = step.operands[i] != program_graph::none;
      // A new value that is updated begins as a copy.
      if (is_output && is_given && !takes_over && !is_there && u.access != access_kind::write) {
        const auto& before = inferred_.values[step.operands[i]];
        add_copy(place_of(before), before.spec(), root, result_spec);
      }
      if (u.ignored || (!is_given && !is_output)) continue;
      const auto whole = is_output ? root : place_of(inferred_.values[step.operands[i]]);
      const auto whole_spec = is_output ? result_spec : inferred_.values[step.operands[i]].spec();
      at = whole;
      made.types[i] = whole_spec.type;
      if (!u.packed || u.spec->size() == 0) continue;
      at = new_buffer(u.spec->bytes());
      if (u.access != access_kind::write) {
        add_copy(whole, repeated(whole_spec, u.spec->shape), at, *u.spec);
      }
      if (u.access != access_kind::read) written_back.emplace(at, *u.spec);
    }
    add(std::move(made));
    if (written_back) add_copy(written_back->first, written_back->second, root, result_spec);
  }

  executable& to_;
  const program_graph& of_;
  const program_inference& inferred_;
  lane_libraries& libraries_;
  const std::size_t memory_ = libraries_.runtime().device().info().memory_bytes;
  std::string where_;  // the step or the output that is being added
  std::vector<place> roots_;
  // By step: the number of the memory that it writes, among those of `program_inference::written`.
  std::vector<std::uint32_t> written_by_ =
      std::vector<std::uint32_t>(of_.steps().size(), program_graph::none);
  std::uint32_t next_varying_ = 0;
  std::vector<scratch_buffer> buffers_;
  std::map<std::pair<const operation_row*, std::string>, std::shared_ptr<const operation_plan>>
      plans_;
};

executable::executable(const program_graph& of, const program_inference& inferred,
                       lane_libraries& libraries) {
  builder(*this, of, inferred, libraries).add_steps();
}

executable::executable(const std::shared_ptr<const program_graph>& of,
                       const std::shared_ptr<const program_inference>& inferred,
                       lane_libraries& libraries)
    : executable(*of, *inferred, libraries) {
  of_ = of;
  capture_ =
      std::make_unique<program_capture>(of, inferred, libraries.runtime().device().id().kind);
  if (capture_->refusal().empty()) copies_of_graph_ = inferred->uses.size();
  if (of->capture() == capture_policy::at_prepare) capture_->make(libraries);
  on_host_ = !has_gpu(libraries);
  // A GPU pads the runs of a batch if it can.
  if (!inferred->stacks || (inferred->padded && !on_host_)) return;
  stacked_ = std::make_unique<stacked_executables>(
      std::make_shared<const batch_layout>(layout_of(*of, inferred)), *this);
}

executable::executable(const std::shared_ptr<const program_graph>& of,
                       const std::shared_ptr<const batch_layout>& layout, lane_libraries& libraries)
    : executable(*of, *layout->one, libraries) {
  of_ = of;
  stacked_ = std::make_unique<stacked_executables>(layout, *this);
  stacked_->add_one(*of, libraries);
  pads_ = true;
}

void executable::add_batches(lane_libraries& libraries, const plan_limits& limits) const noexcept {
  const auto of = of_.lock();
  if (stacked_ && !on_host_ && of) stacked_->add(*of, libraries, limits);
}

std::size_t executable::bytes() const noexcept {
  std::size_t sum = sizeof(*this);
  for (const auto& a : actions_)
    sum += sizeof(a) + a.where.capacity() + a.operands.size() * sizeof(place);
  for (const auto& plan : plans_) sum += plan->bytes();
  return sum * sets() + (capture_ ? capture_->bytes() : 0) + (stacked_ ? stacked_->bytes() : 0);
}

std::size_t executable::device_bytes() const noexcept {
  std::size_t sum = 0;
  for (const auto& plan : plans_) sum += plan->device_bytes();
  return sum * sets() + (stacked_ ? stacked_->device_bytes() : 0);
}

std::size_t executable::shared_device_bytes() const noexcept {
  const auto owners = static_cast<std::size_t>(constants_.use_count());  // 0 without constants
  const auto share = owners == 0 ? 0 : (constants_->bytes() + owners - 1) / owners;
  const auto shares = capture_ && capture_->has_plans() ? 2 : 1;
  return shares * share + (capture_ ? capture_->shared_device_bytes() : 0) +
         (stacked_ ? stacked_->shared_device_bytes() : 0);
}

std::size_t executable::batch_workspace_bytes() const noexcept {
  return stacked_ ? std::max(stacked_->workspace_bytes(), workspace_bytes()) : workspace_bytes();
}

std::size_t executable::batch_commands(std::size_t count) const noexcept {
  if (on_host_) return count;  // a task for each
  return stacked_ ? stacked_->commands(count) : count * commands();
}

void* executable::address(const place& at, std::span<void* const> externals,
                          void* scratch) const noexcept {
  void* base = nullptr;
  switch (at.in) {
    case place::kind::nowhere:
      return nullptr;
    case place::kind::external:
      base = externals[at.number];
      break;
    case place::kind::scratch:
      base = scratch;
      break;
    case place::kind::constant:
      base = constants_ ? constants_->address() : nullptr;  // all of them may be empty
      break;
  }
  return base == nullptr ? nullptr : static_cast<std::byte*>(base) + at.offset;
}

template <class Launch>
void executable::for_each(std::span<void* const> externals, void* scratch,
                          const program_launch* own, const Launch& launch) const {
  for (const auto& one : actions_) {
    std::array<void*, inference::max_operands> addresses{};
    std::transform(one.operands.begin(), one.operands.end(), addresses.begin(),
                   [&](const place& at) { return address(at, externals, scratch); });
    launch(one, one.varying ? own->calls[*one.varying].call : one.call,
           launch_memory{.addresses = addresses,
                         .types = std::span(one.types).first(one.operands.size()),
                         .plan = one.plan.get(),
                         .workspace = address(one.workspace, externals, scratch)});
  }
}

void executable::enqueue(lane_libraries& libraries, std::span<void* const> externals, void* scratch,
                         program_launch* own) const {
  parts_of_launch parts;
  if (own != nullptr && !own->uploads.empty()) {
    parts.enqueue([&] { own->enqueue_before_batch(externals); });
  }
  parts.enqueue([&] {
    if (pads_) {
      operation_launch* const alone = own;
      return stacked_->enqueue(libraries, {externals, std::span(&alone, 1)}, scratch);
    }
    capture_->launch(libraries.stream(), externals,
                     [&] { enqueue_steps(libraries, externals, scratch, own); });
  });
  if (own != nullptr) {
    for (const auto& one : own->downloads) {
      auto* const from = static_cast<std::byte*>(externals[one.external]) + one.offset;
      parts.enqueue([&] { one.moved->enqueue(from); });
    }
  }
}

void executable::enqueue_steps(lane_libraries& libraries, std::span<void* const> externals,
                               void* scratch, program_launch* own) const {
  if (!has_gpu(libraries)) {
    try {
      // The launch owns this executable and `own`.
      return submit_host_task(
          libraries.stream(),
          [this, scratch, own, all = std::vector(externals.begin(), externals.end())] {
            for_each(all, scratch, own,
                     [](const action& a, const auto& call, const launch_memory& memory) {
                       naming([&] { return a.where; }, [&] { a.row->compute(call, memory); });
                     });
          });
    } catch (...) {
      throw nothing_enqueued(current_error());
    }
  }
  parts_of_launch parts;
  for_each(externals, scratch, own,
           [&](const action& a, const auto& call, const launch_memory& memory) {
             parts.enqueue([&] {
               const detail::nvtx_range shown(a.where.c_str());
               naming([&] { return a.where; }, [&] { a.row->enqueue(libraries, call, memory); });
             });
           });
}

void program_launch::enqueue_before_batch(std::span<void* const> externals) {
  parts_of_launch parts;
  for (const auto& one : uploads) {
    parts.enqueue([&] { one.moved->enqueue(externals[one.external]); });
  }
}

std::size_t program_launch::commands() const noexcept {
  std::size_t sum = 0;
  for (const auto& one : uploads) sum += one.moved->commands();
  for (const auto& one : downloads) sum += one.moved->commands();
  return sum;
}

void program_launch::finish() noexcept {
  for (const auto& one : downloads) one.moved->finish();
  downloads.clear();  // the client that has its answer shares its memory with nobody
}

}  // namespace sluice::operations
