// SPDX-License-Identifier: Apache-2.0
#include "tools/sluice/model_inputs.hpp"

#include "tools/io/displayed.hpp"
#include "tools/sluice/arrays.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <span>
#include <utility>

namespace sluice::cli {

namespace {

std::string listed(const std::vector<std::string>& names) {
  std::string text;
  for (const auto& name : names) text += (text.empty() ? "" : ", ") + io::displayed(name);
  return text.empty() ? "none" : text;
}

host_tensor read_tensor(const std::string& path) {
  const auto array = read_array("--input", path, io::npy_types);
  if (array.shape.size() > extents::max_rank)
    refuse_file(path, fmt::format("has {} dimensions; at most {} are possible", array.shape.size(),
                                  extents::max_rank));
  host_tensor x(array.type, extents(std::span<const std::int64_t>(array.shape)));
  if (x.bytes() != 0) std::memcpy(x.data().get(), array.bytes.data(), x.bytes());
  return x;
}

}  // namespace

std::vector<std::string> names_of(const std::vector<model_value>& values) {
  std::vector<std::string> names;
  names.reserve(values.size());
  for (const auto& value : values) names.push_back(value.name);
  return names;
}

std::vector<named_text> parse_named(std::string_view option, const std::vector<std::string>& values,
                                    const std::vector<std::string>& names) {
  std::vector<named_text> parsed;
  for (const auto& value : values) {
    // Names may contain '=', too: the longest one counts.
    auto named = names.end();
    for (auto name = names.begin(); name != names.end(); ++name) {
      if (value.starts_with(*name + '=') && (named == names.end() || name->size() > named->size()))
        named = name;
    }
    if (named == names.end() && names.size() != 1) {
      throw error(
          errc::invalid_argument,
          fmt::format("{}: {} does not begin with one of the names and '='; the model has {}",
                      option, io::displayed(value), listed(names)));
    }
    const auto number = named == names.end() ? 0 : static_cast<std::size_t>(named - names.begin());
    const bool is_named_twice = std::any_of(parsed.begin(), parsed.end(), [&](const auto& earlier) {
      return earlier.number == number;
    });
    if (is_named_twice)
      throw error(errc::invalid_argument,
                  fmt::format("{}: {} is named twice", option, io::displayed(names[number])));
    parsed.push_back({number, named == names.end() ? value : value.substr(named->size() + 1)});
  }
  return parsed;
}

std::vector<named_text> parse_named_files(std::string_view option,
                                          const std::vector<std::string>& values,
                                          const std::vector<std::string>& names,
                                          std::string_view standard_stream) {
  auto files = parse_named(option, values, names);
  for (auto& file : files) {
    if (file.text == "-") file.text = standard_stream;
    if (file.text.empty())
      throw error(errc::invalid_argument, fmt::format("{}: the file name is empty", option));
  }
  return files;
}

named_tensors read_inputs(const std::vector<named_text>& files,
                          const std::vector<std::string>& names) {
  named_tensors tensors;
  for (const auto& file : files) tensors.emplace(names[file.number], read_tensor(file.text));
  return tensors;
}

bool bind_inputs(const std::vector<std::string>& names, const named_tensors& inputs,
                 named_specs& specs, named_tensors& values) {
  bool has_bound = false;
  for (const auto& name : names) {
    const auto known = inputs.find(name);
    if (known == inputs.end() || !values.insert(*known).second) continue;
    specs.erase(name);
    has_bound = true;
  }
  return has_bound;
}

model_program program_for(const model& network, const named_tensors& inputs, named_specs& specs,
                          named_tensors& values, const model_options& options) {
  for (;;) {
    try {
      return network.program_for(specs, values, options);
    } catch (const unbound_inputs& e) {
      if (!bind_inputs(e.names(), inputs, specs, values)) throw;
    }
  }
}

}  // namespace sluice::cli
