// SPDX-License-Identifier: Apache-2.0
#include "operations/program/program_request.hpp"

#include "operations/core/enumerators.hpp"
#include "operations/overlaps.hpp"
#include "operations/program/batch_layout.hpp"
#include "operations/program/executable.hpp"
#include "operations/program/program_launch.hpp"
#include "operations/program/program_price.hpp"
#include "operations/program/stacked_runs.hpp"

#include <sluice/runtime/error.hpp>
#include <sluice/runtime/host_transfer.hpp>

#include <algorithm>
#include <cstring>
#include <limits>
#include <string>
#include <utility>

namespace sluice::operations {

const program_inference& program_call::planned_on(device_kind kind) const noexcept {
  const auto* const layout = padded_on(kind);
  return layout != nullptr ? *layout->full_run : *inferred;
}
const batch_layout* program_call::padded_on(device_kind kind) const noexcept {
  const bool pads_there = pads && kind != device_kind::host;
  return pads_there && !detects_errors(inferred->errors, kind) ? inferred->padded.get() : nullptr;
}

namespace {

/// Refuses a number of a run that is none.
void require_numbers(const detail::program_graph& graph, std::span<const scalar> scalars) {
  for (std::size_t i = 0; i < scalars.size(); ++i) {
    if (scalars[i].is_of_program()) {
      throw invalid_argument(graph.scalars()[i], "is a scalar of a program");
    }
  }
}

/// The descriptor of all programs. A call is a pointer to a `program_call`.
class program_descriptor final : public launch_descriptor, private batch_descriptor {
 public:
  static void store(const void* value, call_storage& call) noexcept {
    std::memcpy(call.bytes.data(), &value, sizeof value);
  }

  std::string_view name() const noexcept override { return "program"; }
  std::string_view library(device_kind) const noexcept override { return "sluice"; }
  void check(device_kind kind, const call_storage& call) const override {
    const auto& program = get(call);
    check_steps(*program.graph, program.planned_on(kind), kind);
  }
  launch_facts facts(const call_storage& call) const noexcept override {
    const auto& inferred = *get(call).inferred;
    return {.sizes = {static_cast<std::int64_t>(inferred.steps.size())},
            .commands = 0,
            .work = inferred.work,
            .errors = inferred.errors};
  }
  bool has_libraries(device_kind) const noexcept override { return true; }
  bool makes_plans(device_kind) const noexcept override { return true; }
  std::span<const std::byte> key(device_kind kind,
                                 const call_storage& call) const noexcept override {
    const auto& program = get(call);
    const auto* const padded = program.padded_on(kind);
    return std::as_bytes(std::span(padded != nullptr ? padded->key : program.inferred->key));
  }
  plan_price price_of_plan(device_kind kind, const call_storage& call) const override {
    const auto& program = get(call);
    return price_of_plans(*program.graph, program.planned_on(kind), kind);
  }
  void prepare(lane_libraries&) const override {}
  std::shared_ptr<const operation_plan> make_plan(lane_libraries& libraries,
                                                  const call_storage& call) const override {
    const auto& program = get(call);
    if (program.padded_on(kind_of(libraries)) != nullptr) {
      return std::make_shared<executable>(program.graph, program.inferred->padded, libraries);
    }
    return std::make_shared<executable>(program.graph, program.inferred, libraries);
  }
  std::shared_ptr<operation_launch> begin(lane_libraries& libraries, const void* operation,
                                          const call_storage& call) const override {
    const auto& parts = *static_cast<const run_parts*>(operation);
    const auto* const padded = get(call).padded_on(kind_of(libraries));
    // It carries the error word to the steps.
    const bool finds_errors = detects_errors(get(call).inferred->errors, kind_of(libraries));
    if (parts.host_inputs.empty() && parts.calls.empty() && !parts.downloads && padded == nullptr &&
        !finds_errors) {
      return nullptr;
    }
    auto result = std::make_shared<program_launch>();
    if (padded != nullptr)
      result->row_bytes = row_bytes(*get(call).graph, *get(call).inferred, *padded);
    for (const auto& [number, values] : parts.host_inputs) {
      result->uploads.push_back(
          {number, 0, host_transfer::upload(libraries.stream(), values.data(), values.bytes())});
    }
    result->calls = parts.calls;
    if (parts.downloads) add_downloads(get(call), libraries.stream(), parts, *result);
    return result;
  }
  void enqueue(lane_libraries& libraries, const call_storage&,
               const launch_memory& memory) const override {
    static_cast<const executable*>(memory.plan)
        ->enqueue(libraries, memory.addresses, memory.workspace,
                  static_cast<program_launch*>(memory.own));
  }
  std::shared_ptr<const detail::error_names> names_of_errors(
      const operation_plan* plan) const override {
    return static_cast<const executable*>(plan)->names_of_errors();
  }
  const batch_descriptor* batches() const noexcept override { return this; }

