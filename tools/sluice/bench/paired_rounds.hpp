// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tools/sluice/bench/bench.hpp"
#include "tools/sluice/bench/disturbed_rounds.hpp"
#include "tools/sluice/bench/processors.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <sys/resource.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <numeric>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace sluice::cli {

/// Ways to do the same work, measured in turns: each round times all of them once in random order,
/// so that other load on the machine affects all alike. The ratios are those within a round.
class paired_rounds {
 public:
  static constexpr auto shortest = std::chrono::milliseconds(50);  // of one way in one round

  explicit paired_rounds(const bench_settings& settings)
      : rounds_(settings.rounds), conditions_(*settings.conditions) {}

  /// Adds a way that does `n` pieces of work in `run(n)`. `reference` is the number of the way to
  /// which its ratio is taken. Returns its own number. No two ways have the same name.
  std::size_t add(std::string name, std::function<void(std::int64_t n)> run,
                  std::size_t reference = 0) {
    ways_.push_back({std::move(name), std::move(run), reference});
    return ways_.size() - 1;
  }

  /// Takes the ratios of a way to another one, or to itself.
  void refer(std::size_t way, std::size_t reference) { ways_[way].reference = reference; }

  /// Shows the ratio of a way to `other`, too.
  void compare(std::size_t way, std::size_t other) { ways_[way].others.push_back(other); }

  /// Shows the mean size of the batches of a way. `measure` tells it, after the rounds.
  void show_batch(std::size_t way, std::function<double()> measure) {
    ways_[way].measure_batch = std::move(measure);
  }

