// SPDX-License-Identifier: Apache-2.0
#include "operations/program/program_graph.hpp"

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

void require_name(const std::string& name, const char* what) {
  if (name.empty()) throw invalid_argument("name", std::string("is empty: name the ") + what);
}

}  // namespace

tensor_spec program_graph::constant::spec() const {
  return on_host ? tensor_spec::row_major(on_host.type(), on_host.shape())
                 : tensor_spec::of(on_device);
}

program_graph::program_graph() : id_(next_program_id()) {}

void program_graph::require_open() const {
  if (built_) {
    throw invalid_argument("program_builder", "the program has been built, so it cannot change");
  }
}

void program_graph::require_counts(std::size_t inputs, std::size_t scalars) const {
  const auto require = [](const char* what, std::size_t given, std::size_t own) {
    if (given == own) return;
    throw invalid_argument(what, "there are " + std::to_string(given) + ", but the program takes " +
                                     std::to_string(own));
  };
  require("inputs", inputs, inputs_.size());
  require("scalars", scalars, scalars_.size());
}

void program_graph::require_own(const scalar& given, std::string_view name) const {
  if (given.is_of_program() && given.program() != id_) {
    throw invalid_argument(name, "is a scalar of another program");
  }
}

std::uint32_t program_graph::add(value one) {
  const auto number = static_cast<std::uint32_t>(values_.size());
  one.viewed = one.kind == value_kind::view ? viewed(one.of) : number;
  values_.push_back(std::move(one));
  return number;
}

std::uint32_t program_graph::add(step one) {
  one.result = static_cast<std::uint32_t>(values_.size());
  steps_.push_back(std::move(one));
  return add({value_kind::result, static_cast<std::uint32_t>(steps_.size() - 1)});
}

