// SPDX-License-Identifier: Apache-2.0
#include "models/einsum.hpp"

#include "models/products.hpp"

#include <sluice/operations/binary.hpp>
#include <sluice/operations/elementwise.hpp>
#include <sluice/operations/reduce.hpp>

#include <algorithm>
#include <cctype>

namespace sluice::models {

namespace {

/// A label for each dimension: letters, and for the dimensions of an ellipsis digits, of which the
/// last dimension has '0'.
using labels = std::string;

struct labelled {
  value x;
  labels dimensions;
};

labels expand(const node& n, const std::string& term, std::size_t rank) {
  labels result;
  const auto letters = static_cast<std::size_t>(std::count_if(
      term.begin(), term.end(), [](unsigned char c) { return std::isalpha(c) != 0; }));
  for (std::size_t i = 0; i < term.size(); ++i) {
    if (term[i] == '.') {
      if (term.substr(i, 3) != "..." || letters > rank) {
        throw n.refusal("equation", "has the term '" + term + "'");
      }
      for (auto hidden = rank - letters; hidden-- > 0;) result += static_cast<char>('0' + hidden);
      i += 2;
    } else if (std::isalpha(static_cast<unsigned char>(term[i])) != 0) {
      result += term[i];
    } else {
      throw n.refusal("equation", "has the term '" + term + "'");
    }
  }
  if (result.size() != rank) throw n.refusal("equation", "'" + term + "' does not fit an operand");
  return result;
}

/// The elements whose indices of a repeated label are equal.
labelled take_diagonals(const node& n, labelled from) {
  auto& [x, dimensions] = from;
  for (std::size_t i = 0; i < dimensions.size(); ++i) {
    const auto j = dimensions.find(dimensions[i], i + 1);
    if (j == labels::npos) continue;
    const auto extent = x.extent(i);
    if (x.extent(j) != extent) throw n.refusal("equation", "a label has two extents");
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
    return take_diagonals(n, std::move(from));
  }
  return from;
}

/// Sums over the dimensions whose labels are not in `wanted`.
labelled sum_others(const node& n, labelled from, const labels& wanted) {
  extents axes;
  labels kept;
  for (std::size_t i = 0; i < from.dimensions.size(); ++i) {
    if (wanted.find(from.dimensions[i]) == labels::npos) {
      axes.push_back(static_cast<std::int64_t>(i));
    } else {
      kept += from.dimensions[i];
    }
  }
  if (axes.empty()) return from;
  const auto type = from.x.type();
  const auto sum = n.add(reduce{.x = from.x, .kind = reduction::sum, .axes = std::optional(axes)});
  return {n.cast_to(sum, type), kept};
}

/// The dimensions `order`, with an extent of 1 for those that the value does not have.
value arrange(const labelled& from, const labels& order) {
  auto x = from.x;
  labels present;
  extents axes;
  for (const auto label : order) {
    const auto at = from.dimensions.find(label);
    if (at == labels::npos) continue;
    axes.push_back(static_cast<std::int64_t>(at));
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
  const auto size = [&](const labelled& from, const labels& some) {
    std::int64_t count = 1;
    for (const auto label : some) count *= from.x.extent(from.dimensions.find(label));
    return count;
  };
  // Extents of 1 in an ellipsis are repeated.
  extents stack;
  extents a_stack;
  extents b_stack;
  for (const auto label : batch) {
    const auto x = a.x.extent(a.dimensions.find(label));
    const auto y = b.x.extent(b.dimensions.find(label));
    a_stack.push_back(x);
    b_stack.push_back(y);
    stack.push_back(std::max(x, y));
  }
  auto left_shape = a_stack;
  left_shape.push_back(size(a, rows));
  left_shape.push_back(size(a, summed));
  auto right_shape = b_stack;
  right_shape.push_back(size(b, summed));
  right_shape.push_back(size(b, columns));
  const auto left = arrange(a, batch + rows + summed).reshape(left_shape);
  const auto right = arrange(b, batch + summed + columns).reshape(right_shape);
  auto shape = stack;
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
    all += terms.back().dimensions;
    first = last + 1;
  }
  if (first <= left.size()) throw n.refusal("equation", "has more terms than operands");
  labels hidden;
  labels once;
  for (const auto label : all) {
    if (std::isdigit(static_cast<unsigned char>(label)) != 0) {
      if (hidden.find(label) == labels::npos) hidden += label;
    }
  }
  std::sort(hidden.rbegin(), hidden.rend());
  labels wanted;
  if (arrow == std::string::npos) {  // The labels that occur once, in the order of the alphabet.
    labels letters;
    for (const auto label : left) {
      if (std::isalpha(static_cast<unsigned char>(label)) != 0 &&
          std::count(left.begin(), left.end(), label) == 1) {
        letters += label;
      }
    }
    std::sort(letters.begin(), letters.end());
    wanted = hidden + letters;
  } else {
    const auto right = text.substr(arrow + 2);
    const auto letters = right.size() - (right.find("...") != std::string::npos ? 3 : 0);
    const bool has_ellipsis = letters != right.size();
    wanted = expand(n, right, letters + (has_ellipsis ? hidden.size() : 0));
  }
  auto product = terms.front();
  for (std::size_t i = 1; i < terms.size(); ++i) {
    labels needed = wanted;
    for (std::size_t j = i + 1; j < terms.size(); ++j) needed += terms[j].dimensions;
    product = sum_others(n, product, needed + terms[i].dimensions);
    const auto other = sum_others(n, terms[i], needed + product.dimensions);
    product = multiply_two(n, product, other, needed);
  }
  return arrange(sum_others(n, product, wanted), wanted);
}

}  // namespace sluice::models
