// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tests/envelope/launches.hpp"

#include <sluice/envelope/chrome_trace.hpp>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <memory>
#include <string>
#include <vector>

namespace sluice::test {

using nlohmann::json;

/// The trace's events of one category, or its metadata ("M").
inline std::vector<json> events_of(const json& trace, const std::string& category) {
  std::vector<json> found;
  for (const auto& event : trace.at("traceEvents")) {
    if (category == "M" ? event.at("ph") == "M" : event.value("cat", "") == category) {
      found.push_back(event);
    }
  }
  return found;
}

class chrome_trace_test : public testing::Test {
 protected:
  std::shared_ptr<device_service> service_ = std::make_shared<device_service>("host");

  /// The names of the launches, in order.
  static std::vector<std::string> launches_of(const chrome_trace& trace) {
    std::vector<std::string> names;
    for (const auto& slice : events_of(json::parse(trace.json()), "launch")) {
      names.push_back(slice.at("name"));
    }
    return names;
  }

  void launch(lane& test_lane, const std::shared_ptr<kernel_trace>& trace,
              const std::string& operation, const std::string& label = {}, bool fails = false) {
    kernel_envelope envelope(
        {.library = "tests", .operation = operation, .type = element_type::f64});
    envelope.trace(trace).nvtx_label(label);
    mailbox<int> box;
    envelope.run(test_lane, operands(), box.token(), 0, {.sizes = {1, 2, 3, 0}},
                 [&](const launch_context&) {
                   if (fails) throw error(errc::unsupported, "no");
                 });
    (void)box.wait();
  }
};

}  // namespace sluice::test