std::uint32_t program_graph::add_input(std::string name, bool per_request, int padded_axis) {
  require_open();
  require_name(name, "input");
  per_request_.push_back(per_request);
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

std::uint32_t program_graph::add_constant(constant one) {
  require_open();
  require_name(one.name, "constant");
  const auto& added = constants_.emplace_back(std::move(one));
  const auto number =
      add({value_kind::constant, static_cast<std::uint32_t>(constants_.size() - 1)});
  if (added.on_device) constant_values_.try_emplace(&added.on_device, number);
  return number;
}

std::uint32_t program_graph::add_view(std::uint32_t of, std::string text, view_function view) {
  require_open();
  return add({value_kind::view, of, std::move(view), std::move(text)});
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

std::uint32_t program_graph::value_of(const operand& given, std::string_view name,
                                      const std::string& constant_name) {
  if (!given) return none;
  if (const auto& reference = given.reference(); reference.program != 0) {
    if (reference.program != id_ || reference.index >= values_.size()) {
      throw invalid_argument(name, "is a value of another program");
    }
    return reference.index;
  }
  const auto known = constant_values_.find(&given.value());
  if (known != constant_values_.end() && *known->first == given.value()) return known->second;
  return add_constant({.name = constant_name, .on_device = given.value()});
}

/// Undoes additions that are not kept.
class program_graph::addition {
 public:
  explicit addition(program_graph& to) noexcept
      : to_(to),
        constants_(to.constants_.size()),
        steps_(to.steps_.size()),
        values_(to.values_.size()) {}
  addition(const addition&) = delete;
  addition& operator=(const addition&) = delete;
  ~addition() {
    if (kept_) return;
    for (auto i = constants_; i < to_.constants_.size(); ++i) {
      const auto& dropped = to_.constants_[i].on_device;
      const auto known = to_.constant_values_.find(&dropped);
      if (known != to_.constant_values_.end() && known->first == &dropped) {
        to_.constant_values_.erase(known);
      }
    }
    const auto shorten = [](auto& all, std::size_t size) {
      all.erase(all.begin() + static_cast<std::ptrdiff_t>(size), all.end());
    };
    shorten(to_.constants_, constants_);
    shorten(to_.steps_, steps_);
    shorten(to_.values_, values_);
  }
  void keep() noexcept { kept_ = true; }

 private:
  program_graph& to_;
  const std::size_t constants_;
  const std::size_t steps_;
  const std::size_t values_;
  bool kept_ = false;
};

std::uint32_t program_graph::add_step(std::string name, std::shared_ptr<program_step> operation) {
  require_open();
  require_name(name, "step");
  addition added(*this);
  const auto operands = operation->operands();
  const auto is_output = [](const named_operand& o) {
    return o.role == member_role::output;
  };
  const auto outputs = std::count_if(operands.begin(), operands.end(), is_output);
  if (outputs != 1 || !operation->row().composes()) {
    const char* const reason = outputs == 0   ? "it has no output"
                               : outputs != 1 ? "it has several outputs"
                                              : "its launches need more than its operands";
    throw error(errc::unsupported, in_step(name) + ": " + std::string(operation->row().name()) +
                                       " cannot be a step of a program: " + reason);
  }
  step made;
  made.output = static_cast<std::size_t>(std::find_if(operands.begin(), operands.end(), is_output) -
                                         operands.begin());
  operations::naming(
      [&] { return in_step(name); },
      [&] {
        for (const auto& s : operation->scalars()) {
          require_own(s.value, s.name);
          made.scalars.push_back(s.value);
        }
        for (const auto& o : operands) {
          made.operands.push_back(value_of(*o.value, o.name, name + '.' + std::string(o.name)));
        }
      });
  // The program holds its constants itself.
  for (std::size_t i = 0; i < operands.size(); ++i) {
    if (made.operands[i] != none)
      *operands[i].value = operand(value_reference{id_, made.operands[i]});
  }
  made.name = std::move(name);
  made.operation = std::move(operation);
  const auto result = add(std::move(made));
  added.keep();
  return result;
}

std::vector<std::uint32_t> program_graph::add_program(const std::string& name,
                                                      const program_graph& inner,
                                                      const std::vector<operand>& inputs,
                                                      const std::vector<scalar>& scalars) {
  require_open();
  require_name(name, "step");
  addition added(*this);
  std::vector<std::uint32_t> given;
  operations::naming([&] { return in_step(name); },
                     [&] {
                       inner.require_counts(inputs.size(), scalars.size());
                       for (std::size_t i = 0; i < scalars.size(); ++i)
                         require_own(scalars[i], inner.scalars_[i]);
                       for (std::size_t i = 0; i < inputs.size(); ++i) {
                         const auto& input = inner.inputs_[i];
                         if (!inputs[i]) throw invalid_argument(input, "is not given");
                         given.push_back(value_of(inputs[i], input, name + '.' + input));
                       }
                     });
  std::vector<std::uint32_t> own;  // the values here, by the values of `inner`
  const auto here = [&](std::uint32_t number) {
    return number == none ? none : own[number];
  };
  for (const auto& v : inner.values_) {
    switch (v.kind) {
      case value_kind::input:
        own.push_back(given[v.of]);
        break;
      case value_kind::constant: {
        auto one = inner.constants_[v.of];
        one.name = name + '.' + one.name;
        own.push_back(one.on_host ? add_constant(std::move(one))
                                  : value_of(operand(one.on_device), one.name, one.name));
        break;
      }
      case value_kind::view:
        own.push_back(add_view(own[v.of], v.text, v.view));
        break;
      case value_kind::result: {
        auto one = inner.steps_[v.of];
        one.name = name + '.' + one.name;
        for (auto& o : one.operands) o = here(o);
        for (auto& s : one.scalars) {
          if (s.is_of_program()) s = scalars[s.number()];
        }
        own.push_back(add(std::move(one)));
        break;
      }
    }
  }
  std::vector<std::uint32_t> outputs;
  for (const auto output : inner.outputs_) outputs.push_back(own[output]);
  added.keep();
  return outputs;
}

void program_graph::build(std::vector<std::uint32_t> outputs, const program_options& options) {
  require_open();
  if (outputs.empty()) throw invalid_argument("outputs", "are not given");
  if (options.max_in_batch < 1 || options.max_in_batch > max_runs_in_batch) {
    throw invalid_argument("max_in_batch", "is " + std::to_string(options.max_in_batch) +
                                               ", but must be from 1 to " +
                                               std::to_string(max_runs_in_batch));
  }
  if (options.max_in_batch > 1 &&
      std::find(per_request_.begin(), per_request_.end(), true) == per_request_.end()) {
    throw invalid_argument("max_in_batch", "is " + std::to_string(options.max_in_batch) +
                                               ", but no input is per request");
  }
  std::vector<std::string> names;
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    if (values_[viewed(outputs[i])].kind != value_kind::result) {
      throw invalid_argument("outputs", "output " + std::to_string(i) + " is no result of a step");
    }
    names.push_back("outputs[" + std::to_string(i) + "]");
  }
  // Each copy is aligned like memory of its own. Constants with the same memory share a copy.
  std::map<std::pair<const void*, std::size_t>, std::size_t> offsets;
  for (auto& one : constants_) {
    if (!one.on_host) continue;
    const auto [known, is_new] = offsets.try_emplace(
        std::pair(static_cast<const void*>(one.on_host.data().get()), one.on_host.bytes()),
        host_constants_bytes_);
    one.offset = known->second;
    if (!is_new) continue;
    const auto end = one.offset + one.on_host.bytes();
    host_constants_bytes_ = (end + tensor_spec::max_alignment - 1) / tensor_spec::max_alignment *
                            tensor_spec::max_alignment;
  }
  std::string all_steps;
  for (const auto& one : steps_) {
    if (!all_steps.empty()) all_steps += ", ";
    all_steps += one.name;
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

std::size_t program_graph::count_bytes() const noexcept {
  constexpr std::size_t view_bytes = 128;  // of what a view function holds
  std::size_t sum = sizeof(*this) + host_constants_bytes_ + step_names_->capacity() +
                    host_bytes(inputs_) + host_bytes(scalars_) + host_bytes(output_names_) +
                    host_bytes(padded_axes_) + host_bytes(input_values_) + host_bytes(uses_) +
                    host_bytes(outputs_) + values_.capacity() * sizeof(value) +
                    steps_.capacity() * sizeof(step) + constants_.size() * sizeof(constant);
  for (const auto& one : constants_) sum += one.name.capacity();
  for (const auto& one : values_) {
    sum += one.text.capacity() + (one.kind == value_kind::view ? view_bytes : 0);
  }
  for (const auto& one : steps_) {
    sum += one.name.capacity() + one.operation->bytes() + host_bytes(one.operands) +
           host_bytes(one.scalars);
  }
  return sum;
}

bool program_graph::pads() const noexcept {
  return std::any_of(padded_axes_.begin(), padded_axes_.end(), [](int axis) { return axis != 0; });
}

std::shared_ptr<const operations::batch_layout> program_graph::padded_runs(
    const operations::program_inference& alone) const {
  if (!pads() || !operations::may_share_batch(*this, alone)) return nullptr;
  std::size_t used = 0;
  for (std::size_t i = 0; i < alone.uses.size(); ++i) {
    const bool is_constant = i >= inputs_.size() && i < inputs_.size() + constants_.size();
    if (alone.uses[i].ignored || (is_constant && constants_[i - inputs_.size()].on_host)) continue;
    ++used;
  }
  if (used > joint_launches::max_uses) return nullptr;
  const auto wanted = operations::padded_inputs(*this, alone);
  if (!wanted) return nullptr;
  std::shared_ptr<const operations::batch_layout> found;
  {
    const std::lock_guard lock(mutex_);
    const auto at = std::find_if(
        recent_layouts_.begin(), recent_layouts_.end(),
        [&](const auto& one) { return operations::has_layout(*this, alone, *wanted, *one); });
    if (at != recent_layouts_.end()) {
      std::rotate(recent_layouts_.begin(), at, at + 1);
      found = recent_layouts_.front();
    }
  }
  if (!found) {
    found = std::make_shared<const operations::batch_layout>(
        operations::padded_layout(*this, alone, *wanted));
    std::shared_ptr<const operations::batch_layout> dropped;  // destroyed without the lock
    const std::lock_guard lock(mutex_);
    if (recent_layouts_.size() == most_recent) {
      dropped = std::move(recent_layouts_.back());
      recent_layouts_.pop_back();
    }
    recent_layouts_.insert(recent_layouts_.begin(), found);
  }
  return operations::fits(*this, alone, *found) ? found : nullptr;
}

operations::inferred_run program_graph::infer(
    std::span<const tensor_spec> inputs, std::span<const scalar> scalars,
    std::span<const operations::given_output> outputs) const {
  using operations::program_inference;
  const auto use = [this](const auto& condition) -> std::shared_ptr<const program_inference> {
    const auto found = std::find_if(recent_.begin(), recent_.end(),
                                    [&](const auto& one) { return condition(*one); });
    if (found == recent_.end()) return nullptr;
    std::rotate(recent_.begin(), found, found + 1);
    return recent_.front();
  };
  std::shared_ptr<const program_inference> known;
  {
    const std::lock_guard lock(mutex_);
    known = use([&](const program_inference& one) {
      return std::equal(inputs.begin(), inputs.end(), one.inputs.begin(), one.inputs.end()) &&
             std::equal(outputs.begin(), outputs.end(), one.outputs.begin(), one.outputs.end());
    });
  }
  if (known) {
    if (auto calls = operations::calls_for(*this, *known, scalars)) {
      return {std::move(known), std::move(*calls)};
    }
  }
  auto made = [&] {
    auto alone = operations::infer_program(*this, inputs, scalars, outputs);
    operations::check_marks(*this, alone);
    alone.padded = padded_runs(alone);
    alone.stacks = alone.padded || operations::may_share_batch(*this, alone);
    if (alone.padded) alone.bytes += alone.padded->one->bytes;
    return std::make_shared<const program_inference>(std::move(alone));
  }();
  auto calls = operations::calls_of(*made);
  std::shared_ptr<const program_inference> dropped;  // destroyed without the lock
  const std::lock_guard lock(mutex_);
  if (auto same = use([&](const program_inference& one) { return one.key == made->key; })) {
    dropped = std::exchange(made, std::move(same));
    return {std::move(made), std::move(calls)};
  }
  if (recent_.size() == most_recent) {
    dropped = std::move(recent_.back());
    recent_.pop_back();
  }
  recent_.insert(recent_.begin(), made);
  return {std::move(made), std::move(calls)};
}

std::shared_ptr<const operations::uploaded_constants> program_graph::constants_on(
    lane_libraries& libraries) const {
  return host_constants_bytes_ == 0 ? nullptr
                                    : uploaded_.on(libraries, *this, host_constants_bytes_);
}

std::string program_graph::name_of(std::uint32_t number) const {
  std::vector<const std::string*> views;  // the last one first
  for (; values_[number].kind == value_kind::view; number = values_[number].of) {
    views.push_back(&values_[number].text);
  }
  const auto& v = values_[number];
  std::string name = v.kind == value_kind::input      ? inputs_[v.of]
                     : v.kind == value_kind::constant ? constants_[v.of].name
                                                      : steps_[v.of].name;
  for (auto view = views.rbegin(); view != views.rend(); ++view) {
    name += '.';
    name += **view;
  }
  return name;
}

std::string program_graph::text_of(const step& one) const {
  std::string text(one.operation->row().name());
  text += '(';
  const char* separator = "";
  const auto add = [&](std::string_view name, const std::string& what) {
    text += separator;
    text += name;
    text += " = ";
    text += what;
    separator = ", ";
  };
  for (std::size_t i = 0; i < one.operands.size(); ++i) {
    if (one.operands[i] == none) continue;
    add(one.operation->operands()[i].name, name_of(one.operands[i]));
  }
  const auto bound = one.operation->scalars();
  for (std::size_t i = 0; i < bound.size(); ++i) {
    const auto& number = one.scalars[i];
    add(bound[i].name, number.is_of_program() ? scalars_[number.number()] : number.text());
  }
  return text + ')';
}

std::string program_graph::text() const {
  std::string text;
  for (const auto& name : scalars_) text += name + " = scalar\n";
  for (std::uint32_t i = 0; i < values_.size(); ++i) {
    const auto& v = values_[i];
    if (v.kind == value_kind::input) {
      text += name_of(i) + (per_request_[v.of] ? " = input per request" : " = input");
      const auto axis = padded_axes_[v.of];
      text += axis != 0 ? ", padded along " + std::to_string(axis) + "\n" : "\n";
    } else if (v.kind == value_kind::constant) {
      const auto read = constants_[v.of].spec();
      text += name_of(i) + " = constant " + std::string(to_string(read.type)) +
              to_string(read.shape) + "\n";
    } else if (v.kind == value_kind::result) {
      text += name_of(i) + " = " + text_of(steps_[v.of]) + "\n";
    }
  }
  text += "outputs:";
  for (const auto output : outputs_) text += " " + name_of(output);
  return text + "\n";
}

}  // namespace sluice::detail
