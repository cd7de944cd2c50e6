// SPDX-License-Identifier: Apache-2.0
#include "operations/program/program_graph.hpp"

#include "operations/aligned.hpp"
#include "operations/program/batch_layout.hpp"
#include "operations/program/stacked_runs.hpp"
#include "runtime/seam.hpp"

#include <sluice/runtime/error.hpp>

#include <algorithm>
#include <atomic>
#include <map>
#include <optional>
#include <tuple>
#include <utility>

namespace sluice::detail {
namespace {

std::uint64_t next_program_id() noexcept {
  static std::atomic<std::uint64_t> last{0};
  return last.fetch_add(1, std::memory_order_relaxed) + 1;
}

std::string in_step(const std::string& name) {
  return "step '" + name + "'";
}

void require_name(const std::string& name, const char* kind) {
  if (name.empty()) throw invalid_argument("name", std::string("is empty: name the ") + kind);
}

static_assert(max_tensors_in_batch == joint_launches::max_uses);

}  // namespace

tensor_spec program_graph::constant::spec() const {
  return on_host ? tensor_spec::row_major(on_host.type(), on_host.shape())
                 : tensor_spec::of(on_device);
}

program_graph::program_graph() : id_(next_program_id()) {}

program_graph::program_graph(const program_graph& source,
                             std::vector<std::optional<std::size_t>> run_axes,
                             std::size_t max_in_batch)
    : id_(next_program_id()),
      inputs_(source.inputs_),
      run_axes_(std::move(run_axes)),
      padded_axes_(source.padded_axes_),
      scalars_(source.scalars_),
      constants_(source.constants_),
      steps_(source.steps_),
      results_(source.results_),
      values_(source.values_),
      input_values_(source.input_values_),
      uses_(source.uses_),
      outputs_(source.outputs_),
      output_names_(source.output_names_),
      step_names_(source.step_names_),
      host_constants_bytes_(source.host_constants_bytes_),
      own_constants_bytes_(source.own_constants_bytes_),
      shared_constants_(source.shared_constants_),
      bytes_(source.bytes_),
      options_(source.options_),
      built_(true) {
  for (std::size_t i = 0; i < inputs_.size(); ++i) {
    if (!run_axes_[i]) padded_axes_[i] = 0;
  }
  require_batches(max_in_batch);
  options_.max_in_batch = max_in_batch;
}

void program_graph::require_open() const {
  if (built_) {
    throw invalid_argument("program_builder", "the program has been built, so it cannot change");
  }
}

void program_graph::require_counts(std::size_t inputs, std::size_t scalars) const {
  const auto require = [](const char* name, std::size_t count, std::size_t expected) {
    if (count == expected) return;
    throw invalid_argument(name, (count == 1 ? "there is " : "there are ") + std::to_string(count) +
                                     ", but the program takes " + std::to_string(expected));
  };
  require("inputs", inputs, inputs_.size());
  require("scalars", scalars, scalars_.size());
}

void program_graph::require_own(const scalar& number, std::string_view name) const {
  if (number.is_of_program() && number.program() != id_) {
    throw invalid_argument(name, "is a scalar of another program");
  }
}

std::uint32_t program_graph::add(value new_value) {
  const auto number = static_cast<std::uint32_t>(values_.size());
  new_value.viewed = new_value.kind == value_kind::view ? viewed(new_value.source) : number;
  values_.push_back(std::move(new_value));
  return number;
}

std::optional<std::uint32_t> program_graph::step::result_at(std::size_t operand) const noexcept {
  const auto position = std::find(outputs.begin(), outputs.end(), operand);
  if (position == outputs.end()) return std::nullopt;
  return first_result + static_cast<std::uint32_t>(position - outputs.begin());
}

std::vector<std::uint32_t> program_graph::add(step new_step) {
  new_step.first_result = static_cast<std::uint32_t>(results_.size());
  const auto outputs = new_step.outputs;
  const auto number = static_cast<std::uint32_t>(steps_.size());
  steps_.push_back(std::move(new_step));
  std::vector<std::uint32_t> values;
  for (const auto operand : outputs) {
    values.push_back(add({value_kind::result, static_cast<std::uint32_t>(results_.size())}));
    results_.push_back({number, operand, values.back()});
  }
  return values;
}

std::uint32_t program_graph::add_input(std::string name, std::optional<std::size_t> run_axis,
                                       int padded_axis) {
  require_open();
  require_name(name, "input");
  run_axes_.push_back(run_axis);
  padded_axes_.push_back(padded_axis);
  inputs_.push_back(std::move(name));
  const auto number = add({value_kind::input, static_cast<std::uint32_t>(inputs_.size() - 1)});
  input_values_.push_back(number);
  return number;
}

scalar program_graph::add_scalar(std::string name) {
  require_open();
  require_name(name, "scalar");
  scalars_.push_back(std::move(name));
  return scalar::of_program(id_, static_cast<std::uint32_t>(scalars_.size() - 1));
}

std::uint32_t program_graph::add_constant(constant new_constant) {
  require_open();
  require_name(new_constant.name, "constant");
  const auto& entry = constants_.emplace_back(std::move(new_constant));
  const auto number =
      add({value_kind::constant, static_cast<std::uint32_t>(constants_.size() - 1)});
  if (entry.on_device) constant_values_.try_emplace(&entry.on_device, number);
  return number;
}

std::string program_graph::new_step_name(const std::string& operation) const {
  const auto is_taken = [&](const std::string& name) {
    return std::any_of(steps_.begin(), steps_.end(),
                       [&](const step& other) { return other.name == name; });
  };
  auto name = operation;
  for (std::size_t number = 2; is_taken(name); ++number) {
    name = operation + ' ' + std::to_string(number);
  }
  return name;
}

std::uint32_t program_graph::add_view(std::uint32_t source, const program_view& view) {
  require_open();
  return add({value_kind::view, source, view, view.text()});
}

bool program_graph::by_memory::operator()(const tensor* a, const tensor* b) const noexcept {
  const auto first = [](const tensor& t) {
    return std::tuple(reinterpret_cast<std::uintptr_t>(t.address()), t.type());
  };
  if (first(*a) != first(*b)) return first(*a) < first(*b);
  const auto numbers = [](const extents& x, const extents& y) {
    return std::lexicographical_compare(x.begin(), x.end(), y.begin(), y.end());
  };
  if (a->shape() != b->shape()) return numbers(a->shape(), b->shape());
  return numbers(a->strides(), b->strides());
}

std::uint32_t program_graph::value_of(const operand& operand, std::string_view name,
                                      const std::string& constant_name) {
  if (!operand) return none;
  if (const auto& reference = operand.reference(); reference.program != 0) {
    if (reference.program != id_ || reference.index >= values_.size()) {
      throw invalid_argument(name, "is a value of another program");
    }
    return reference.index;
  }
  const auto position = constant_values_.find(&operand.value());
  if (position != constant_values_.end() && *position->first == operand.value())
    return position->second;
  return add_constant({.name = constant_name, .on_device = operand.value()});
}

/// Undoes additions that are not kept.
class program_graph::addition {
 public:
  explicit addition(program_graph& graph) noexcept
      : graph_(graph),
        constants_(graph.constants_.size()),
        steps_(graph.steps_.size()),
        results_(graph.results_.size()),
        values_(graph.values_.size()) {}
  addition(const addition&) = delete;
  addition& operator=(const addition&) = delete;
  ~addition() {
    if (kept_) return;
    for (auto i = constants_; i < graph_.constants_.size(); ++i) {
      const auto& dropped = graph_.constants_[i].on_device;
      const auto position = graph_.constant_values_.find(&dropped);
      if (position != graph_.constant_values_.end() && position->first == &dropped) {
        graph_.constant_values_.erase(position);
      }
    }
    const auto shorten = [](auto& items, std::size_t size) {
      items.erase(items.begin() + static_cast<std::ptrdiff_t>(size), items.end());
    };
    shorten(graph_.constants_, constants_);
    shorten(graph_.steps_, steps_);
    shorten(graph_.results_, results_);
    shorten(graph_.values_, values_);
  }
  void keep() noexcept { kept_ = true; }

