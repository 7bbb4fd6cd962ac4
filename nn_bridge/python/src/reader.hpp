// SPDX-License-Identifier: BSD-3-Clause
// The options of a layer, as Python passes them: keyword arguments and attributes of torch.nn's modules.
#pragma once

#include <graticule/nn_bridge/call/domain.hpp>
#include <graticule/nn_bridge/model/dropout.hpp>
#include <graticule/nn_bridge/stencil/conv.hpp>
#include <graticule/partition/cuts.hpp>
#include <graticule/partition/error.hpp>

#include <torch/extension.h>

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace graticule::python {

namespace py = pybind11;
using Integers = std::vector<std::int64_t>;

/// Cuts of these sizes, in order. Part r belongs to rank r.
[[nodiscard]] inline Cuts cuts_of(Integers const& sizes) {
  std::vector<Index> const given(sizes.begin(), sizes.end());
  return Cuts(std::span<Index const>(given));
}

[[nodiscard]] inline Integers sizes_of(Cuts const& cuts) {
  auto const sizes = cuts.sizes();
  return {sizes.begin(), sizes.end()};
}

/// Values by name, each converted where it is read: those that are given, else the attributes of a module.
class Reader {
 public:
  Reader(std::string type, py::dict values, nn::Domain domain, py::object module = py::none())
      : type_(std::move(type)), values_(std::move(values)), domain_(std::move(domain)), module_(std::move(module)) {}

  [[nodiscard]] std::string const& type() const noexcept { return type_; }
  [[nodiscard]] nn::Domain const& domain() const noexcept { return domain_; }
  [[nodiscard]] bool has(char const* name) const { return !value(name).is_none(); }

  /// @throws `BadOption`, `BadOption` with the name and the value
  template <class T>
  [[nodiscard]] T get(char const* name) const {
    auto const given = value(name);
    if (given.is_none()) throw Error("BadOption", type_ + " needs " + name);
    try {
      return given.cast<T>();
    } catch (py::cast_error const&) {
      throw Error("BadOption", type_ + ": " + name + " = " + py::repr(given).cast<std::string>());
    }
  }
  template <class T>
  [[nodiscard]] T get(char const* name, T otherwise) const {
    return has(name) ? get<T>(name) : otherwise;
  }
  [[nodiscard]] std::int64_t integer(char const* name) const { return get<std::int64_t>(name); }
  [[nodiscard]] double number(char const* name) const { return get<double>(name); }
  [[nodiscard]] bool truth(char const* name) const { return get<bool>(name); }
  /// A list, or one value.
  template <class T>
  [[nodiscard]] std::vector<T> list(char const* name) const {
    if (!has(name)) return {};
    if (auto const given = value(name); py::isinstance<py::sequence>(given) && !py::isinstance<py::str>(given))
      return get<std::vector<T>>(name);
    return {get<T>(name)};
  }
  /// One value for all axes, or one for each.
  template <std::size_t D>
  [[nodiscard]] torch::ExpandingArray<D> array(char const* name) const {
    if (!has(name)) throw Error("BadOption", type_ + " needs " + name);
    auto const values = list<std::int64_t>(name);
    if (values.size() == 1) return torch::ExpandingArray<D>(values.front());
    if (values.size() != D)
      throw Error("BadOption",
                  type_ + ": " + name + " has " + std::to_string(values.size()) + " numbers, not " + std::to_string(D));
    return {at::IntArrayRef(values)};
  }
  /// @throws `BadOption`, which lists the names
  template <class T>
  [[nodiscard]] T one_of(char const* name, std::map<std::string, T> const& all, T otherwise) const {
    if (!has(name)) return otherwise;
    auto const given = get<std::string>(name);
    auto const found = all.find(given);
    if (found != all.end()) return found->second;
    std::string names;
    for (auto const& [one, value] : all) names += (names.empty() ? "'" : ", '") + one + "'";
    throw Error("BadOption", type_ + ": " + name + " = '" + given + "' is none of " + names);
  }
  [[nodiscard]] nn::Padding padding_by() const {
    return one_of<nn::Padding>("padding_by", {{"mode", nn::Padding::by_mode}, {"domain", nn::Padding::by_domain}},
                               nn::Padding::by_mode);
  }
  [[nodiscard]] std::optional<Cuts> cuts(char const* name) const {
    if (!has(name)) return std::nullopt;
    return cuts_of(list<std::int64_t>(name));
  }
  /// Axes that are cut: the domain's rows and columns, unless `sharding_axes` lists others.
  [[nodiscard]] nn::Sharding sharding() const {
    if (!has("sharding_axes")) return domain_.sharding();
    return {list<std::int64_t>("sharding_axes"), domain_.grid()};
  }
  [[nodiscard]] nn::RandomOptions random() const {
    nn::RandomOptions options;
    options.seed = get<std::uint64_t>("seed", 0);
    if (has("layer")) options.layer = get<std::uint32_t>("layer");
    options.first_sample = get<std::int64_t>("first_sample", 0);
    return options;
  }

 private:
  [[nodiscard]] py::object value(char const* name) const {
    if (values_.contains(name)) return values_[name];
    return py::getattr(module_, name, py::none());
  }

  std::string type_;
  py::dict values_;
  nn::Domain domain_;
  py::object module_;
};

}  // namespace graticule::python
