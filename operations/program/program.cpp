// SPDX-License-Identifier: Apache-2.0
#include "operations/program/program_graph.hpp"

#include <sluice/operations/program.hpp>
#include <sluice/runtime/error.hpp>

#include <algorithm>
#include <atomic>

namespace sluice {

using detail::program_graph;

namespace {

std::uint64_t next_program_id() noexcept {
  static std::atomic<std::uint64_t> last{0};
  return last.fetch_add(1, std::memory_order_relaxed) + 1;
}

std::string in_quotes(const std::string& text) {
  return "'" + text + "'";
}

}  // namespace

program_graph::program_graph() : id_(next_program_id()) {}

void program_graph::require_open() const {
  if (built_) throw error(errc::invalid_argument, "the program has been built");
}

std::uint32_t program_graph::add(value one) {
  values_.push_back(std::move(one));
  return static_cast<std::uint32_t>(values_.size() - 1);
}

std::uint32_t program_graph::add_input(std::string name) {
  require_open();
  inputs_.push_back(std::move(name));
  return add({value_kind::input, static_cast<std::uint32_t>(inputs_.size() - 1)});
}

std::uint32_t program_graph::add_view(std::uint32_t of, std::string text,
                                      std::function<tensor_layout(const tensor_layout&)> view) {
  require_open();
  return add({value_kind::view, of, std::move(view), std::move(text)});
}

std::uint32_t program_graph::value_of(const named_operand& of, const std::string& user) {
  const auto& given = *of.value;
  if (!given) return none;
  if (const auto& reference = given.reference(); reference.program != 0) {
    if (reference.program != id_) {
      throw invalid_argument(of.name, "is a value of another program");
    }
    return reference.index;
  }
  for (std::uint32_t i = 0; i < values_.size(); ++i) {
    const auto& v = values_[i];
    if (v.kind == value_kind::constant && constants_[v.of].value == given.value()) return i;
  }
  constants_.push_back({given.value(), user + "." + std::string(of.name)});
  return add({value_kind::constant, static_cast<std::uint32_t>(constants_.size() - 1)});
}

std::uint32_t program_graph::add_step(std::unique_ptr<program_step> operation) {
  require_open();
  const auto& name = operation->name();
  const auto where = "step " + in_quotes(name) + ": ";
  const auto operands = operation->operands();
  const auto is_output = [](const named_operand& o) {
    return o.role == member_role::output;
  };
  if (std::count_if(operands.begin(), operands.end(), is_output) != 1 ||
      !operation->row().composes()) {
    throw error(errc::unsupported,
                where + std::string(operation->row().name()) + " cannot be a step of a program");
  }
  step made{.operation = nullptr, .operands = {}};
  made.output = static_cast<std::size_t>(std::find_if(operands.begin(), operands.end(), is_output) -
                                         operands.begin());
  operations::naming_step(*operation, [&] {
    for (const auto& o : operands) made.operands.push_back(value_of(o, name));
  });
  // The program holds its constants itself.
  for (std::size_t i = 0; i < operands.size(); ++i) {
    if (made.operands[i] != none)
      *operands[i].value = operand(value_reference{id_, made.operands[i]});
  }
  made.operation = std::move(operation);
  made.result = static_cast<std::uint32_t>(values_.size());
  const auto number = static_cast<std::uint32_t>(steps_.size());
  steps_.push_back(std::move(made));
  try {
    return add({value_kind::result, number});
  } catch (...) {
    steps_.pop_back();
    throw;
  }
}

void program_graph::build(std::vector<std::uint32_t> outputs) {
  require_open();
  if (outputs.empty()) throw invalid_argument("outputs", "are not given");
  std::vector<std::string> names;
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    if (values_[viewed(outputs[i])].kind != value_kind::result) {
      throw invalid_argument("outputs", "output " + std::to_string(i) + " is no result of a step");
    }
    names.push_back("outputs[" + std::to_string(i) + "]");
  }
  outputs_ = std::move(outputs);
  output_names_ = std::move(names);
  built_ = true;
}

std::shared_ptr<const operations::program_inference> program_graph::infer(
    std::span<const tensor_spec> inputs, std::span<const operations::given_output> outputs) const {
  {
    const std::lock_guard lock(mutex_);
    const auto found = std::find_if(recent_.begin(), recent_.end(), [&](const auto& one) {
      return std::equal(inputs.begin(), inputs.end(), one->inputs.begin(), one->inputs.end()) &&
             std::equal(outputs.begin(), outputs.end(), one->outputs.begin(), one->outputs.end());
    });
    if (found != recent_.end()) {
      std::rotate(recent_.begin(), found, found + 1);
      return recent_.front();
    }
  }
  auto made = std::make_shared<const operations::program_inference>(
      operations::infer_program(*this, inputs, outputs));
  std::shared_ptr<const operations::program_inference> dropped;  // destroyed without the lock
  const std::lock_guard lock(mutex_);
  if (recent_.size() == most_recent) {
    dropped = std::move(recent_.back());
    recent_.pop_back();
  }
  recent_.insert(recent_.begin(), made);
  return made;
}