 private:
  program_graph& graph_;
  const std::size_t constants_;
  const std::size_t steps_;
  const std::size_t results_;
  const std::size_t values_;
  bool kept_ = false;
};

std::vector<std::uint32_t> program_graph::add_step(std::string name,
                                                   std::shared_ptr<program_step> operation) {
  require_open();
  require_name(name, "step");
  addition transaction(*this);
  const auto operands = operation->operands();
  step new_step;
  for (std::uint32_t i = 0; i < operands.size(); ++i) {
    if (operands[i].role == member_role::output) new_step.outputs.push_back(i);
  }
  if (new_step.outputs.empty() || !operation->descriptor().composes()) {
    const char* const reason =
        new_step.outputs.empty() ? "it has no output" : "its launches need more than its operands";
    throw error(errc::unsupported, in_step(name) + ": " +
                                       std::string(operation->descriptor().name()) +
                                       " cannot be a step of a program: " + reason);
  }
  operations::naming(
      [&] { return in_step(name); },
      [&] {
        for (const auto& s : operation->scalars()) {
          require_own(s.value, s.name);
          new_step.scalars.push_back(s.value);
        }
        for (const auto& o : operands) {
          new_step.operands.push_back(value_of(*o.value, o.name, name + '.' + std::string(o.name)));
        }
      });
  // The program holds its constants itself.
  for (std::size_t i = 0; i < operands.size(); ++i) {
    if (new_step.operands[i] != none)
      *operands[i].value = operand(value_reference{id_, new_step.operands[i]});
  }
  new_step.name = std::move(name);
  new_step.operation = std::move(operation);
  auto values = add(std::move(new_step));
  transaction.keep();
  return values;
}

std::vector<std::uint32_t> program_graph::add_program(const std::string& name,
                                                      const program_graph& inner,
                                                      const std::vector<operand>& inputs,
                                                      const std::vector<scalar>& scalars) {
  require_open();
  require_name(name, "step");
  addition transaction(*this);
  std::vector<std::uint32_t> input_values;
  operations::naming([&] { return in_step(name); },
                     [&] {
                       inner.require_counts(inputs.size(), scalars.size());
                       for (std::size_t i = 0; i < scalars.size(); ++i)
                         require_own(scalars[i], inner.scalars_[i]);
                       for (std::size_t i = 0; i < inputs.size(); ++i) {
                         const auto& input = inner.inputs_[i];
                         if (!inputs[i]) throw invalid_argument(input, "is not given");
                         input_values.push_back(value_of(inputs[i], input, name + '.' + input));
                       }
                     });
  std::vector<std::uint32_t> copies;  // the values here, by the values of `inner`
  const auto copy_of = [&](std::uint32_t number) {
    return number == none ? none : copies[number];
  };
  for (const auto& v : inner.values_) {
    switch (v.kind) {
      case value_kind::input:
        copies.push_back(input_values[v.source]);
        break;
      case value_kind::constant: {
        auto inner_constant = inner.constants_[v.source];
        inner_constant.name = name + '.' + inner_constant.name;
        copies.push_back(inner_constant.on_host
                             ? add_constant(std::move(inner_constant))
                             : value_of(operand(inner_constant.on_device), inner_constant.name,
                                        inner_constant.name));
        break;
      }
      case value_kind::view:
        copies.push_back(add({value_kind::view, copies[v.source], v.view, v.text}));
        break;
      case value_kind::result: {
        const auto& inner_result = inner.results_[v.source];
        auto inner_step = inner.steps_[inner_result.step];
        if (inner_result.operand != inner_step.outputs.front()) break;  // has been added
        inner_step.name = name + '.' + inner_step.name;
        for (auto& o : inner_step.operands) o = copy_of(o);
        for (auto& s : inner_step.scalars) {
          if (s.is_of_program()) s = scalars[s.number()];
        }
        for (const auto copy : add(std::move(inner_step))) copies.push_back(copy);
        break;
      }
    }
  }
  std::vector<std::uint32_t> outputs;
  for (const auto output : inner.outputs_) outputs.push_back(copies[output]);
  transaction.keep();
  return outputs;
}

void program_graph::build(std::vector<std::uint32_t> outputs, const program_options& options) {
  require_open();
  if (outputs.empty()) throw invalid_argument("outputs", "are not given");
  require_batches(options.max_in_batch);
  std::vector<std::string> names;
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    if (values_[viewed(outputs[i])].kind != value_kind::result) {
      throw invalid_argument("outputs", "output " + std::to_string(i) + " is no result of a step");
    }
    names.push_back("outputs[" + std::to_string(i) + "]");
  }
  place_constants();
  std::string all_steps;
  for (const auto& s : steps_) {
    if (!all_steps.empty()) all_steps += ", ";
    all_steps += s.name;
  }
  std::vector<value_use> uses(values_.size());
  for (std::uint32_t i = 0; i < steps_.size(); ++i) {
    for (const auto operand : steps_[i].operands) {
      if (operand != none) uses[viewed(operand)].steps = i + 1;
    }
  }
  for (std::uint32_t i = 0; i < outputs.size(); ++i) {
    auto& use = uses[viewed(outputs[i])];
    if (use.outputs++ == 0) use.output = i;
  }
  step_names_ = std::make_shared<const std::string>(std::move(all_steps));
  uses_ = std::move(uses);
  constant_values_.clear();
  outputs_ = std::move(outputs);
  output_names_ = std::move(names);
  options_ = options;
  bytes_ = count_bytes();
  built_ = true;
}

