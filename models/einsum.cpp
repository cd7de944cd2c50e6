// SPDX-License-Identifier: Apache-2.0
#include "models/einsum.hpp"

#include "models/products.hpp"

#include <sluice/operations/binary.hpp>
#include <sluice/operations/elementwise.hpp>
#include <sluice/operations/reduce.hpp>

#include <algorithm>
#include <cctype>
#include <map>
#include <optional>

namespace sluice::models {

namespace {

/// A label for each dimension: letters, and for the dimensions of an ellipsis digits, of which the
/// last dimension has '0'.
using labels = std::string;

struct labelled {
  value x;
  labels dimensions;
};

bool is_letter(char c) {
  return std::isalpha(static_cast<unsigned char>(c)) != 0;
}

labels expand(const node& n, const std::string& term, std::size_t rank) {
  labels result;
  const auto letters = static_cast<std::size_t>(std::count_if(term.begin(), term.end(), is_letter));
  for (std::size_t i = 0; i < term.size(); ++i) {
    if (term[i] == '.') {
      if (term.substr(i, 3) != "..." || letters > rank) {
        throw n.refusal("equation", "has the term '" + term + "'");
      }
      for (auto hidden = rank - letters; hidden-- > 0;) result += static_cast<char>('0' + hidden);
      i += 2;
    } else if (is_letter(term[i])) {
      result += term[i];
    } else {
      throw n.refusal("equation", "has the term '" + term + "'");
    }
  }
  if (result.size() != rank) throw n.refusal("equation", "'" + term + "' does not fit an operand");
  return result;
}

/// The elements whose indices of a repeated label are equal.
labelled take_diagonals(const node& n, labelled operand) {
  auto& [x, dimensions] = operand;
  for (std::size_t i = 0; i < dimensions.size(); ++i) {
    const auto j = dimensions.find(dimensions[i], i + 1);
    if (j == labels::npos) continue;
    const auto extent = x.extent(i);
    if (x.extent(j) != extent) {
      throw n.refusal("equation", std::string("'") + dimensions[i] + "' has two extents in a term");
    }
    extents order;
    for (std::size_t d = 0; d < x.rank(); ++d) {
      if (d != i && d != j) order.push_back(static_cast<std::int64_t>(d));
    }
    order.push_back(static_cast<std::int64_t>(i));
    order.push_back(static_cast<std::int64_t>(j));
    x = x.permute(order);
    extents flat;
    for (std::size_t d = 0; d + 2 < x.rank(); ++d) flat.push_back(x.extent(d));
    flat.push_back(extent * extent);
    x = x.reshape(flat);
    x = x.slice(x.rank() - 1, 0, extent * extent, extent + 1);
    const char label = dimensions[i];
    dimensions.erase(j, 1);
    dimensions.erase(i, 1);
    dimensions += label;
    return take_diagonals(n, std::move(operand));
  }
  return operand;
}

/// Gives each label one extent. A dimension of extent 1 is left out where the label has another
/// extent in another term: its elements are repeated.
void unify_extents(const node& n, std::vector<labelled>& terms) {
  std::map<char, std::int64_t> extent_of;
  for (const auto& [x, dimensions] : terms) {
    for (std::size_t i = 0; i < dimensions.size(); ++i) {
      auto& extent = extent_of.try_emplace(dimensions[i], 1).first->second;
      if (extent != 1 && x.extent(i) != 1 && extent != x.extent(i)) {
        const auto name = is_letter(dimensions[i]) ? std::string(1, dimensions[i]) : "...";
        throw n.refusal("equation", "'" + name + "' has the extents " + std::to_string(extent) +
                                        " and " + std::to_string(x.extent(i)));
      }
      if (x.extent(i) != 1) extent = x.extent(i);
    }
  }
  for (auto& [x, dimensions] : terms) {
    labels kept;
    extents shape;
    for (std::size_t i = 0; i < dimensions.size(); ++i) {
      if (x.extent(i) != extent_of.at(dimensions[i])) continue;
      kept += dimensions[i];
      shape.push_back(x.extent(i));
    }
    if (kept.size() == dimensions.size()) continue;
    x = x.reshape(shape);
    dimensions = kept;
  }
}

/// The labels of the result.
labels read_output(const node& n, const std::string& left, const std::optional<std::string>& right,
                   const labels& all) {
  labels hidden;  // of an ellipsis
  for (const auto label : all) {
    if (!is_letter(label)) hidden += label;
  }
  std::sort(hidden.rbegin(), hidden.rend());
  if (!right) {  // The labels that occur once, in the order of the alphabet.
    std::map<char, int> counts;
    for (const auto label : left) {
      if (is_letter(label)) ++counts[label];
    }
    labels letters;
    for (const auto& [label, count] : counts) {
      if (count == 1) letters += label;
    }
    return hidden + letters;
  }
  const auto letters = right->size() - (right->find("...") != std::string::npos ? 3 : 0);
  const bool has_ellipsis = letters != right->size();
  auto wanted = expand(n, *right, letters + (has_ellipsis ? hidden.size() : 0));
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    if (all.find(wanted[i]) == labels::npos) {
      throw n.refusal("equation", std::string("'") + wanted[i] + "' of the result is in no term");
    }
    if (wanted.find(wanted[i], i + 1) != labels::npos) {
      throw n.refusal("equation", std::string("'") + wanted[i] + "' is twice in the result");
    }
  }
  return wanted;
}

/// Both sets of labels.
labels join(labels a, const labels& b) {
  for (const auto label : b) {
    if (a.find(label) == labels::npos) a += label;
  }
  return a;
}

/// Sums over the dimensions whose labels are not in `wanted`.
labelled sum_others(const node& n, labelled operand, const labels& wanted) {
  extents axes;
  labels kept;
  for (std::size_t i = 0; i < operand.dimensions.size(); ++i) {
    if (wanted.find(operand.dimensions[i]) == labels::npos) {
      axes.push_back(static_cast<std::int64_t>(i));
    } else {
      kept += operand.dimensions[i];
    }
  }
  if (axes.empty()) return operand;
  const auto type = operand.x.type();
  const auto sum =
      n.add(reduce{.x = operand.x, .kind = reduction::sum, .axes = std::optional(axes)});
  return {n.cast_to(sum, type), kept};
}

/// The dimensions `order`, with an extent of 1 for those that the value does not have.
value arrange(const labelled& operand, const labels& order) {
  auto x = operand.x;
  labels present;
  extents axes;
  for (const auto label : order) {
    const auto axis = operand.dimensions.find(label);
    if (axis == labels::npos) continue;
    axes.push_back(static_cast<std::int64_t>(axis));
    present += label;
  }
  x = x.permute(axes);
  for (std::size_t i = 0; i < order.size(); ++i) {
    if (present.find(order[i]) == labels::npos) x = x.unsqueeze(i);
  }
  return x;
}

/// The product of two operands, summed over the labels that are in no other term: one product of
/// stacks of matrices.
labelled multiply_two(const node& n, const labelled& a, const labelled& b, const labels& wanted) {
  labels batch;
  labels rows;
  labels columns;
  labels summed;
  const auto has = [](const labels& all, char label) {
    return all.find(label) != labels::npos;
  };
  for (const auto label : a.dimensions) {
    if (!has(b.dimensions, label)) {
      rows += label;
    } else {
      (has(wanted, label) ? batch : summed) += label;
    }
  }
  for (const auto label : b.dimensions) {
    if (!has(a.dimensions, label)) columns += label;
  }
  const auto size = [&](const labelled& operand, const labels& some) {
    std::int64_t count = 1;
    for (const auto label : some) count *= operand.x.extent(operand.dimensions.find(label));
    return count;
  };
  extents shape;
  for (const auto label : batch) shape.push_back(a.x.extent(a.dimensions.find(label)));
  auto left_shape = shape;
  left_shape.push_back(size(a, rows));
  left_shape.push_back(size(a, summed));
  auto right_shape = shape;
  right_shape.push_back(size(b, summed));
  right_shape.push_back(size(b, columns));
  const auto left = arrange(a, batch + rows + summed).reshape(left_shape);
  const auto right = arrange(b, batch + summed + columns).reshape(right_shape);
  for (const auto label : rows) shape.push_back(a.x.extent(a.dimensions.find(label)));
  for (const auto label : columns) shape.push_back(b.x.extent(b.dimensions.find(label)));
  return {multiply_matrices(n, left, right).reshape(shape), batch + rows + columns};
}

}  // namespace