 private:
  std::size_t most_in_batch(const call_storage& call) const noexcept override {
    return get(call).most_in_batch;
  }
  void enqueue_batch(lane_libraries& libraries, const call_storage&,
                     const launch_memory& memory) const override {
    static_cast<const executable*>(memory.plan)
        ->enqueue_batch(libraries, {memory.addresses, memory.members}, memory.workspace);
  }

  /// Prepares the download of each output to its target or to a new tensor.
  static void add_downloads(const program_call& call, stream_ref stream, const run_parts& parts,
                            program_launch& launch) {
    const auto& graph = *call.graph;
    const auto roots = graph.inputs().size() + graph.constants().size();
    auto& downloads = *parts.downloads;
    downloads = {};
    for (std::uint32_t i = 0; i < graph.outputs().size(); ++i) {
      const auto& value = call.inferred->values[graph.outputs()[i]];
      const auto memory = call.inferred->memory_of_output[i];
      const bool is_given = !parts.targets.empty() && parts.targets[i];
      host_tensor target =
          is_given ? parts.targets[i] : host_tensor(value.layout.type(), value.layout.shape());
      launch.downloads.push_back({static_cast<std::uint32_t>(roots + memory),
                                  call.inferred->written[memory].output ? 0 : value.layout.offset(),
                                  host_transfer::download(stream, target.data(), target.bytes())});
      downloads.push_back(std::move(target));
    }
  }
  [[nodiscard]] static const program_call& get(const call_storage& call) noexcept {
    const void* value = nullptr;
    std::memcpy(&value, call.bytes.data(), sizeof value);
    return *static_cast<const program_call*>(value);
  }
};

/// @throws error `invalid_argument` unless all outputs or none are named
void require_outputs(const detail::program_graph& graph, std::size_t outputs) {
  if (outputs == 0 || outputs == graph.outputs().size()) return;
  throw invalid_argument("outputs", (outputs == 1 ? "there is " : "there are ") +
                                        std::to_string(outputs) + ", but the program has " +
                                        std::to_string(graph.outputs().size()));
}
/// @throws error `invalid_argument` with the name `name` unless a tensor can be so
void require_spec(const tensor_spec& spec, const std::string& name) {
  naming([&] { return name; },
         [&] {
           operations::require_type("type", spec.type);
           (void)tensor_layout(spec.type, spec.shape, spec.strides);
           if (spec.alignment < size_of(spec.type) || spec.alignment > tensor_spec::max_alignment ||
               (spec.alignment & (spec.alignment - 1)) != 0) {
             throw invalid_argument("alignment", "is " + std::to_string(spec.alignment) +
                                                     ", but must be a power of two from " +
                                                     std::to_string(size_of(spec.type)) + " to " +
                                                     std::to_string(tensor_spec::max_alignment));
           }
         });
}

}  // namespace

const launch_descriptor& descriptor_of_programs() {
  static const program_descriptor descriptor;
  return descriptor;
}

/// The properties of the outputs that are given. Checks that they share no bytes with constants and
/// with each other.
program_request::list<given_output> program_request::given_outputs() const {
  const auto& graph = *request_.what.graph();
  list<given_output> specs(graph.outputs().size(), given_output{}, memory_);
  for (auto& output : specs) output.is_downloaded = parts_.downloads != nullptr;
  require_outputs(graph, request_.outputs.size());
  if (request_.outputs.empty()) return specs;
  list<touched_tensor> touched(memory_);
  touched.reserve(request_.outputs.size() +
                  std::max(request_.inputs.size(), graph.constants().size()));
  for (std::size_t i = 0; i < request_.outputs.size(); ++i) {
    if (request_.outputs[i].reference().program != 0) {
      throw invalid_argument(graph.output_name(i), "is a value of a program");
    }
    const auto& output = request_.outputs[i].value();
    if (output) specs[i].spec = tensor_spec::of(output);
    touched.push_back({&output, true});
  }
  const auto outputs = touched.size();
  const auto compare = [&](const auto& name_of, const auto& visit) {
    if (const auto refused_index = for_each_overlap(touched, visit).refused) {
      throw invalid_argument(*refused_index < outputs ? graph.output_name(*refused_index)
                                                      : name_of(*refused_index - outputs),
                             "interleaves with too many tensors to tell whether they share memory");
    }
    touched.resize(outputs);
  };
  for (const auto& constant : graph.constants()) touched.push_back({&constant.on_device, false});
  const auto constant_name = [&](std::size_t i) -> const std::string& {
    return graph.constants()[i].name;
  };
  compare(constant_name, [&](std::size_t i, std::size_t j) -> bool {
    if (j < outputs) std::swap(i, j);
    const auto other =
        j < outputs ? graph.output_name(j) : "the constant " + constant_name(j - outputs);
    throw invalid_argument(graph.output_name(i), "shares memory with " + other);
  });
  for (const auto& input : request_.inputs) touched.push_back({&input.on_device(), false});
  const auto input_name = [&](std::size_t i) -> const std::string& {
    return graph.inputs()[i];
  };
  compare(input_name, [&](std::size_t i, std::size_t j) {
    if (*touched[i].value == *touched[j].value) {
      specs[i].same_as.push_back(static_cast<std::uint32_t>(j - outputs));
    } else {
      specs[i].overlaps_input = true;
    }
    return !specs[i].overlaps_input;
  });
  for (auto& output : specs) {
    auto& inputs = output.same_as;
    if (output.overlaps_input) inputs.clear();  // the result is copied whatever they are
    std::sort(inputs.begin(), inputs.end());
    inputs.erase(std::unique(inputs.begin(), inputs.end()), inputs.end());
  }
  return specs;
}

/// @throws error `invalid_argument` if a target cannot take its result
void program_request::require_targets(const program_inference& inferred) const {
  const auto& graph = *request_.what.graph();
  require_outputs(graph, parts_.targets.size());
  for (std::size_t i = 0; i < parts_.targets.size(); ++i) {
    const auto& target = parts_.targets[i];
    if (!target) continue;
    require_fit(graph.output_name(i), tensor_spec::row_major(target.type(), target.shape()),
                inferred.values[graph.outputs()[i]].spec());
  }
}

void program_request::infer_steps() {
  const auto& graph = request_.what.graph();
  if (graph == nullptr) throw invalid_argument("what", "is no program");
  graph->require_counts(request_.inputs.size(), request_.scalars.size());
  require_numbers(*graph, request_.scalars);
  list<tensor_spec> specs(memory_);
  specs.reserve(request_.inputs.size());
  for (std::size_t i = 0; i < request_.inputs.size(); ++i) {
    const auto& input = request_.inputs[i];
    if (!input.on_device() && !input.on_host()) {
      throw invalid_argument(graph->inputs()[i], "is not given");
    }
    specs.push_back(input.on_host()
                        ? tensor_spec::row_major(input.on_host().type(), input.on_host().shape())
                        : tensor_spec::of(input.on_device()));
  }
  const auto outputs = given_outputs();
  auto run = graph->infer(specs, request_.scalars, outputs);
  const auto inferred = std::move(run.shared);
  require_targets(*inferred);
  parts_.calls = std::move(run.calls);
  bool stacks = inferred->stacks;
  for (std::size_t i = 0; i < request_.inputs.size(); ++i) {
    // What is not per request is the same for all, and a copy is not.
    if (request_.inputs[i].on_host() && !graph->is_per_request(i)) stacks = false;
  }
  call_ = program_call{graph, inferred, stacks ? graph->max_in_batch() : 0,
                       stacks && options.bits != result_bits::as_if_alone && inferred->padded};
  program_descriptor::store(&*call_, call);

  operands_.reserve(inferred->uses.size());
  for (std::size_t i = 0; i < request_.inputs.size(); ++i) {
    auto& input = request_.inputs[i];
    if (input.on_host()) {
      parts_.host_inputs.emplace_back(static_cast<std::uint32_t>(i), input.on_host());
    }
    operands_.emplace_back(std::move(input).on_device());
  }
  request_.inputs.clear();
  for (const auto& constant : graph->constants()) operands_.emplace_back(constant.on_device);
  for (const auto& w : inferred->written) {
    const bool is_given = w.output && inferred->outputs[*w.output].spec;
    operands_.push_back(is_given ? std::move(request_.outputs[*w.output]) : operand());
  }
  uses_.assign(inferred->uses.begin(), inferred->uses.end());
  outputs_.reserve(inferred->written.size());
  for (std::size_t i = 0; i < uses_.size(); ++i) uses_[i].operand.value = &operands_[i];
  for (const auto& input : parts_.host_inputs) {
    // New memory, which the launch writes before the steps.
    auto& u = uses_[input.first];
    u.operand.role = member_role::output;
    u.access = access_kind::write;
    u.stated = true;
    u.ignored = false;
  }
}

detail::shared_call share(const program_call& call) {
  auto owner = std::make_shared<const program_call>(call);
  detail::shared_call shared;
  program_descriptor::store(owner.get(), shared.call);
  shared.owner = std::move(owner);
  return shared;
}

std::size_t program_request::bytes() const noexcept {
  constexpr std::size_t queued_use_bytes = 128;  // of its place in the queue, for each operand
  std::size_t host_bytes = detail::host_bytes_of(request_);
  for (const auto& input : parts_.host_inputs) host_bytes += input.second.bytes();
  // Without the elements, which their owner keeps in any case.
  host_bytes += parts_.targets.capacity() * sizeof(host_tensor);
  return sizeof(*this) + options.tag.capacity() + host_bytes +
         parts_.calls.capacity() * sizeof(step_call) +
         parts_.host_inputs.capacity() * sizeof(parts_.host_inputs[0]) +
         operands_.capacity() * (sizeof(operand) + sizeof(inference::use) + queued_use_bytes) +
         outputs_.capacity() * sizeof(tensor);
}

namespace {

/// What requests for the same program share.
std::array<detail::shared_memory, 2> shared_by(const program& program,
                                               const std::optional<program_call>& call) noexcept {
  std::array<detail::shared_memory, 2> memory;
  if (const auto* const graph = program.graph().get()) memory[0] = {graph, graph->bytes()};
  if (call) memory[1] = {call->inferred.get(), call->inferred->bytes};
  return memory;
}

}  // namespace

std::array<detail::shared_memory, 2> program_request::shared() const noexcept {
  return shared_by(request_.what, call_);
}

std::size_t program_request::transfer_commands() const noexcept {
  std::size_t sum = 0;
  for (const auto& input : parts_.host_inputs)
    sum += host_transfer::max_commands(input.second.bytes());
  if (parts_.downloads) {
    for (const auto output : call_->graph->outputs()) {
      sum += host_transfer::max_commands(call_->inferred->values[output].spec().bytes());
    }
  }
  return sum;
}

bool program_request::shares_batch(const detail::operation_request& other) const noexcept {
  if (plan == nullptr || plan != other.plan) return false;
  if (!static_cast<const executable*>(plan.get())->may_take_batches()) return false;
  const auto& graph = *call_->graph;
  const auto other_uses = other.uses();
  for (std::size_t i = 0; i < graph.inputs().size(); ++i) {
    if (graph.is_per_request(i)) continue;
    if (uses_[i].operand.value->value() != other_uses[i].operand.value->value()) return false;
  }
  return true;
}

std::size_t program_request::shared_device_bytes() const noexcept {
  return call_->graph->host_constants_bytes();
}

std::shared_ptr<const std::string> program_request::steps() const noexcept {
  return call_->graph->step_names();
}

std::unique_ptr<detail::launch_continuation> program_request::launch(
    const kernel_envelope& envelope, lane& lane, operands&& uses, const launch_options& settings,
    std::shared_ptr<operation_launch> finisher) noexcept {
  tensors outputs;
  try {
    outputs = results();
  } catch (...) {
    const auto failure = current_error();
    (void)operands(std::move(uses));
    fail(failure);
    return nullptr;
  }
  // The client that has its reply shares its memory with nobody, neither the constants of a program
  // that it has dropped. The plan, which the launch keeps, holds none that the client may write.
  outputs_.clear();
  drop_program();
  return detail::launch_request(std::move(reply_), std::move(outputs), envelope, lane,
                                std::move(uses), settings, std::move(finisher));
}

void program_request::drop_program() noexcept {
  request_.what = program();
  parts_.host_inputs.clear();
  parts_.targets.clear();
  call_.reset();
}

void program_request::drop_operands() noexcept {
  request_.inputs.clear();
  request_.outputs.clear();
  for (auto& o : operands_) o = operand();
  outputs_.clear();
  plan_job.reset();
  drop_program();
}

tensors program_request::results() const {
  const auto& graph = *call_->graph;
  const auto& inferred = *call_->inferred;
  tensors outputs;
  for (std::uint32_t i = 0; i < graph.outputs().size(); ++i) {
    const auto& value = inferred.values[graph.outputs()[i]];
    const auto position = inferred.memory_of_output[i];
    const auto& memory = outputs_[position];
    outputs.push_back(inferred.written[position].output ? memory
                                                        : tensor(memory.block(), value.layout));
  }
  return outputs;
}

void prepare_request::infer_steps() {
  const auto& graph = request_.what.graph();
  if (graph == nullptr) throw invalid_argument("what", "is no program");
  graph->require_counts(request_.inputs.size(), request_.scalars.size());
  require_numbers(*graph, request_.scalars);
  for (std::size_t i = 0; i < request_.inputs.size(); ++i) {
    require_spec(request_.inputs[i], graph->inputs()[i]);
  }
  std::vector<given_output> outputs(graph->outputs().size());
  require_outputs(*graph, request_.outputs.size());
  for (std::size_t i = 0; i < request_.outputs.size(); ++i) {
    if (request_.outputs[i]) require_spec(*request_.outputs[i], graph->output_name(i));
    outputs[i].spec = request_.outputs[i];
  }
  if (request_.to_host && !request_.outputs.empty()) {
    throw invalid_argument("outputs", "are given, but the results go to host memory");
  }
  for (auto& output : outputs) output.is_downloaded = request_.to_host;
  auto run = graph->infer(request_.inputs, request_.scalars, outputs);
  call_ = program_call{graph, run.shared, 0,
                       run.shared->padded && options.bits != result_bits::as_if_alone};
  program_descriptor::store(&*call_, call);
}

std::size_t prepare_request::bytes() const noexcept {
  return sizeof(*this) + options.tag.capacity() + detail::host_bytes_of(request_);
}

std::array<detail::shared_memory, 2> prepare_request::shared() const noexcept {
  return shared_by(request_.what, call_);
}

std::size_t prepare_request::described_bytes() const noexcept {
  std::size_t sum = 0;
  const auto add = [&](const tensor_spec& spec) {
    if (spec.repeats_elements()) return;
    const auto limit = std::numeric_limits<std::size_t>::max() - sum;
    sum += std::min(spec.bytes(), limit);
  };
  for (const auto& input : request_.inputs) add(input);
  const auto& inferred = *call_->inferred;
  for (std::size_t i = 0; i < inferred.outputs.size(); ++i) {
    const auto& output_spec = inferred.outputs[i].spec;
    add(output_spec ? *output_spec : inferred.values[call_->graph->outputs()[i]].spec());
  }
  return sum;
}

std::size_t prepare_request::shared_device_bytes() const noexcept {
  return call_->graph->host_constants_bytes();
}

namespace {

/// Why runs like `alone` will not be launched together; empty if they may be.
std::string_view reason_not_batched(const detail::program_graph& graph,
                                    const program_inference& alone,
                                    const executable& prepared_program) {
  if (!alone.stacks) return reason_alone(graph, alone);
  if (!graph.fits_batch(alone)) {
    static_assert(max_tensors_in_batch == 16);
    return "the inputs, outputs and constants on a device are more than 16";
  }
  if (!prepared_program.may_take_batches()) {
    return "the executable of two runs exceeds the limits of a plan or the memory";
  }
  return {};
}

}  // namespace

std::unique_ptr<detail::launch_continuation> prepare_request::launch(
    const kernel_envelope&, lane&, operands&& uses, const launch_options&,
    std::shared_ptr<operation_launch>) noexcept {
  try {
    prepared result;
    const auto& inferred = *call_->inferred;
    for (std::size_t i = 0; i < inferred.outputs.size(); ++i) {
      const auto& output_spec = inferred.outputs[i].spec;
      result.outputs.push_back(output_spec ? *output_spec
                                           : inferred.values[call_->graph->outputs()[i]].spec());
    }
    result.scratch_bytes = plan->workspace_bytes();
    result.commands = plan->commands();
    result.captured = plan->captured();
    const auto& runs = static_cast<const executable&>(*plan);
    result.not_captured = runs.not_captured();
    result.not_batched = reason_not_batched(*call_->graph, inferred, runs);
    result.fused_steps = runs.fused_steps();
    result.not_fused = runs.not_fused();
    drop_operands();
    (void)operands(std::move(uses));
    reply_.succeed(std::move(result));
  } catch (...) {
    (void)operands(std::move(uses));
    fail(current_error());
  }
  return nullptr;
}

void prepare_request::drop_operands() noexcept {
  request_.what = program();
  plan.reset();
  plan_job.reset();
  call_.reset();
}

}  // namespace sluice::operations
