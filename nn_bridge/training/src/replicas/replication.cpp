// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/partition/detail/agreement.hpp>
#include <graticule/partition/detail/hash.hpp>
#include <graticule/training/replicas/replication.hpp>

#include <c10/util/Type.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <string_view>
#include <typeinfo>
#include <unordered_set>
#include <utility>

namespace graticule::training {

namespace {

using Modules = std::vector<torch::nn::Module*>;
using Contexts = std::vector<std::shared_ptr<ReplicaContext>>;

void walk(torch::nn::Module& module, Modules& found, std::unordered_set<torch::nn::Module*>& known) {
  if (!known.insert(&module).second) return;
  found.push_back(&module);
  for (auto const& child : module.children()) walk(*child, found, known);
}

Modules walk(torch::nn::Module& module) {
  Modules found;
  std::unordered_set<torch::nn::Module*> known;
  walk(module, found, known);
  return found;
}

std::string described(torch::nn::Module const& module, std::size_t place) {
  return "module " + std::to_string(place) + " of type " + c10::demangle(typeid(module).name());
}

/// The same length and types on all ranks.
void require_isomorphic(Comm const& team, Modules const& modules) {
  Hash hash;
  for (auto const* module : modules) hash.add(std::string_view(typeid(*module).name()));
  std::array<Index, 2> range{Index(hash.value() >> 1U), -Index(hash.value() >> 1U)};
  team.max(range);
  if (range[0] == -range[1]) return;
  std::array<Index, 1> longest{Index(modules.size())};
  team.max(longest);
  for (std::size_t i = 0; i < std::size_t(longest[0]); ++i) {
    auto const text = i < modules.size() ? described(*modules[i], i) : "no module " + std::to_string(i);
    require_same(team, "ReplicaMismatch", Hash().add(std::string_view(text)).value(), text);
  }
  throw Error("ReplicaMismatch", "different module types have the same name");
}

void call_hook(torch::nn::Module& module, std::shared_ptr<ReplicaContext> const& context, int copy, int num_copies) {
  if (auto* const hook = dynamic_cast<ReplicaHook*>(&module)) hook->on_replicate(context, copy, num_copies);
}

// Values as bytes: their number, then of each its key, kind and content.
template <class T>
void write(std::string& bytes, T const& value) {
  bytes.append(reinterpret_cast<char const*>(&value), sizeof value);
}
void write_range(std::string& bytes, void const* data, std::size_t count, std::size_t size) {
  write(bytes, Index(count));
  bytes.append(static_cast<char const*>(data), count * size);
}
template <class T>
T read(std::string_view& bytes) {
  T value{};
  std::memcpy(&value, bytes.data(), sizeof value);
  bytes.remove_prefix(sizeof value);
  return value;
}
template <class Range>
Range read_range(std::string_view& bytes) {
  Range result(std::size_t(read<Index>(bytes)), typename Range::value_type{});
  auto const size = result.size() * sizeof(typename Range::value_type);
  if (size > 0) std::memcpy(result.data(), bytes.data(), size);
  bytes.remove_prefix(size);
  return result;
}

void write_values(std::string& bytes, Values const& values) {
  write(bytes, Index(values.size()));
  for (auto const& [key, value] : values) {
    write_range(bytes, key.data(), key.size(), 1);
    write(bytes, Index(value.index()));
    std::visit(
        [&](auto const& held) {
          if constexpr (requires { held.data(); })
            write_range(bytes, held.data(), held.size(), sizeof *held.data());
          else
            write(bytes, held);
        },
        value);
  }
}

CheckpointValue read_value(std::string_view& bytes) {
  switch (read<Index>(bytes)) {
    case 0: return read<Index>(bytes);
    case 1: return read<double>(bytes);
    case 2: return read_range<std::string>(bytes);
    case 3: return read_range<std::vector<std::byte>>(bytes);
    case 4: return read_range<std::vector<Index>>(bytes);
    default: return read_range<std::vector<double>>(bytes);
  }
}

Values read_values(std::string_view& bytes) {
  Values result;
  auto const count = read<Index>(bytes);
  for (Index i = 0; i < count; ++i) {
    auto const key = read_range<std::string>(bytes);
    result.emplace(key, read_value(bytes));
  }
  return result;
}

/// Contexts get the values of rank 0's.
void broadcast_values(Comm const& team, Contexts const& contexts) {
  std::string bytes;
  if (team.rank() == 0)
    for (auto const& context : contexts) write_values(bytes, context->values());
  auto const all = team.broadcast(bytes, 0);
  std::string_view rest = all;
  for (auto const& context : contexts) context->seal(read_values(rest));
}

}  // namespace

void ReplicaContext::put(std::string const& key, CheckpointValue value) {
  if (sealed_) throw Error("WrongState", key + ": only the master copy puts values into a context");
  values_.insert_or_assign(key, std::move(value));
}

std::vector<std::shared_ptr<ReplicaContext>> replicate(torch::nn::Module& module, Comm const& team) {
  auto const modules = walk(module);
  require_isomorphic(team, modules);
  Comm const own(team.handle());
  Contexts contexts;
  for (std::size_t i = 0; i < modules.size(); ++i) contexts.push_back(std::make_shared<ReplicaContext>(int(i), own));
  auto const call_all = [&] {
    for (std::size_t i = 0; i < modules.size(); ++i) call_hook(*modules[i], contexts[i], team.rank(), team.num_ranks());
  };
  run_agreed(team, [&] {
    if (team.rank() == 0) call_all();
  });
  broadcast_values(team, contexts);
  run_agreed(team, [&] {
    if (team.rank() != 0) call_all();
  });
  return contexts;
}

std::vector<std::shared_ptr<ReplicaContext>> replicate(std::vector<std::shared_ptr<torch::nn::Module>> const& copies) {
  if (copies.empty()) throw Error("BadOption", "replicate needs at least one copy of a module");
  std::vector<Modules> walks;
  for (auto const& copy : copies) walks.push_back(walk(*copy));
  auto const& master = walks.front();
  for (std::size_t c = 1; c < walks.size(); ++c)
    for (std::size_t i = 0; i < std::max(master.size(), walks[c].size()); ++i) {
      auto const text = [&](Modules const& modules) {
        return i < modules.size() ? described(*modules[i], i) : "no module " + std::to_string(i);
      };
      if (text(master) != text(walks[c]))
        throw Error("ReplicaMismatch",
                    "copy 0 has " + text(master) + ", copy " + std::to_string(c) + " has " + text(walks[c]));
    }
  Contexts contexts;
  for (std::size_t i = 0; i < master.size(); ++i)
    contexts.push_back(std::make_shared<ReplicaContext>(int(i), std::nullopt));
  for (std::size_t c = 0; c < walks.size(); ++c) {
    for (std::size_t i = 0; i < master.size(); ++i) call_hook(*walks[c][i], contexts[i], int(c), int(copies.size()));
    for (auto const& context : contexts) context->seal(context->values());
  }
  return contexts;
}

}  // namespace graticule::training
