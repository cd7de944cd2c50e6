// SPDX-License-Identifier: Apache-2.0
#include "tools/sluice/bench/conditions.hpp"

#include "tools/sluice/bench/processors.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <fstream>

namespace sluice::cli {
namespace {

/// The threads of the process, from Linux.
std::size_t threads_of_process() {
  std::ifstream lines("/proc/self/status");
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("Threads:")) return std::stoul(line.substr(line.find(':') + 1));
  }
  return 0;
}

}  // namespace

void bench_conditions::note() {
  threads_ = std::max(threads_, threads_of_process());
  if (const auto now = clock_.read()) {
    if (!first_megahertz_) first_megahertz_ = now->megahertz;
    last_megahertz_ = now->megahertz;
    reasons_ |= now->reasons;
  }
}

nlohmann::ordered_json bench_conditions::json() const {
  nlohmann::ordered_json all = {{"threads", threads_},
                                {"processors", processors_of_process().size()},
                                {"pinned", pinned_client::enabled()},
                                {"rounds", {{"measured", rounds_}}}};
  if (disturbed_) all["rounds"]["disturbed"] = *disturbed_;
  if (first_megahertz_) {
    all["sm_clock"] = {{"megahertz_before", *first_megahertz_},
                       {"megahertz_after", last_megahertz_},
                       {"throttled_by", sm_clock::throttling(reasons_)}};
  }
  return all;
}

std::string bench_conditions::text() const {
  auto text = fmt::format("  threads of the process: {}; processors: {}{}\n", threads_,
                          processors_of_process().size(),
                          pinned_client::enabled() ? "; clients are pinned" : "");
  text +=
      disturbed_
          ? fmt::format("  rounds of all sections: {}, of which {} were disturbed and left out\n",
                        rounds_, *disturbed_)
          : fmt::format("  rounds: {}, none of which is left out\n", rounds_);
  if (first_megahertz_) {
    const auto reasons = sm_clock::throttling(reasons_);
    text += fmt::format("  SM clock: {} MHz before, {} MHz after; throttled by: {}\n",
                        *first_megahertz_, last_megahertz_,
                        reasons.empty() ? "nothing" : fmt::format("{}", fmt::join(reasons, ", ")));
  }
  return text;
}

}  // namespace sluice::cli
