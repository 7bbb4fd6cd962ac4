// SPDX-License-Identifier: BSD-3-Clause
#include "node_shapes.hpp"

#include <algorithm>
#include <map>
#include <set>

// Products are described by labels as einsum does: an axis of the result is cut where all tensors with its label are
// cut alike, and a label that the result lacks is summed over.
namespace graticule::program::detail {

namespace {

using Labels = std::vector<int>;

std::int64_t place(Labels const& labels, int label) {
  auto const found = std::ranges::find(labels, label);
  return found == labels.end() ? -1 : found - labels.begin();
}

// Axes of extent 1 that are repeated against larger ones do not follow a cut.
std::vector<std::int64_t> axes_of(NodeShapes const& shapes, std::vector<Labels> const& inputs, int label) {
  std::int64_t largest = 0;
  std::vector<std::int64_t> axes;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    axes.push_back(place(inputs[i], label));
    if (axes.back() >= 0) {
      largest = std::max(largest, shapes.in(i)[index(axes.back())]);
    }
  }
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (axes[i] >= 0 && shapes.in(i)[index(axes[i])] != largest) {
      axes[i] = -1;
    }
  }
  return axes;
}

// Nothing where the labels are not those of the tensors, as in a damaged file: the operator runs on the whole.
bool set_labels(NodeShapes& shapes, std::vector<Labels> const& inputs, Labels const& output) {
  bool fits = inputs.size() <= shapes.rule.shapes.size() && output.size() == shapes.out().size();
  for (std::size_t i = 0; fits && i < inputs.size(); ++i) {
    fits = inputs[i].size() == shapes.rule.shapes[i].size();
  }
  if (!fits) {
    return false;
  }
  for (std::size_t axis = 0; axis < output.size(); ++axis) {
    AxisRule& rule = shapes.rule.axes.at(axis);
    rule.mode = RunMode::same;
    rule.axes = axes_of(shapes, inputs, output[axis]);
  }
  std::set<int> summed;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    for (int const label : inputs[i]) {
      if (place(output, label) < 0 && summed.insert(label).second) {
        shapes.rule.contracted.push_back(axes_of(shapes, inputs, label));
        shapes.rule.operations *= shapes.in(i)[index(place(inputs[i], label))];
      }
    }
  }
  shapes.rule.statistics = num_elements(shapes.out());
  return true;
}

// Labels -n, ..., -1 for the leading axes, then the last two.
Labels leading(std::size_t count, Labels const& last) {
  Labels labels;
  for (auto left = static_cast<int>(count); left > 0; --left) {
    labels.push_back(-left);
  }
  labels.insert(labels.end(), last.begin(), last.end());
  return labels;
}

// Labels of "..." count from -1 at its last axis downwards.
Labels labels_of(NodeShapes const& shapes, std::string term, std::size_t ndim) {
  std::erase(term, ' ');
  Labels labels;
  for (std::size_t i = 0; i < term.size(); ++i) {
    if (term[i] != '.') {
      labels.push_back(term[i]);
      continue;
    }
    i += 2;
    if (term.size() > ndim + 3) {
      shapes.refuse("its equation has more labels than the tensor has axes");
    }
    Labels const all = leading(ndim + 3 - term.size(), {});
    labels.insert(labels.end(), all.begin(), all.end());
  }
  return labels;
}

// Without '->' the result has '...' and the labels that stand once, in alphabetical order.
std::string implied_result(std::string const& terms) {
  std::map<char, int> counts;
  for (char const label : terms) {
    ++counts[label];
  }
  std::string result = counts.contains('.') ? "..." : "";
  for (auto const& [label, count] : counts) {
    if (count == 1 && std::string_view(", .").find(label) == std::string_view::npos) {
      result += label;
    }
  }
  return result;
}

}  // namespace

void einsum_rule(NodeShapes& shapes) {
  std::string equation = shapes.text("equation", "");
  auto const arrow = std::min(equation.find("->"), equation.size());
  if (arrow == equation.size()) {
    equation += "->" + implied_result(equation);
  }
  std::vector<Labels> inputs;
  std::string terms = equation.substr(0, arrow) + ",";
  while (!terms.empty()) {
    auto const comma = terms.find(',');
    if (inputs.size() >= shapes.rule.shapes.size()) {
      shapes.refuse("its equation names more tensors than it has");
    }
    inputs.push_back(labels_of(shapes, terms.substr(0, comma), shapes.in(inputs.size()).size()));
    if (inputs.back().size() != shapes.in(inputs.size() - 1).size()) {
      shapes.refuse("its equation does not fit the tensors");
    }
    if (std::set<int>(inputs.back().begin(), inputs.back().end()).size() != inputs.back().size()) {
      return;  // a diagonal: on the whole
    }
    terms.erase(0, comma + 1);
  }
  set_labels(shapes, inputs, labels_of(shapes, equation.substr(arrow + 2), shapes.out().size()));
}

