// SPDX-License-Identifier: Apache-2.0
#include "tools/sluice/trace_picture.hpp"

#include <sluice/runtime/error.hpp>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace sluice::cli {

namespace {

using nlohmann::json;

constexpr std::size_t shown_launches = 8;

struct traced_box {
  std::pair<int, std::size_t> track;  // process and thread of the format
  std::string name;
  double begin = 0;  // in seconds
  double end = 0;
  std::size_t members = 1;
  std::size_t batch = 1;
  std::vector<io::timeline_span> steps{};
};

traced_box box_of(const json& event) {
  const double begin = event.at("ts").get<double>() * 1e-6;
  return {.track = {event.at("pid").get<int>(), event.at("tid").get<std::size_t>()},
          .name = event.at("args").value("operation", event.at("name").get<std::string>()),
          .begin = begin,
          .end = begin + event.at("dur").get<double>() * 1e-6,
          .batch = event.at("args").value("batch", std::size_t{1})};
}

/// The launches in the order of their begins. A member of a batch that has no time of its own
/// counts as a member of the one before it.
std::vector<traced_box> launches_of(const json& events) {
  std::vector<traced_box> launches;
  std::map<std::pair<int, std::size_t>, std::size_t> last_of_track;
  for (const auto& event : events) {
    const auto category = event.value("cat", "");
    if (category != "launch" && category != "step") continue;
    auto box = box_of(event);
    const auto last = last_of_track.find(box.track);
    auto* const previous = last == last_of_track.end() ? nullptr : &launches[last->second];
    if (category == "step") {
      if (previous != nullptr) previous->steps.push_back({std::move(box.name), box.begin, box.end});
    } else if (previous != nullptr && box.batch > 1 && box.end <= previous->end) {
      ++previous->members;
    } else {
      last_of_track[box.track] = launches.size();
      launches.push_back(std::move(box));
    }
  }
  std::ranges::sort(launches, {}, &traced_box::begin);
  return launches;
}

}  // namespace

io::timeline_view trace_part(std::string_view text) {
  const auto trace = json::parse(text);
  const auto& events = trace.is_object() ? trace.at("traceEvents") : trace;
  auto launches = launches_of(events);
  if (launches.empty()) throw error(errc::invalid_argument, "--trace: there was no launch to draw");

  const auto largest = std::ranges::max_element(launches, {}, &traced_box::batch);
  const auto count = std::min(launches.size(), shown_launches);
  auto first = static_cast<std::size_t>(largest - launches.begin());
  if (largest->batch == 1) first = launches.size();
  first = std::min(first, launches.size() - count);

  std::map<std::pair<int, std::size_t>, std::pair<io::timeline_row, io::timeline_row>> tracks;
  for (auto i = first; i < first + count; ++i) {
    auto& launch = launches[i];
    auto& [row, steps] = tracks[launch.track];
    auto label = launch.members == 1 ? std::move(launch.name)
                                     : fmt::format("{} x {}", launch.members, launch.name);
    row.spans.push_back({std::move(label), launch.begin, launch.end});
    std::ranges::move(launch.steps, std::back_inserter(steps.spans));
  }
  io::timeline_view view{fmt::format("{} of {} launches", count, launches.size()), {}};
  for (auto& [track, rows] : tracks) {
    rows.first.label = fmt::format("stream {}", track.second);
    rows.second.label = "its steps";
    view.rows.push_back(std::move(rows.first));
    if (!rows.second.spans.empty()) view.rows.push_back(std::move(rows.second));
  }
  return view;
}

}  // namespace sluice::cli
