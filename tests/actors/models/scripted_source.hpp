// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/operations/binary.hpp>
#include <sluice/operations/model_source.hpp>
#include <sluice/operations/program.hpp>

#include <condition_variable>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace sluice::test {

/// A model with the input x, of any shape, and the outputs product = factor · x and sum = factor +
/// x. The factor is a number of the source, or the only element of an input of this name, which
/// must be known. A test holds programs back, counts them and lets them fail.
class scripted_source final : public model_source {
 public:
  /// A model with this factor; nothing: it has an input.
  explicit scripted_source(std::optional<float> factor)
      : factor_(factor), inputs_{{.name = "x", .type = element_type::f32}} {
    if (!factor) {
      inputs_.push_back({.name = "factor",
                         .type = element_type::f32,
                         .shape = std::vector<model_dimension>{{.extent = 1}}});
    }
  }

  [[nodiscard]] const std::vector<model_value>& inputs() const noexcept override { return inputs_; }
  [[nodiscard]] const std::vector<model_value>& outputs() const noexcept override {
    return outputs_;
  }
  [[nodiscard]] model_program program_for(const std::map<std::string, tensor_spec>& specs,
                                          const std::map<std::string, host_tensor>& values,
                                          const model_options& /*options*/) const override {
    const auto& x = specs.at("x");
    follow_script(x.shape);
    if (!factor_ && !values.contains("factor")) {
      throw unbound_inputs("the factor must be known", {"factor"});
    }
    const double factor = factor_ ? *factor_ : values.at("factor").to_vector<float>().front();
    program_builder p;
    const auto value = p.input("x", x.type, x.shape);
    const auto product = p.add("product", multiply(value, factor));
    const auto sum = p.add("sum", add(value, factor));
    return {.program = std::move(p).build({product, sum}),
            .inputs = {"x"},
            .outputs = {"product", "sum"},
            .results = {x, x}};
  }

  /// Programs for x of this shape are made from now on only after `open(shape)`.
  void hold(const extents& shape) { set_held(shape, true); }
  void open(const extents& shape) { set_held(shape, false); }
  /// The next program fails with `code`.
  void fail(errc code) {
    const std::lock_guard lock(mutex_);
    failure_ = code;
  }
  /// How often the making of a program for this shape has begun.
  [[nodiscard]] int begun(const extents& shape) const {
    const std::lock_guard lock(mutex_);
    return begun_[to_string(shape)];
  }
  /// How often that of any program has.
  [[nodiscard]] int begun() const {
    const std::lock_guard lock(mutex_);
    int sum = 0;
    for (const auto& [shape, count] : begun_) sum += count;
    return sum;
  }
  void await_begun(const extents& shape) const {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return begun_[to_string(shape)] > 0; });
  }

 private:
  void set_held(const extents& shape, bool is_held) {
    const std::lock_guard lock(mutex_);
    held_[to_string(shape)] = is_held;
    changed_.notify_all();
  }
  void follow_script(const extents& shape) const {
    std::unique_lock lock(mutex_);
    ++begun_[to_string(shape)];
    changed_.notify_all();
    changed_.wait(lock, [&] { return !held_[to_string(shape)]; });
    if (const auto code = std::exchange(failure_, std::nullopt)) throw error(*code, "scripted");
  }

  const std::optional<float> factor_;
  std::vector<model_value> inputs_;
  const std::vector<model_value> outputs_{{.name = "product"}, {.name = "sum"}};
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  mutable std::map<std::string, bool> held_;
  mutable std::map<std::string, int> begun_;
  mutable std::optional<errc> failure_;
};

}  // namespace sluice::test
