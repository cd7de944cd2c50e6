// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tests/models/onnx_graph.hpp"

#include <sluice/runtime/extents.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <initializer_list>
#include <map>
#include <random>
#include <span>
#include <string>
#include <vector>

namespace sluice::test {

/// A value of a graph that is being written.
struct drawn_value {
  std::string name;
  std::vector<std::int64_t> shape;
};

/// Writes random graphs. Extents are small, so that many of them are equal by chance.
class graph_writer {
 public:
  using integers = std::vector<std::int64_t>;

  explicit graph_writer(std::mt19937_64& generator) : generator_(generator) {
    const auto batch = between(1, 2);
    for (auto inputs = between(1, 2); inputs > 0; --inputs) {
      integers shape;
      for (auto rank = between(1, 4); rank > 0; --rank) shape.push_back(between(1, 4));
      shape[static_cast<std::size_t>(draw(static_cast<std::int64_t>(shape.size())))] = batch;
      if (coin()) shape[0] = batch;
      const auto& name = name_of("x");
      graph_.input(name.c_str());
      inputs_.emplace(name, extents(std::span<const std::int64_t>(shape)));
      values_.push_back({name, shape});
    }
  }

  void write() {
    const auto most = between(2, 7);
    for (int tries = 0; nodes_ < most && tries < 60; ++tries) add_node();
    const auto last = values_.back().name;
    graph_.output(last.c_str());
    if (coin()) {
      const auto& other = any();
      const bool is_node = !inputs_.contains(other.name) && other.name != last;
      if (is_node) graph_.output(other.name.c_str());
    }
  }
  [[nodiscard]] const onnx_graph& graph() const { return graph_; }
  [[nodiscard]] const std::map<std::string, extents>& inputs() const { return inputs_; }
  [[nodiscard]] const std::string& text() const { return text_; }

 private:
  std::int64_t between(std::int64_t least, std::int64_t most) {
    return std::uniform_int_distribution<std::int64_t>(least, most)(generator_);
  }
  std::int64_t draw(std::int64_t count) { return between(0, count - 1); }
  bool coin() { return between(0, 1) == 1; }
  const std::string& name_of(const char* prefix) {
    return names_.emplace_back(prefix + std::to_string(names_.size()));
  }
  /// Late values more often than early ones.
  const drawn_value& any() {
    const auto count = static_cast<std::int64_t>(values_.size());
    return values_[static_cast<std::size_t>(std::max(draw(count), draw(count)))];
  }
  std::size_t axis_of(const drawn_value& x) {
    return static_cast<std::size_t>(draw(static_cast<std::int64_t>(x.shape.size())));
  }
  static std::int64_t product(const integers& shape) {
    std::int64_t product = 1;
    for (const auto extent : shape) product *= extent;
    return product;
  }
  const char* constant(const integers& shape) {
    std::vector<float> values(static_cast<std::size_t>(product(shape)));
    for (auto& value : values) value = static_cast<float>(between(-8, 8)) / 4;
    const auto& name = name_of("c");
    graph_.constant(name.c_str(), values, shape);
    return name.c_str();
  }
  const char* constant_integers(const integers& values) {
    const auto& name = name_of("i");
    graph_.constant(name.c_str(), values);
    return name.c_str();
  }
  /// Indices of this shape below `extent`.
  const char* indices(const integers& shape, std::int64_t extent) {
    integers values;
    for (std::int64_t i = 0; i < product(shape); ++i) values.push_back(draw(extent));
    const auto* const flat = constant_integers(values);
    const auto& name = name_of("i");
    graph_.node("Reshape", {flat, constant_integers(shape)}, {name.c_str()});
    return name.c_str();
  }
  /// Indices below `extent` that depend on a value, with its shape.
  const char* indices_of(const drawn_value& y, std::int64_t extent) {
    const auto& scaled = name_of("i");
    const auto& positive = name_of("i");
    const auto& bounded = name_of("i");
    const auto& indices = name_of("i");
    const auto& factor = name_of("c");
    graph_.constant(factor.c_str(), {3}, {})
        .node("Mul", {names_of_value(y), factor.c_str()}, {scaled.c_str()});
    graph_.node("Abs", {scaled.c_str()}, {positive.c_str()});
    const auto& least = name_of("c");
    const auto& most = name_of("c");
    graph_.constant(least.c_str(), {0}, {});
    graph_.constant(most.c_str(), {static_cast<float>(extent - 1)}, {});
    graph_.node("Clip", {positive.c_str(), least.c_str(), most.c_str()}, {bounded.c_str()});
    graph_.node("Cast", {bounded.c_str()}, {indices.c_str()}).with("to", 7);
    return indices.c_str();
  }
  onnx_node node(const char* type, std::initializer_list<const char*> inputs,
                 const integers& shape) {
    const auto& name = name_of("y");
    values_.push_back({name, shape});
    ++nodes_;
    text_ += name + " = " + type + "(";
    for (const auto* input : inputs) text_ += std::string(input) + ' ';
    text_ += ")\n";
    return graph_.node(type, inputs, {name.c_str()});
  }

