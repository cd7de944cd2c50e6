// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tools/sluice/bench/bench.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <random>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace sluice::cli {

/// Work in pieces whose time is measured.
class timed_work {
 public:
  /// `run(n)` does `n` pieces. If it returns a duration, this is the time of the work; otherwise it
  /// is the time of the call.
  template <class Run>
  timed_work(Run run) {  // NOLINT(google-explicit-constructor)
    if constexpr (std::is_void_v<std::invoke_result_t<Run&, std::int64_t>>) {
      run_ = [run = std::move(run)](std::int64_t n) mutable {
        const auto begun = clock::now();
        run(n);
        return clock::now() - begun;
      };
    } else {
      run_ = std::move(run);
    }
  }
  [[nodiscard]] clock::duration operator()(std::int64_t n) const { return run_(n); }

 private:
  std::function<clock::duration(std::int64_t)> run_;
};

/// A way to do the work of a section.
struct way_of_work {
  std::string name;
  timed_work run;
  std::size_t reference = 0;             ///< the number of the way to which its ratio is taken
  std::vector<std::size_t> beside{};     ///< further ones
  std::function<double()> mean_batch{};  ///< if given, counts the batches after the rounds
};

/// Ways to do the same work, measured in turns: each round times all of them once in random order,
/// so that other load on the machine affects all alike. The ratios are those within a round.
class paired_rounds {
 public:
  static constexpr auto shortest = std::chrono::milliseconds(50);  // of one way in one round

  /// The section `path` of the report.
  paired_rounds(bench_run& run, std::string path, std::string title,
                shown_figure shown = shown_rates)
      : run_(run), section_{std::move(path), std::move(title), shown} {}

  /// Add a way, and return its number: 0 for the first one. No two ways have the same name.
  ///@{
  std::size_t add(way_of_work way) {
    ways_.push_back({std::move(way)});
    return ways_.size() - 1;
  }
  std::size_t add(std::string name, timed_work run, std::size_t reference = 0) {
    return add(way_of_work{std::move(name), std::move(run), reference});
  }
  /// A way that is its own reference.
  std::size_t add_reference(std::string name, timed_work run) {
    return add(std::move(name), std::move(run), ways_.size());
  }
  ///@}

  /// Measures all ways, leaves out disturbed rounds, and adds the section to the report.
  void measure();

 private:
  struct measured_way {
    way_of_work way;
    std::int64_t pieces = 32;
    std::vector<double> rates{};  // of each round

    [[nodiscard]] clock::duration timed() const { return way.run(pieces); }
  };

  void warm_up();
  /// Returns how often the kernel took the processor from this thread.
  double measure_round();
  void leave_out_disturbed(std::vector<double> switches);
  [[nodiscard]] comparison compare(const measured_way& way, std::size_t other) const;

  bench_run& run_;
  report_section section_;
  std::vector<measured_way> ways_;
  std::mt19937_64 random_{std::random_device()()};
};

}  // namespace sluice::cli