value sum_products(const node& n, const std::string& equation, const std::vector<value>& operands) {
  std::string text = equation;
  std::erase(text, ' ');
  const auto arrow = text.find("->");
  const auto left = text.substr(0, arrow);
  std::vector<labelled> terms;
  std::size_t first = 0;
  labels all;
  for (const auto& x : operands) {
    if (first > left.size()) throw n.refusal("equation", "has fewer terms than operands");
    const auto last = std::min(left.find(',', first), left.size());
    terms.push_back(take_diagonals(n, {x, expand(n, left.substr(first, last - first), x.rank())}));
    all = join(std::move(all), terms.back().dimensions);
    first = last + 1;
  }
  if (first <= left.size()) throw n.refusal("equation", "has more terms than operands");
  const bool has_output = arrow != std::string::npos;
  const auto wanted =
      read_output(n, left, has_output ? std::optional(text.substr(arrow + 2)) : std::nullopt, all);
  unify_extents(n, terms);
  std::vector<labels> needed(terms.size(), wanted);  // behind each term
  for (auto i = terms.size() - 1; i-- > 0;)
    needed[i] = join(needed[i + 1], terms[i + 1].dimensions);
  auto product = terms.front();
  for (std::size_t i = 1; i < terms.size(); ++i) {
    product = sum_others(n, product, needed[i] + terms[i].dimensions);
    const auto other = sum_others(n, terms[i], needed[i] + product.dimensions);
    product = multiply_two(n, product, other, needed[i]);
  }
  return arrange(sum_others(n, product, wanted), wanted);
}

}  // namespace sluice::models