void program_graph::place_constants() {
  using operations::shared_constant;
  own_constants_bytes_ = 0;
  host_constants_bytes_ = 0;
  shared_constants_.clear();
  // Each copy is aligned like memory of its own. Constants with the same memory share a copy.
  std::map<std::pair<const void*, std::size_t>, operations::constant_place> places;
  for (auto& c : constants_) {
    if (!c.on_host) continue;
    const auto bytes = c.on_host.bytes();
    const auto [position, is_new] =
        places.try_emplace(std::pair(static_cast<const void*>(c.on_host.data().get()), bytes));
    auto& place = position->second;
    if (is_new && bytes >= shared_constant::min_bytes) {
      shared_constants_.push_back(shared_constant::of(c.on_host));
      place.block = static_cast<std::uint32_t>(shared_constants_.size());
    } else if (is_new) {
      place.offset = own_constants_bytes_;
      own_constants_bytes_ += operations::aligned(bytes);
    }
    if (is_new) host_constants_bytes_ += operations::aligned(bytes);
    c.place = place;
  }
}

void program_graph::require_batches(std::size_t max_in_batch) const {
  if (max_in_batch < 1 || max_in_batch > max_runs_in_batch) {
    throw invalid_argument("max_in_batch", "is " + std::to_string(max_in_batch) +
                                               ", but must be from 1 to " +
                                               std::to_string(max_runs_in_batch));
  }
  const auto has_runs = [](const auto& axis) {
    return axis.has_value();
  };
  if (max_in_batch > 1 && std::none_of(run_axes_.begin(), run_axes_.end(), has_runs)) {
    throw invalid_argument("max_in_batch",
                           "is " + std::to_string(max_in_batch) + ", but no input is per request");
  }
  for (std::size_t i = 0; pads() && i < inputs_.size(); ++i) {
    if (run_axes_[i].value_or(0) == 0) continue;
    throw invalid_argument(inputs_[i], "has the parts of the runs along axis " +
                                           std::to_string(*run_axes_[i]) +
                                           ", but an input of the program is padded");
  }
}

