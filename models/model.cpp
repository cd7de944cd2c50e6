// SPDX-License-Identifier: Apache-2.0
#include "models/chain_source.hpp"
#include "models/model_file.hpp"
#include "models/model_import.hpp"
#include "models/model_reader.hpp"

#include <sluice/models/model.hpp>
#include <sluice/models/model_chain.hpp>

#include <algorithm>
#include <utility>

namespace sluice {

namespace {

/// A text in one printable line. Names in files may have any bytes. The middle of a long line, the
/// names of inner nodes, is left out.
std::string printable(std::string line) {
  constexpr std::size_t start = 700;
  constexpr std::size_t end = 300;
  if (line.size() > start + end) line.replace(start, line.size() - start - end, " ... ");
  std::replace_if(
      line.begin(), line.end(), [](char c) { return c < ' ' || c > '~'; }, '?');
  return line;
}
/// The text of an error, likewise, with the name of the model in front.
std::string printable(const std::string& model, const char* text) {
  return printable(model + ": " + text);
}

/// Calls `work`. An exception that is no `error` becomes one with the name of the model in front.
template <class Work>
auto with_typed_errors(const std::string& model, const Work& work) {
  try {
    return work();
  } catch (const error&) {
    throw;
  } catch (...) {
    const auto e = current_error();
    throw error(e.code(), printable(model, e.what()), e.status(), e.where());
  }
}

/// Calls `work`. The text of its error becomes printable, with the name of the model in front.
template <class Work>
auto with_name(const std::string& model, const Work& work) {
  try {
    return work();
  } catch (const unbound_inputs& e) {
    throw unbound_inputs(printable(model, e.what()), e.names(), e.where());
  } catch (...) {
    const auto e = current_error();
    throw error(e.code(), printable(model, e.what()), e.status(), e.where());
  }
}

}  // namespace

model::model(std::shared_ptr<const models::import_source> source) noexcept
    : source_(std::move(source)) {}

model model::open(const std::filesystem::path& path) {
  return with_typed_errors(path.string(), [&] {
    auto contents = models::read_model(path);
    if (!contents) throw invalid_argument(path.string(), "is not a model");
    return model(std::make_shared<const models::model_file>(std::move(*contents), path.string(),
                                                            path.parent_path()));
  });
}

model model::parse(std::span<const std::byte> bytes, std::string name) {
  return with_typed_errors(name, [&] {
    auto contents = models::read_model(bytes);
    if (!contents) throw invalid_argument(name, "is not a model");
    return model(std::make_shared<const models::model_file>(std::move(*contents), name));
  });
}

model model::chain(const model_chain& description) {
  return with_name(description.name, [&] {
    return model(std::make_shared<const models::chain_source>(description));
  });
}

const std::vector<model_value>& model::inputs() const noexcept {
  return source_->inputs();
}
const std::vector<model_value>& model::outputs() const noexcept {
  return source_->outputs();
}

model_program model::program_for(const std::map<std::string, tensor_spec>& specs,
                                 const std::map<std::string, host_tensor>& values,
                                 const model_options& options) const {
  return with_name(source_->name(), [&] {
    source_->drop_unused_constants();
    auto compiled =
        models::model_import(*source_, specs, values, options.optimize).make_program(options);
    source_->drop_unused_constants();  // those between two others
    compiled.batching.reason = printable(std::move(compiled.batching.reason));
    return compiled;
  });
}

model_steps model::steps_for(const std::map<std::string, tensor_spec>& specs,
                             const std::map<std::string, host_tensor>& values,
                             const model_options& options) const {
  return with_name(source_->name(), [&] {
    return models::model_import(*source_, specs, values, options.optimize).make_steps(options);
  });
}

std::vector<model_refusal> model::refusals(const std::map<std::string, tensor_spec>& specs,
                                           const std::map<std::string, host_tensor>& values) const {
  return with_name(source_->name(), [&] {
    auto refusals = models::model_import(*source_, specs, values).refusals();
    for (auto& refusal : refusals) refusal.reason = printable(std::move(refusal.reason));
    return refusals;
  });
}

}  // namespace sluice