  void add_node() {
    const auto x = any();
    const auto* const from = names_of_value(x);
    const auto rank = x.shape.size();
    if (rank == 0 || product(x.shape) > 400) return;
    const auto axis = axis_of(x);
    const auto number = static_cast<std::int64_t>(axis);
    auto shape = x.shape;
    switch (draw(29)) {
      case 0:
        node(coin() ? "Sigmoid" : "Neg", {from}, shape);
        break;
      case 1:
        node("Softmax", {from}, shape).with("axis", number);
        break;
      case 2:
        node("LayerNormalization", {from, constant({shape.begin() + number, shape.end()})}, shape)
            .with("axis", number);
        break;
      case 3: {
        const auto& sum = name_of("i");
        graph_.number(sum.c_str(), number);
        node("CumSum", {from, sum.c_str()}, shape).with("reverse", draw(2));
        break;
      }
      case 4: {  // with another value that fits
        const auto y = any();
        if (y.shape != shape && product(y.shape) != 1) return;
        if (y.shape.size() > rank) return;
        node(coin() ? "Add" : "Mul", {from, names_of_value(y)}, shape);
        break;
      }
      case 5: {
        auto other = shape;
        for (auto& extent : other) {
          if (coin()) extent = 1;
        }
        if (coin()) other.erase(other.begin());
        node(coin() ? "Add" : "Max", {from, constant(other)}, shape);
        break;
      }
      case 6:
      case 7: {
        integers order(rank);
        for (std::size_t d = 0; d < rank; ++d) order[d] = static_cast<std::int64_t>(d);
        std::shuffle(order.begin(), order.end(), generator_);
        integers turned;
        for (const auto d : order) turned.push_back(shape[static_cast<std::size_t>(d)]);
        node("Transpose", {from}, turned).with("perm", order);
        break;
      }
      case 8:
      case 9: {  // neighbours merged, or one dimension parted
        auto target = shape;
        if (coin() && axis + 1 < rank) {
          target[axis] *= target[axis + 1];
          target.erase(target.begin() + number + 1);
        } else {
          const auto parts = std::max<std::int64_t>(1, shape[axis] % 2 == 0 ? 2 : shape[axis]);
          target[axis] = shape[axis] / parts;
          target.insert(target.begin() + number + draw(2), parts);
        }
        auto stated = target;
        if (coin())
          stated[static_cast<std::size_t>(draw(static_cast<std::int64_t>(stated.size())))] = -1;
        node("Reshape", {from, constant_integers(stated)}, target);
        break;
      }
      case 10: {  // any shape of as many elements
        std::shuffle(shape.begin(), shape.end(), generator_);
        node("Reshape", {from, constant_integers(shape)}, shape);
        break;
      }
      case 11: {
        const bool keeps = coin();
        if (keeps) {
          shape[axis] = 1;
        } else {
          shape.erase(shape.begin() + number);
        }
        node(coin() ? "ReduceMean" : "ReduceMax", {from}, shape)
            .with("axes", integers{number})
            .with("keepdims", keeps ? 1 : 0);
        break;
      }
      case 12: {
        integers index_shape{between(1, 3)};
        if (coin()) index_shape.push_back(between(1, 2));
        auto result = x.shape;
        const auto extent = result[axis];
        result.erase(result.begin() + number);
        result.insert(result.begin() + number, index_shape.begin(), index_shape.end());
        if (result.size() > 5) return;
        node("Gather", {from, indices(index_shape, extent)}, result).with("axis", number);
        break;
      }
      case 13: {
        auto index_shape = shape;
        for (auto& extent : index_shape) extent = coin() ? extent : between(1, extent);
        index_shape[axis] = between(1, 4);
        node("GatherElements", {from, indices(index_shape, shape[axis])}, index_shape)
            .with("axis", number);
        break;
      }
      case 14: {
        const auto step = coin() ? between(1, 2) : -between(1, 2);
        const auto extent = shape[axis];
        const auto start = step > 0 ? draw(extent) : extent - 1;
        const auto end = step > 0 ? extent : -extent - 1;
        shape[axis] = step > 0 ? (extent - start + step - 1) / step : (extent - step - 1) / -step;
        node("Slice",
             {from, constant_integers({start}), constant_integers({end}),
              constant_integers({number}), constant_integers({step})},
             shape);
        break;
      }
      case 15: {
        const auto y = any();
        auto expected = y.shape;
        if (expected.size() != rank) return;
        expected[axis] = shape[axis];
        if (expected != shape) return;
        shape[axis] += y.shape[axis];
        node("Concat", {from, names_of_value(y)}, shape).with("axis", number);
        break;
      }
      case 16: {
        auto other = shape;
        other[axis] = between(1, 2);
        shape[axis] += other[axis];
        node("Concat", {from, constant(other)}, shape).with("axis", number);
        break;
      }
      case 17: {
        if (rank < 2) return;
        const auto columns = between(1, 3);
        const auto* const w = constant({shape.back(), columns});
        shape.back() = columns;
        node("MatMul", {from, w}, shape);
        break;
      }
      case 18: {  // of two values
        const auto y = any();
        if (rank < 2 || y.shape.size() != 2 || y.shape[0] != shape.back()) return;
        shape.back() = y.shape[1];
        node("MatMul", {from, names_of_value(y)}, shape);
        break;
      }
      case 19: {
        integers pads(2 * rank, 0);
        pads[axis] = draw(2);
        pads[axis + rank] = draw(2);
        shape[axis] += pads[axis] + pads[axis + rank];
        node("Pad", {from, constant_integers(pads)}, shape);
        break;
      }
      case 20: {
        integers repeats(rank, 1);
        repeats[axis] = between(1, 2);
        shape[axis] *= repeats[axis];
        node("Tile", {from, constant_integers(repeats)}, shape);
        break;
      }
      case 21: {
        for (auto& extent : shape) {
          if (extent == 1 && coin()) extent = between(1, 3);
        }
        node("Expand", {from, constant_integers(shape)}, shape);
        break;
      }
      case 22: {
        if (rank == 5) return;
        shape.insert(shape.begin() + number, 1);
        node("Unsqueeze", {from, constant_integers({number})}, shape);
        break;
      }
      case 23: {
        if (shape[axis] != 1) return;
        shape.erase(shape.begin() + number);
        node("Squeeze", {from, constant_integers({number})}, shape);
        break;
      }
      case 24: {
        const auto y = any();
        if (y.shape.size() != rank) return;
        for (std::size_t d = 0; d < rank; ++d) {
          if (d != axis && y.shape[d] > shape[d]) return;
        }
        node("ScatterElements", {from, indices(y.shape, shape[axis]), names_of_value(y)}, shape)
            .with("axis", number)
            .with("reduction", "add");
        break;
      }
      case 25: {
        const auto& extents_name = name_of("s");
        graph_.node("Shape", {from}, {extents_name.c_str()});
        const auto& zeros = name_of("z");
        graph_.node("ConstantOfShape", {extents_name.c_str()}, {zeros.c_str()});
        node("Sub", {from, zeros.c_str()}, shape);
        break;
      }
      case 26:
      case 27: {  // indices that depend on the request
        const auto y = any();
        const auto* const wanted = indices_of(y, shape[axis]);
        if (y.shape.size() == rank && coin()) {
          for (std::size_t d = 0; d < rank; ++d) {
            if (d != axis && y.shape[d] > shape[d]) return;
          }
          node("GatherElements", {from, wanted}, y.shape).with("axis", number);
        } else {
          shape.erase(shape.begin() + number);
          shape.insert(shape.begin() + number, y.shape.begin(), y.shape.end());
          if (shape.size() > 5) return;
          node("Gather", {from, wanted}, shape).with("axis", number);
        }
        break;
      }
      default: {
        if (rank != 3) return;
        const auto filters = between(1, 3);
        const auto* const w = constant({filters, shape[1], 1});
        shape[1] = filters;
        node("Conv", {from, w}, shape);
        break;
      }
    }
  }
  /// The name, for as long as the graph is written.
  const char* names_of_value(const drawn_value& x) {
    return std::find(names_.begin(), names_.end(), x.name)->c_str();
  }

  std::mt19937_64& generator_;
  onnx_graph graph_;
  std::deque<std::string> names_;
  std::map<std::string, extents> inputs_;
  std::vector<drawn_value> values_;
  std::int64_t nodes_ = 0;
  std::string text_;
};

}  // namespace sluice::test