std::size_t program_graph::count_bytes() const noexcept {
  std::size_t sum = sizeof(*this) + host_constants_bytes_ + step_names_->capacity() +
                    host_bytes(inputs_) + host_bytes(scalars_) + host_bytes(output_names_) +
                    host_bytes(run_axes_) + host_bytes(padded_axes_) + host_bytes(input_values_) +
                    host_bytes(uses_) + host_bytes(outputs_) + values_.capacity() * sizeof(value) +
                    steps_.capacity() * sizeof(step) + host_bytes(results_) +
                    constants_.size() * sizeof(constant);
  for (const auto& c : constants_) sum += c.name.capacity();
  for (const auto& v : values_) {
    sum += v.text.capacity() + (v.kind == value_kind::view ? sizeof(program_view) : 0);
  }
  for (const auto& s : steps_) {
    sum += s.name.capacity() + s.operation->bytes() + host_bytes(s.operands) +
           host_bytes(s.scalars) + host_bytes(s.outputs);
  }
  return sum;
}

bool program_graph::pads() const noexcept {
  return std::any_of(padded_axes_.begin(), padded_axes_.end(), [](int axis) { return axis != 0; });
}

bool program_graph::fits_batch(const operations::program_inference& alone) const noexcept {
  std::size_t use_count = 0;
  for (std::size_t i = 0; i < alone.uses.size(); ++i) {
    const bool is_constant = i >= inputs_.size() && i < inputs_.size() + constants_.size();
    if (alone.uses[i].ignored || (is_constant && constants_[i - inputs_.size()].on_host)) continue;
    ++use_count;
  }
  return use_count <= max_tensors_in_batch;
}

