// SPDX-License-Identifier: Apache-2.0
#include "models/node.hpp"

#include "models/host_numbers.hpp"
#include "models/model_file.hpp"

#include <sluice/models/model.hpp>
#include <sluice/operations/elementwise.hpp>

#include <algorithm>

namespace sluice::models {

const value& node::input(std::size_t number) const {
  if (has_input(number)) return *inputs_[number];
  throw refusal("input " + std::to_string(number), "is not given");
}
operand node::optional_input(std::size_t number) const {
  return has_input(number) ? operand(*inputs_[number]) : operand();
}
std::vector<value> node::all_inputs() const {
  std::vector<value> all;
  for (std::size_t i = 0; i < std::max<std::size_t>(inputs_.size(), 1); ++i) {
    all.push_back(input(i));
  }
  return all;
}

const host_tensor& node::known(std::size_t number, std::string_view name) const {
  const auto& x = input(number);
  if (x.known()) return x.known();
  std::vector<std::string> names;
  std::string text =
      std::string(name) + ": must be known while the program is made, but depends on ";
  for (const auto source : scope_.sources().elements(x.sources())) {
    names.push_back(input_names_[source]);
    text += (names.size() > 1 ? ", '" : "'") + names.back() + "'";
  }
  if (names.empty() && file_.states_steps()) {
    text += "steps, which are not computed then, as the key '" +
            std::string(model_file::steps_key) + "' of the metadata states";
  } else if (names.empty()) {
    text += "random numbers or too many elements";
  }
  throw unbound_inputs(text, std::move(names));
}
std::vector<std::int64_t> node::integers(std::size_t number, std::string_view name) const {
  return integers_in(known(number, name));
}
std::vector<double> node::reals(std::size_t number, std::string_view name) const {
  return reals_in(known(number, name));
}
std::int64_t node::integer(std::size_t number, std::string_view name) const {
  const auto all = integers(number, name);
  if (all.size() == 1) return all.front();
  throw refusal(name, "has " + std::to_string(all.size()) + " elements instead of one");
}
double node::real(std::size_t number, std::string_view name) const {
  const auto all = reals(number, name);
  if (all.size() == 1) return all.front();
  throw refusal(name, "has " + std::to_string(all.size()) + " elements instead of one");
}
std::optional<std::vector<std::int64_t>> node::integers_of(std::size_t number,
                                                           std::string_view name) const {
  if (has_attribute(name)) return attribute(name, std::vector<std::int64_t>{});
  if (has_input(number)) return integers(number, name);
  return std::nullopt;
}

const onnx::AttributeProto* node::find(std::string_view name, int type) const {
  const auto found = attributes_.find(name);
  if (found == attributes_.end()) return nullptr;
  // Old files leave the type out.
  if (found->second->has_type() && found->second->type() != type) {
    throw refusal(name, "is an attribute of another type");
  }
  return found->second;
}
std::int64_t node::attribute(std::string_view name, std::int64_t missing) const {
  const auto* const found = find(name, onnx::AttributeProto::INT);
  return found != nullptr ? found->i() : missing;
}
double node::attribute(std::string_view name, double missing) const {
  const auto* const found = find(name, onnx::AttributeProto::FLOAT);
  return found != nullptr ? static_cast<double>(found->f()) : missing;
}
std::string node::attribute(std::string_view name, const char* missing) const {
  const auto* const found = find(name, onnx::AttributeProto::STRING);
  return found != nullptr ? found->s() : missing;
}
std::vector<std::int64_t> node::attribute(std::string_view name,
                                          std::vector<std::int64_t> missing) const {
  const auto* const found = find(name, onnx::AttributeProto::INTS);
  if (found == nullptr) return missing;
  return {found->ints().begin(), found->ints().end()};
}
const onnx::AttributeProto& node::require_attribute(std::string_view name) const {
  const auto found = attributes_.find(name);
  if (found != attributes_.end()) return *found->second;
  throw refusal(name, "the attribute is not given");
}

host_tensor node::tensor(std::string_view name) const {
  return file_.constant(require_attribute(name).t());
}

std::size_t node::dimension(std::int64_t axis, std::size_t rank, std::string_view name) const {
  const auto dimensions = static_cast<std::int64_t>(rank);
  if (axis < -dimensions || axis >= dimensions) {
    throw refusal(name, "is " + std::to_string(axis) + ", but there are " + std::to_string(rank) +
                            " dimensions");
  }
  return static_cast<std::size_t>(axis < 0 ? axis + dimensions : axis);
}

value node::number(element_type type, double number) const {
  return constant(number_of_type(type, number));
}
value node::cast_to(const value& x, element_type type, bool saturate) const {
  return x.type() == type ? x : add(cast{.x = x, .type = type, .saturate = saturate});
}
value node::dense(const value& x) const {
  return x.layout().is_contiguous() ? x : add(strided_copy{.x = x});
}

}  // namespace sluice::models