std::string program_graph::name_of(std::uint32_t number) const {
  const auto& v = values_[number];
  switch (v.kind) {
    case value_kind::input:
      return inputs_[v.of];
    case value_kind::constant:
      return constants_[v.of].name;
    case value_kind::view:
      return name_of(v.of) + "." + v.text;
    case value_kind::result:
      break;
  }
  return steps_[v.of].operation->name();
}

std::string program_graph::text() const {
  std::string text;
  for (std::uint32_t i = 0; i < values_.size(); ++i) {
    const auto& v = values_[i];
    if (v.kind == value_kind::input) {
      text += name_of(i) + " = input\n";
    } else if (v.kind == value_kind::constant) {
      const auto& read = constants_[v.of].value;
      text += name_of(i) + " = constant " + std::string(to_string(read.type())) +
              to_string(read.shape()) + "\n";
    } else if (v.kind == value_kind::result) {
      const auto& s = steps_[v.of];
      text += name_of(i) + " = " + std::string(s.operation->row().name()) + "(";
      const char* separator = "";
      for (std::size_t o = 0; o < s.operands.size(); ++o) {
        if (s.operands[o] == none) continue;
        text += separator + std::string(s.operation->operands()[o].name) + " = " +
                name_of(s.operands[o]);
        separator = ", ";
      }
      text += ")\n";
    }
  }
  text += "outputs:";
  for (const auto output : outputs_) text += " " + name_of(output);
  return text + "\n";
}

program_value::operator operand() const noexcept {
  return operand(value_reference{graph_->id(), index_});
}
program_value program_value::reshape(const extents& shape) const {
  return {graph_, graph_->add_view(index_, "reshape(" + to_string(shape) + ")",
                                   [shape](const auto& of) { return of.reshape(shape); })};
}
program_value program_value::permute(const extents& axes) const {
  return {graph_, graph_->add_view(index_, "permute(" + to_string(axes) + ")",
                                   [axes](const auto& of) { return of.permute(axes); })};
}
program_value program_value::transposed() const {
  return {graph_,
          graph_->add_view(index_, "transposed()", [](const auto& of) { return of.transposed(); })};
}
program_value program_value::slice(std::size_t axis, std::int64_t first,
                                   std::optional<std::int64_t> last, std::int64_t step) const {
  const auto text = "slice(" + std::to_string(axis) + ", " + std::to_string(first) + ", " +
                    (last ? std::to_string(*last) : "end") + ", " + std::to_string(step) + ")";
  return {graph_, graph_->add_view(index_, text, [=](const auto& of) {
            // `slice` refuses an axis that there is not.
            const auto end = axis < of.rank() ? of.shape()[axis] : 0;
            return of.slice(axis, first, last.value_or(end), step);
          })};
}
program_value program_value::select(std::size_t axis, std::int64_t index) const {
  return {graph_, graph_->add_view(
                      index_, "select(" + std::to_string(axis) + ", " + std::to_string(index) + ")",
                      [=](const auto& of) { return of.select(axis, index); })};
}
program_value program_value::broadcast_to(const extents& shape) const {
  return {graph_, graph_->add_view(index_, "broadcast_to(" + to_string(shape) + ")",
                                   [shape](const auto& of) { return of.broadcast_to(shape); })};
}
program_value program_value::reinterpret(element_type type) const {
  return {graph_, graph_->add_view(index_, "reinterpret(" + std::string(to_string(type)) + ")",
                                   [type](const auto& of) { return of.reinterpret(type); })};
}

program_builder::program_builder() : graph_(std::make_shared<program_graph>()) {}

program_value program_builder::input(std::string name) {
  return {graph_, graph_->add_input(std::move(name))};
}
program_value program_builder::add_step(std::unique_ptr<detail::program_step> step) {
  return {graph_, graph_->add_step(std::move(step))};
}
program program_builder::build(const std::vector<program_value>& outputs) && {
  std::vector<std::uint32_t> numbers;
  for (const auto& output : outputs) {
    if (output.graph_ != graph_) {
      throw invalid_argument(
          "outputs", "output " + std::to_string(numbers.size()) + " is a value of another program");
    }
    numbers.push_back(output.index_);
  }
  graph_->build(std::move(numbers));
  return program(graph_);
}

std::size_t program::inputs() const noexcept {
  return graph_ ? graph_->inputs().size() : 0;
}
std::size_t program::outputs() const noexcept {
  return graph_ ? graph_->outputs().size() : 0;
}
std::string program::text() const {
  return graph_ ? graph_->text() : std::string();
}

}  // namespace sluice
