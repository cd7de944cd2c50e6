// SPDX-License-Identifier: Apache-2.0
#include "models/export/attribute_reader.hpp"
#include "models/export/attribute_writer.hpp"
#include "models/export/enumerator_names.hpp"
#include "models/export/operation_form.hpp"
#include "operations/seam.hpp"

#include <array>
#include <initializer_list>
#include <string>

namespace sluice::models {

namespace {

/// The parameters of a view, as `write_view_parameters` writes them.
class view_parameters {
 public:
  explicit view_parameters(const node& n) : node_(n), attributes_(n.attributes()) {
    if (n.input_count() != 1) throw n.refusal("inputs", "are not one");
  }

  [[nodiscard]] std::optional<std::int64_t> optional_integer(std::string_view name) {
    return attributes_.integer(name);
  }
  [[nodiscard]] std::int64_t integer(std::string_view name) {
    return required(name, attributes_.integer(name));
  }
  [[nodiscard]] extents integers(std::string_view name) {
    return required(name, attributes_.integers(name));
  }
  [[nodiscard]] element_type type() {
    return static_cast<element_type>(
        required("type", attributes_.enumerator("type", enumerator_names(element_type()))));
  }
  /// A dimension of the value, or the one after the last.
  [[nodiscard]] std::size_t axis(std::size_t count) {
    const auto number = integer("axis");
    if (number < 0 || number >= static_cast<std::int64_t>(count)) {
      throw node_.refusal("axis", "is " + std::to_string(number) + ", but must be from 0 to " +
                                      std::to_string(static_cast<std::int64_t>(count) - 1));
    }
    return static_cast<std::size_t>(number);
  }
  [[nodiscard]] const value& viewed() const {
    attributes_.require_no_other(node_.op_type());
    return node_.input(0);
  }

 private:
  template <class T>
  [[nodiscard]] T required(std::string_view name, const std::optional<T>& number) const {
    if (!number) throw node_.refusal(name, "the attribute is not given");
    return *number;
  }

  const node& node_;
  attribute_reader attributes_;
};

results import_reshape_view(const node& n) {
  view_parameters parameters(n);
  const auto shape = parameters.integers("shape");
  return parameters.viewed().reshape(shape);
}
results import_permute_view(const node& n) {
  view_parameters parameters(n);
  const auto axes = parameters.integers("axes");
  return parameters.viewed().permute(axes);
}
results import_transposed_view(const node& n) {
  return view_parameters(n).viewed().transposed();
}
results import_slice_view(const node& n) {
  view_parameters parameters(n);
  const auto axis = parameters.axis(n.input(0).rank());
  const auto first = parameters.integer("first");
  const auto last = parameters.optional_integer("last").value_or(n.input(0).extent(axis));
  const auto step = parameters.integer("step");
  return parameters.viewed().slice(axis, first, last, step);
}
results import_select_view(const node& n) {
  view_parameters parameters(n);
  const auto axis = parameters.axis(n.input(0).rank());
  const auto index = parameters.integer("index");
  return parameters.viewed().select(axis, index);
}
results import_unsqueeze_view(const node& n) {
  view_parameters parameters(n);
  const auto axis = parameters.axis(n.input(0).rank() + 1);
  return parameters.viewed().unsqueeze(axis);
}
results import_broadcast_view(const node& n) {
  view_parameters parameters(n);
  const auto shape = parameters.integers("shape");
  return parameters.viewed().broadcast_to(shape);
}
results import_reinterpret_view(const node& n) {
  view_parameters parameters(n);
  const auto type = parameters.type();
  return parameters.viewed().reinterpret(type);
}
/// Checks the value and adds no view: its type and shape are those of all runs of the program.
results import_require_view(const node& n) {
  view_parameters parameters(n);
  const auto type = parameters.type();
  const auto shape = parameters.integers("shape");
  const auto& x = parameters.viewed();
  if (x.type() == type && x.shape() == shape) return x;
  throw n.refusal("input", "has the type " + std::string(to_string(x.type())) + " and the shape " +
                               to_string(x.shape()) + ", but must have " +
                               std::string(to_string(type)) + " and " + to_string(shape));
}

constexpr std::array view_entries{
    operator_entry{"broadcast_to", import_broadcast_view, 1, folding::never},
    operator_entry{"permute", import_permute_view, 1, folding::never},
    operator_entry{"reinterpret", import_reinterpret_view, 1, folding::never},
    operator_entry{"require", import_require_view, 1, folding::never},
    operator_entry{"reshape", import_reshape_view, 1, folding::never},
    operator_entry{"select", import_select_view, 1, folding::never},
    operator_entry{"slice", import_slice_view, 1, folding::never},
    operator_entry{"transposed", import_transposed_view, 1, folding::never},
    operator_entry{"unsqueeze", import_unsqueeze_view, 1, folding::never},
};

}  // namespace

const char* write_view_parameters(const sluice::detail::program_view& view,
                                  onnx::NodeProto& message) {
  using view_function = sluice::detail::program_view::function;
  attribute_writer attributes(message);
  const auto add_all = [&](std::initializer_list<const char*> names) {
    std::size_t next = 0;
    for (const auto* name : names) {
      if (next < view.numbers.size()) attributes.add_integer(name, view.numbers[next++]);
    }
  };
  const auto add_list = [&](const char* name) {
    attributes.add_integers(name, {view.numbers.begin(), view.numbers.size()});
  };
  switch (view.what) {
    case view_function::reshape:
      add_list("shape");
      return "reshape";
    case view_function::permute:
      add_list("axes");
      return "permute";
    case view_function::slice:
      add_all({"axis", "first", "step", "last"});
      return "slice";
    case view_function::select:
      add_all({"axis", "index"});
      return "select";
    case view_function::unsqueeze:
      add_all({"axis"});
      return "unsqueeze";
    case view_function::broadcast_to:
      add_list("shape");
      return "broadcast_to";
    case view_function::reinterpret:
      write_parameter(attributes, "type", view.type);
      return "reinterpret";
    case view_function::require:
      write_parameter(attributes, "type", view.type);
      add_list("shape");
      return "require";
    case view_function::transposed:
      break;
  }
  return "transposed";
}

std::span<const operator_entry> view_operators() {
  return view_entries;
}

}  // namespace sluice::models
