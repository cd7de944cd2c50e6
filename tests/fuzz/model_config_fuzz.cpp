// SPDX-License-Identifier: Apache-2.0
// The readers of model configs. The first byte chooses the form: 't' for TOML, any other for the
// text format of protobuf.
#include "service/repository/model_config.hpp"
#include "tests/fuzz/fuzz.hpp"

#include <algorithm>
#include <optional>
#include <string_view>
#include <vector>

namespace sluice::fuzz {
namespace {

using namespace sluice::service;

/// The config; nothing if it is refused in one printable line.
std::optional<model_config> config_of(std::string_view text, config_form form) {
  try {
    return parse_config(text, form);
  } catch (const config_error& refusal) {
    const std::string_view message = refusal.what();
    require(!message.empty(), "a refusal has a reason");
    require(
        std::all_of(message.begin(), message.end(), [](char c) { return c >= ' ' && c <= '~'; }),
        "a refusal is one printable line");
    return std::nullopt;
  }
}

void check(const config_tensor& tensor, std::int64_t least) {
  for (const auto extent : tensor.dims)
    require(extent >= least && extent != 0, "extents are positive, or -1 for any");
}

void check(std::string_view text, config_form form) {
  const auto config = config_of(text, form);
  if (!config) return;
  require(text.size() <= max_config_bytes, "configs are small");
  require(config->max_batch_size >= 0, "batches have no negative size");
  require(config->lanes >= 1 && config->lanes <= 64, "there are 1 to 64 lanes");
  for (const auto& tensor : config->inputs) check(tensor, -1);
  for (const auto& tensor : config->outputs) check(tensor, -1);
  for (const auto& run : config->warm_ups) {
    require((run.batch_size == 0) == (config->max_batch_size == 0),
            "runs have a batch axis if the model has one");
    require(run.batch_size <= config->max_batch_size, "a batch fits the model");
    require(run.count >= 1 && run.count <= 1'000, "there are 1 to 1000 runs");
    require(!run.inputs.empty(), "a run has inputs");
    for (const auto& input : run.inputs) check(input.tensor, 1);
  }
  const std::vector<std::uint64_t> available{1, 2, 3, 1'000};
  const auto chosen = chosen_versions(config->versions, available);
  require(std::includes(available.begin(), available.end(), chosen.begin(), chosen.end()),
          "the versions that are chosen are available ones");
  require(config_of(text, form) == config, "a text has one meaning");
}

}  // namespace
}  // namespace sluice::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  sluice::fuzz::check(text, data[0] == 't' ? sluice::service::config_form::toml
                                           : sluice::service::config_form::pbtxt);
  return 0;
}
