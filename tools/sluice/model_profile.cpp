// SPDX-License-Identifier: Apache-2.0
#include "tools/sluice/model_profile.hpp"

#include "tools/io/displayed.hpp"
#include "tools/sluice/model_tensors.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <random>
#include <string_view>
#include <utility>

namespace sluice::cli {

namespace {

constexpr const char* conditions =
    "Each step is run alone: no steps are fused, and none is captured.";

/// Runs of a step before those that are measured. They make its plan.
constexpr std::size_t runs_before_steps = 2;
/// Likewise of the program. After a few runs it may be captured.
constexpr std::size_t runs_before_program = 8;

double microseconds(std::chrono::nanoseconds time) {
  return std::chrono::duration<double, std::micro>(time).count();
}

spread measure_program(session& current, const model_program& compiled,
                       const std::vector<tensor>& inputs, std::size_t runs) {
  std::vector<double> figures;
  for (std::size_t i = 0; i < runs_before_program + runs; ++i) {
    sluice::run request{.what = compiled.program};
    for (const auto& x : inputs) request.inputs.emplace_back(x);
    (void)current.ask<tensors>(current.device().programs(), std::move(request));
    const auto time = microseconds(current.take_run_time());
    if (i >= runs_before_program) figures.push_back(time);
  }
  return spread_of(figures);
}

/// The times of each step. A value is freed after the last step that reads it.
std::vector<spread> measure_steps(session& current, const model_steps& steps,
                                  const std::vector<tensor>& inputs, std::size_t runs) {
  std::map<std::size_t, std::size_t> last_step;  // by value
  for (std::size_t i = 0; i < steps.steps.size(); ++i) {
    for (const auto value : steps.steps[i].outputs) last_step[value] = i;
    for (const auto value : steps.steps[i].inputs) last_step[value] = i;
  }
  std::vector<std::vector<double>> figures(steps.steps.size());
  for (std::size_t turn = 0; turn < runs_before_steps + runs; ++turn) {
    std::map<std::size_t, tensor> values;
    for (std::size_t i = 0; i < inputs.size(); ++i) values.emplace(i, inputs[i]);
    for (std::size_t i = 0; i < steps.steps.size(); ++i) {
      const auto& step = steps.steps[i];
      sluice::run request{.what = step.what};
      for (const auto value : step.inputs) request.inputs.emplace_back(values.at(value));
      auto results = current.ask<tensors>(current.device().programs(), std::move(request));
      const auto time = microseconds(current.take_run_time());
      if (turn >= runs_before_steps) figures[i].push_back(time);
      for (std::size_t k = 0; k < results.size(); ++k) values[step.outputs[k]] = results[k];
      for (const auto* const list : {&step.inputs, &step.outputs}) {
        for (const auto value : *list) {
          if (last_step.at(value) == i) values.erase(value);
        }
      }
    }
  }
  std::vector<spread> times;
  times.reserve(figures.size());
  for (const auto& list : figures) times.push_back(spread_of(list));
  return times;
}

/// The steps, the longest first.
std::vector<const step_times*> longest_first(const model_profile& profile) {
  std::vector<const step_times*> order;
  for (const auto& step : profile.steps) order.push_back(&step);
  std::stable_sort(order.begin(), order.end(),
                   [](const auto* a, const auto* b) { return a->times.median > b->times.median; });
  return order;
}

double share_of(const model_profile& profile, const step_times& step) {
  return profile.sum > 0 ? step.times.median / profile.sum : 0;
}

/// The name of a step, of which the beginning is left out if it is long.
std::string short_name(const step_times& step, std::size_t longest) {
  auto name = io::displayed(step.name);
  constexpr std::string_view dots = "...";
  if (name.size() > longest) name.replace(0, name.size() - longest + dots.size(), dots);
  return name;
}

/// "12.5 us", "3.21 ms"
std::string time_text(double us) {
  return us < 1000 ? fmt::format("{:.1f} us", us) : fmt::format("{:.2f} ms", us / 1000);
}

std::string head_text(const model_profile& profile) {
  return fmt::format("on {}, medians of {} runs, seed {}", profile.device, profile.options.runs,
                     profile.options.seed);
}

nlohmann::ordered_json json_of(const spread& times) {
  return {{"median_us", times.median}, {"low_us", times.low}, {"high_us", times.high}};
}

/// How the program was launched when it was measured last.
void add_form(model_profile& profile, session& current, const model_program& compiled,
              const std::vector<tensor>& inputs) {
  prepare description{.what = compiled.program};
  for (const auto& x : inputs) description.inputs.push_back(tensor_spec::of(x));
  const auto form = current.ask<prepared>(current.device().programs(), std::move(description));
  profile.fused_steps = form.fused_steps;
  if (!form.captured) {
    profile.not_captured =
        form.not_captured.empty() ? "it has not been captured yet" : form.not_captured;
  }
}

/// "with 31 fused steps, captured"
std::string form_text(const model_profile& profile) {
  return fmt::format(
      "with {} fused steps, {}", profile.fused_steps,
      profile.not_captured.empty() ? "captured" : "not captured: " + profile.not_captured);
}

}  // namespace

model_profile measure(session& current, const model& network, const model_program& compiled,
                      const named_tensors& inputs, const named_specs& specs,
                      const named_tensors& values, const model_options& making,
                      const profile_options& options) {
  require_memory_for("--profile", current, compiled, specs);
  // Without the executables of batches, which no run uses.
  auto alone = making;
  alone.max_in_batch = 1;
  const auto single = network.program_for(specs, values, alone);
  const auto steps = network.steps_for(specs, values, making);
  std::mt19937_64 generator(options.seed);
  const auto tensors = upload_tensors(current, input_tensors(compiled, inputs, specs, generator));
  model_profile profile{.device = current.device_name(), .options = options};
  // The first run has a thread compile the kernels for fused steps, if the device needs any.
  (void)measure_program(current, single, tensors, 1);
  const auto times = measure_steps(current, steps, tensors, options.runs);
  profile.program = measure_program(current, single, tensors, options.runs);
  add_form(profile, current, single, tensors);
  for (std::size_t i = 0; i < times.size(); ++i) {
    profile.steps.push_back({steps.steps[i].name, steps.steps[i].operation, times[i]});
    profile.sum += times[i].median;
  }
  return profile;
}

std::string profile_text(const model_profile& profile) {
  auto text = fmt::format("Profile {}\n  {}\n", head_text(profile), conditions);
  for (const auto* const step : longest_first(profile)) {
    text += fmt::format("  {:>10}  {:>5.1f} %  {} ({})\n", time_text(step->times.median),
                        100 * share_of(profile, *step), io::displayed(step->name), step->operation);
  }
  return text + fmt::format("  {:>10}  together\n  {:>10}  the program as one launch, {}\n",
                            time_text(profile.sum), time_text(profile.program.median),
                            form_text(profile));
}

nlohmann::ordered_json profile_json(const model_profile& profile) {
  auto steps = nlohmann::ordered_json::array();
  for (const auto& step : profile.steps) {
    nlohmann::ordered_json entry{{"name", step.name}, {"operation", step.operation}};
    entry.update(json_of(step.times));
    entry["share"] = share_of(profile, step);
    steps.push_back(std::move(entry));
  }
  return {{"device", profile.device},
          {"runs", profile.options.runs},
          {"seed", profile.options.seed},
          {"program", json_of(profile.program)},
          {"fused_steps", profile.fused_steps},
          {"not_captured", profile.not_captured},
          {"sum_us", profile.sum},
          {"steps", std::move(steps)}};
}

io::bar_chart profile_chart(const model_profile& profile, const std::string& path) {
  constexpr std::size_t most_rows = 30;
  constexpr std::size_t longest_label = 40;
  io::bar_panel panel{"Steps", {"time (us)"}, {}};
  const auto order = longest_first(profile);
  for (std::size_t i = 0; i < std::min(order.size(), most_rows); ++i) {
    const auto& step = *order[i];
    panel.rows.push_back(
        {.label = short_name(step, longest_label),
         .note = fmt::format("{}, {:.1f} %", step.operation, 100 * share_of(profile, step)),
         .bars = {{step.times.median, step.times.low, step.times.high}}});
  }
  std::vector<std::string> lines{head_text(profile), conditions,
                                 "Bars: medians. Lines: 5th to 95th percentile."};
  if (order.size() > most_rows)
    lines.push_back(fmt::format("The {} longest of {} steps.", most_rows, order.size()));
  return {.title = "sluice model: " + io::displayed(path),
          .lines = std::move(lines),
          .panels = {std::move(panel)}};
}

}  // namespace sluice::cli
