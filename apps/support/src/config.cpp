// SPDX-License-Identifier: BSD-3-Clause
#include "config.hpp"

#include <graticule/partition/error.hpp>

#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <numeric>
#include <set>

namespace graticule::app {

namespace {

/// Options that act on the command line itself and are no settings.
std::set<std::string> const not_settings{"help", "version", "config", "dump-config"};

std::size_t edit_distance(std::string const& a, std::string const& b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), 0);
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i + 1;
    for (std::size_t j = 0; j < b.size(); ++j) {
      auto const replaced = diagonal + (a[i] != b[j] ? 1 : 0);
      diagonal = row[j + 1];
      row[j + 1] = std::min({replaced, row[j] + 1, diagonal + 1});
    }
  }
  return row[b.size()];
}

std::string setting_name(CLI::Option const& option) {
  return option.get_lnames().empty() ? std::string() : option.get_lnames().front();
}

CLI::Option const* find_setting(CLI::App const& app, std::string const& name) {
  for (auto const* option : app.get_options()) {
    auto const& names = option->get_lnames();
    if (std::find(names.begin(), names.end(), name) != names.end() && !not_settings.contains(name)) return option;
  }
  return nullptr;
}

bool is_on_command_line(CLI::Option const& option, std::vector<std::string> const& arguments) {
  auto const names = option.get_lnames();
  auto const short_names = option.get_snames();
  for (auto const& argument : arguments) {
    if (argument == "--") return false;
    auto const given = argument.substr(0, argument.find('='));
    for (auto const& name : names)
      if (given == "--" + name) return true;
    for (auto const& name : short_names)
      if (argument.starts_with("-" + name)) return true;
  }
  return false;
}

[[noreturn]] void refuse(std::string const& path, std::string const& what) {
  throw Error(Fault::usage, "BadOption", path + ": " + what);
}

std::string value_text(std::string const& path, std::string const& name, YAML::Node const& node) {
  if (node.IsScalar()) return node.Scalar();
  if (!node.IsSequence()) refuse(path, "the value of '" + name + "' is neither a single value nor a list");
  std::string text;
  for (auto const& item : node) {
    if (!item.IsScalar()) refuse(path, "the list of '" + name + "' holds something that is not a single value");
    text += (text.empty() ? "" : ",") + item.Scalar();
  }
  return text;
}

/// Unlike a flag; also of --flag[=VALUE].
bool takes_values(CLI::Option const& option) {
  return option.get_expected_max() > 0 || !option.get_default_str().empty();
}

std::string effective_value(CLI::Option const& option) {
  if (!takes_values(option)) return option.count() > 0 && option.results().front() != "false" ? "true" : "false";
  if (option.count() == 0) {
    auto const given = option.get_default_str();
    bool const is_list = given.starts_with('[') && given.ends_with(']');  // as CLI11 writes vectors
    return is_list ? given.substr(1, given.size() - 2) : given;
  }
  std::string text;
  for (auto const& result : option.results()) text += (text.empty() ? "" : ",") + result;
  return text;
}

/// Whether the option may not stand beside one that was given.
bool is_excluded(CLI::Option const& option) {
  auto const& excluded = option.get_excludes();
  return std::any_of(excluded.begin(), excluded.end(), [](auto const* other) { return other->count() > 0; });
}

}  // namespace

std::string config_path(std::vector<std::string> const& arguments) {
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    if (arguments[i] == "--") break;
    if (arguments[i] == "--config" && i + 1 < arguments.size()) return arguments[i + 1];
    if (arguments[i].starts_with("--config=")) return arguments[i].substr(9);
  }
  return {};
}

std::vector<std::string> with_config(CLI::App const& app, std::vector<std::string> arguments, std::string const& path,
                                     std::string const& text) {
  YAML::Node root;
  try {
    root = YAML::Load(text);
  } catch (YAML::Exception const& error) {
    refuse(path, "line " + std::to_string(error.mark.line + 1) + ": " + error.msg);
  }
  if (root.IsNull()) return arguments;
  if (!root.IsMap()) refuse(path, "it holds no `name: value` lines");
  std::vector<std::string> added;
  std::set<std::string> seen;
  for (auto const& entry : root) {
    auto const name = entry.first.IsScalar() ? entry.first.Scalar() : std::string();
    auto const* option = find_setting(app, name);
    if (not_settings.contains(name)) refuse(path, "'" + name + "' is allowed only on the command line");
    if (option == nullptr)
      refuse(path, "unknown key '" + name + "'; the nearest known one is '" + nearest_option(app, name) + "'");
    if (!seen.insert(name).second) refuse(path, "'" + name + "' stands there twice");
    auto const value = value_text(path, name, entry.second);
    // A flag that is off is one that is not given.
    bool const is_off = !takes_values(*option) && value == "false";
    if (!is_on_command_line(*option, arguments) && !is_off) added.push_back("--" + name + "=" + value);
  }
  // In front, where a `--` of the user cannot turn them into plain arguments.
  arguments.insert(arguments.begin(), added.begin(), added.end());
  return arguments;
}

std::string dumped_config(CLI::App const& app) {
  YAML::Emitter out;
  out << YAML::BeginMap;
  for (auto const* option : app.get_options()) {
    auto const name = setting_name(*option);
    auto const value = effective_value(*option);
    if (name.empty() || not_settings.contains(name)) continue;
    if (option->count() == 0 && (value.empty() || is_excluded(*option))) continue;
    out << YAML::Key << name << YAML::Value << value;
  }
  out << YAML::EndMap;
  return std::string(out.c_str()) + "\n";
}

std::string nearest_option(CLI::App const& app, std::string const& name) {
  std::string nearest;
  std::size_t least = 0;
  for (auto const* option : app.get_options())
    for (auto const& known : option->get_lnames()) {
      auto const distance = edit_distance(name, known);
      if (nearest.empty() || distance < least) {
        nearest = known;
        least = distance;
      }
    }
  return nearest;
}

}  // namespace graticule::app