// A vector has the label of the sum alone.
void matmul_rule(NodeShapes& shapes) {
  Shape const& a = shapes.in(0);
  Shape const& b = shapes.in(1);
  if (a.empty() || b.empty()) {
    return;
  }
  std::size_t const batch = std::max(std::max(a.size(), b.size()), std::size_t{2}) - 2;
  Labels last;
  if (a.size() > 1) {
    last.push_back('i');
  }
  if (b.size() > 1) {
    last.push_back('j');
  }
  set_labels(shapes,
             {a.size() == 1 ? Labels{'k'} : leading(a.size() - 2, {'i', 'k'}),
              b.size() == 1 ? Labels{'k'} : leading(b.size() - 2, {'k', 'j'})},
             leading(batch, last));
}

// The named axes of both are summed over; the result has the others, of the first tensor in front.
void tensordot_rule(NodeShapes& shapes) {
  auto const ndim = [&](std::size_t i) { return static_cast<std::int64_t>(shapes.in(i).size()); };
  auto const first = shapes.axes("dims_self", ndim(0));
  auto const second = shapes.axes("dims_other", ndim(1));
  if (first.size() != second.size()) {
    return;
  }
  std::vector<Labels> inputs(2);
  Labels output;
  int next = 1;
  for (std::size_t i = 0; i < 2; ++i) {
    auto const& summed = i == 0 ? first : second;
    for (std::int64_t axis = 0; axis < ndim(i); ++axis) {
      auto const found = std::ranges::find(summed, axis);
      inputs[i].push_back(found == summed.end() ? next++ : -1 - static_cast<int>(found - summed.begin()));
      if (found == summed.end()) {
        output.push_back(inputs[i].back());
      }
    }
  }
  set_labels(shapes, inputs, output);
}

void linear_rule(NodeShapes& shapes) {
  std::vector<Labels> inputs{leading(shapes.in(0).size() - 1, {'k'}), {'j', 'k'}};
  if (shapes.rule.shapes.size() > 2) {
    inputs.push_back({'j'});
  }
  set_labels(shapes, inputs, leading(shapes.in(0).size() - 1, {'j'}));
  if (shapes.rule.shapes.size() > 2) {
    shapes.rule.contracted.clear();  // each rank would add the bias
  }
}

void baddbmm_rule(NodeShapes& shapes) {
  Labels const all{'b', 'i', 'j'};
  Labels const bias(all.end() - static_cast<std::ptrdiff_t>(std::min<std::size_t>(3, shapes.in(0).size())), all.end());
  set_labels(shapes, {bias, {'b', 'i', 'k'}, {'b', 'k', 'j'}}, all);
  shapes.rule.contracted.clear();  // each rank would add the first tensor
}

void addmm_rule(NodeShapes& shapes) {
  Labels const bias = shapes.in(0).size() == 2 ? Labels{'i', 'j'} : Labels{'j'};
  set_labels(shapes, {bias, {'i', 'k'}, {'k', 'j'}}, {'i', 'j'});
  shapes.rule.contracted.clear();
}

// Rows of queries and all leading axes are free; keys and values are needed whole along their rows.
void attention_rule(NodeShapes& shapes) {
  std::size_t const batch = shapes.in(0).size() - 2;
  std::vector<Labels> inputs{leading(batch, {'n', 'd'}), leading(batch, {'m', 'd'}), leading(batch, {'m', 'e'})};
  if (shapes.rule.shapes.size() > 3) {
    inputs.push_back(leading(shapes.in(3).size() - 2, {'n', 'm'}));
  }
  if (!set_labels(shapes, inputs, leading(batch, {'n', 'e'}))) {
    return;
  }
  shapes.rule.contracted.clear();  // the softmax is over the whole row
  // Per query and key a product over the channels of keys, and one over those of values.
  std::int64_t const of_value = std::max<std::int64_t>(1, shapes.out().back());
  shapes.rule.operations = std::max<std::int64_t>(1, shapes.in(1)[batch] * (shapes.in(0).back() + of_value) / of_value);
  shapes.rule.axes.back() = {};
  if (shapes.flag("is_causal", false)) {
    shapes.rule.axes.at(batch) = {};
  }
  if (shapes.flag("enable_gqa", false) && batch > 0) {
    shapes.rule.axes.at(batch - 1) = {};  // queries share heads of keys
  }
}

}  // namespace graticule::program::detail