  /// Measures all. Leaves out disturbed rounds.
  void measure() {
    // A second, or as long as the rounds.
    const auto warm_up = std::min<clock::duration>(std::chrono::seconds(1), rounds_ * shortest);
    const auto begun = clock::now();
    do {
      for (auto& way : ways_) {
        if (timed(way) < shortest) way.pieces *= 2;
      }
    } while (clock::now() - begun < warm_up);
    for (auto& way : ways_) {
      while (timed(way) < shortest) way.pieces *= 2;
    }
    conditions_.note();
    std::vector<std::size_t> order(ways_.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    round_sign switches{.slack = 2};
    for (int round = 0; round < rounds_; ++round) {
      std::shuffle(order.begin(), order.end(), random_);
      const pinned_client here(0);
      const auto switches_before = involuntary_switches();
      for (const auto i : order) {
        auto& way = ways_[i];
        const std::chrono::duration<double> took = timed(way);
        way.rates.push_back(static_cast<double>(way.pieces) / took.count());
      }
      switches.of_round.push_back(static_cast<double>(involuntary_switches() - switches_before));
      conditions_.note();
    }
    leave_out_disturbed(std::move(switches));
    for (auto& way : ways_) {
      if (way.measure_batch) way.batch = way.measure_batch();
    }
  }

  /// The median and the 5th and 95th percentile of a figure of each round.
  struct spread {
    double median = 0;
    double low = 0;
    double high = 0;
  };
  /// The pieces of work per second.
  [[nodiscard]] spread rate(std::size_t way) const { return spread_of(ways_[way].rates); }
  /// How many times as fast as its reference.
  [[nodiscard]] spread ratio(std::size_t way) const { return ratio(way, ways_[way].reference); }
  /// How many times as fast as `reference`.
  [[nodiscard]] spread ratio(std::size_t way, std::size_t reference) const {
    std::vector<double> all;
    for (std::size_t i = 0; i < ways_[way].rates.size(); ++i) {
      all.push_back(ways_[way].rates[i] / ways_[reference].rates[i]);
    }
    return spread_of(std::move(all));
  }

  /// The microseconds of a piece of work.
  [[nodiscard]] spread took(std::size_t way) const { return of_inverse(1e6, rate(way)); }
  /// How many times as long as its reference.
  [[nodiscard]] spread slower(std::size_t way) const { return of_inverse(1, ratio(way)); }

  [[nodiscard]] nlohmann::ordered_json json() const {
    auto all = nlohmann::ordered_json::array();
    for (std::size_t i = 0; i < ways_.size(); ++i) {
      nlohmann::ordered_json way = {
          {"name", ways_[i].name},          {"reference", ways_[ways_[i].reference].name},
          {"per_second", json_of(rate(i))}, {"us", json_of(took(i))},
          {"ratio", json_of(ratio(i))},     {"time_ratio", json_of(slower(i))}};
      if (ways_[i].batch != 0) way["mean_batch"] = ways_[i].batch;
      for (const auto other : ways_[i].others) {
        const auto found = ratio(i, other);
        way["beside"].push_back({{"name", ways_[other].name},
                                 {"ratio", json_of(found)},
                                 {"time_ratio", json_of(of_inverse(1, found))}});
      }
      all.push_back(std::move(way));
    }
    return all;
  }
  /// Rates in a unit of so many pieces a second, and how many times as fast each way is.
  [[nodiscard]] std::string table(const std::string& unit = "thousands a second",
                                  double pieces = 1e3) const {
    std::string text = line(what_is_shown, unit, "times as fast");
    for (std::size_t i = 0; i < ways_.size(); ++i) {
      text += line(ways_[i].name, text_of(rate(i), 1 / pieces), text_of(ratio(i)));
      text += reference_of(i);
      if (ways_[i].batch != 0) text += line("    mean batch", text_of(ways_[i].batch), "");
      for (const auto other : ways_[i].others) {
        text += line("    beside " + ways_[other].name, "", text_of(ratio(i, other)));
      }
    }
    return text;
  }
  /// Times, and how many times as long each way takes.
  [[nodiscard]] std::string table_of_times() const {
    std::string text = line(what_is_shown, "us each", "times as long");
    for (std::size_t i = 0; i < ways_.size(); ++i) {
      text += line(ways_[i].name, text_of(took(i)), text_of(slower(i)));
      text += reference_of(i);
      for (const auto other : ways_[i].others) {
        text +=
            line("    beside " + ways_[other].name, "", text_of(of_inverse(1, ratio(i, other))));
      }
    }
    return text;
  }

 private:
  static constexpr auto what_is_shown = "median (5th - 95th percentile) of the rounds";

  struct way_of_work {
    std::string name;
    std::function<void(std::int64_t)> run;
    std::size_t reference = 0;
    std::vector<std::size_t> others{};
    std::int64_t pieces = 32;
    std::vector<double> rates{};
    std::function<double()> measure_batch{};
    double batch = 0;
  };

  /// How often the kernel has taken the processor from this thread.
  [[nodiscard]] static long involuntary_switches() {
    rusage used{};
    (void)::getrusage(RUSAGE_THREAD, &used);
    return used.ru_nivcsw;
  }
  /// Signs of a disturbed round are the times of the references and the switches.
  void leave_out_disturbed(round_sign switches) {
    std::vector<round_sign> signs{std::move(switches)};
    for (std::size_t i = 0; i < ways_.size(); ++i) {
      if (ways_[i].reference != i) continue;
      auto& times = signs.emplace_back().of_round;
      for (const double rate : ways_[i].rates) times.push_back(1 / rate);
    }
    const auto rounds = static_cast<std::size_t>(rounds_);
    const auto disturbed = disturbed_rounds(rounds, signs);
    for (auto& way : ways_) {
      auto at = disturbed.begin();
      std::erase_if(way.rates, [&](double) { return *at++; });
    }
    conditions_.note_rounds(
        rounds, static_cast<std::size_t>(std::count(disturbed.begin(), disturbed.end(), true)));
  }

  /// A line that names the reference of a way. Empty if that is the first way, or the way itself.
  [[nodiscard]] std::string reference_of(std::size_t way) const {
    const auto reference = ways_[way].reference;
    if (reference == 0 || reference == way) return {};
    return fmt::format("      ratio to {}\n", ways_[reference].name);
  }
  [[nodiscard]] static clock::duration timed(const way_of_work& way) {
    const auto begun = clock::now();
    way.run(way.pieces);
    return clock::now() - begun;
  }
  [[nodiscard]] static spread spread_of(std::vector<double> all) {
    std::sort(all.begin(), all.end());
    const auto at = [&](double part) {
      const double place = part * static_cast<double>(all.size() - 1);
      return all[static_cast<std::size_t>(std::lround(place))];
    };
    return {median_of(all), at(0.05), at(0.95)};
  }
  [[nodiscard]] static spread of_inverse(double dividend, const spread& s) {
    return {dividend / s.median, dividend / s.high, dividend / s.low};
  }
  [[nodiscard]] static std::string line(const std::string& name, const std::string& first,
                                        const std::string& second) {
    return fmt::format("  {:<52}  {:>24}  {:>20}\n", name, first, second);
  }
  /// With three digits, or all of those before the point.
  [[nodiscard]] static std::string text_of(double value) {
    const int digits = value >= 100 ? 0 : value >= 10 ? 1 : value >= 1 ? 2 : 3;
    return fmt::format("{:.{}f}", value, digits);
  }
  [[nodiscard]] static std::string text_of(const spread& s, double unit = 1) {
    return fmt::format("{} ({} - {})", text_of(s.median * unit), text_of(s.low * unit),
                       text_of(s.high * unit));
  }
  [[nodiscard]] static nlohmann::ordered_json json_of(const spread& s) {
    return {{"median", s.median}, {"p5", s.low}, {"p95", s.high}};
  }

  int rounds_;
  bench_conditions& conditions_;
  std::vector<way_of_work> ways_;
  std::mt19937_64 random_{std::random_device()()};
};

}  // namespace sluice::cli