std::shared_ptr<const operations::batch_layout> program_graph::padded_runs(
    const operations::program_inference& alone) const {
  if (!pads() || !operations::may_share_batch(*this, alone) || !fits_batch(alone)) return nullptr;
  const auto input_specs = operations::padded_inputs(*this, alone);
  if (!input_specs) return nullptr;
  std::shared_ptr<const operations::batch_layout> layout;
  {
    const std::lock_guard lock(mutex_);
    const auto position =
        std::find_if(recent_layouts_.begin(), recent_layouts_.end(), [&](const auto& candidate) {
          return operations::has_layout(*this, alone, *input_specs, *candidate);
        });
    if (position != recent_layouts_.end()) {
      std::rotate(recent_layouts_.begin(), position, position + 1);
      layout = recent_layouts_.front();
    }
  }
  if (!layout) {
    layout = std::make_shared<const operations::batch_layout>(
        operations::padded_layout(*this, alone, *input_specs));
    std::shared_ptr<const operations::batch_layout> dropped;  // destroyed without the lock
    const std::lock_guard lock(mutex_);
    if (recent_layouts_.size() == most_recent) {
      dropped = std::move(recent_layouts_.back());
      recent_layouts_.pop_back();
    }
    recent_layouts_.insert(recent_layouts_.begin(), layout);
  }
  return operations::fits(*this, alone, *layout) ? layout : nullptr;
}

operations::inferred_run program_graph::infer(
    std::span<const tensor_spec> inputs, std::span<const scalar> scalars,
    std::span<const operations::given_output> outputs) const {
  using operations::program_inference;
  const auto use = [this](const auto& condition) -> std::shared_ptr<const program_inference> {
    const auto position = std::find_if(recent_.begin(), recent_.end(), [&](const auto& candidate) {
      return condition(*candidate);
    });
    if (position == recent_.end()) return nullptr;
    std::rotate(recent_.begin(), position, position + 1);
    return recent_.front();
  };
  std::shared_ptr<const program_inference> result;
  {
    const std::lock_guard lock(mutex_);
    result = use([&](const program_inference& candidate) {
      return std::equal(inputs.begin(), inputs.end(), candidate.inputs.begin(),
                        candidate.inputs.end()) &&
             std::equal(outputs.begin(), outputs.end(), candidate.outputs.begin(),
                        candidate.outputs.end());
    });
  }
  if (result) {
    if (auto calls = operations::calls_for(*this, *result, scalars)) {
      return {std::move(result), std::move(*calls)};
    }
  }
  auto new_inference = [&] {
    auto alone = operations::infer_program(*this, inputs, scalars, outputs);
    alone.output_axes = operations::check_marks(*this, alone);
    alone.bytes += host_bytes(alone.output_axes);
    alone.padded = padded_runs(alone);
    alone.stacks = alone.padded || operations::may_share_batch(*this, alone);
    if (alone.padded) alone.bytes += alone.padded->full_run->bytes;
    return std::make_shared<const program_inference>(std::move(alone));
  }();
  auto calls = operations::calls_of(*new_inference);
  std::shared_ptr<const program_inference> dropped;  // destroyed without the lock
  const std::lock_guard lock(mutex_);
  if (auto existing = use([&](const program_inference& candidate) {
        return candidate.key == new_inference->key;
      })) {
    dropped = std::exchange(new_inference, std::move(existing));
    return {std::move(new_inference), std::move(calls)};
  }
  if (recent_.size() == most_recent) {
    dropped = std::move(recent_.back());
    recent_.pop_back();
  }
  recent_.insert(recent_.begin(), new_inference);
  return {std::move(new_inference), std::move(calls)};
}

}  // namespace sluice::detail
