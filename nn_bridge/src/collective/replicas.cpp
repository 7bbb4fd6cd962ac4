// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/nn_bridge/detail/message_memory.hpp>
#include <graticule/nn_bridge/detail/named_tensors.hpp>
#include <graticule/nn_bridge/detail/replicas.hpp>
#include <graticule/partition/detail/agreement.hpp>
#include <graticule/partition/detail/hash.hpp>
#include <graticule/repartition/detail/hexadecimal.hpp>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <functional>
#include <string_view>

namespace graticule::nn {

namespace {

template <class Dictionary>
NamedTensors listed(Dictionary const& dictionary) {
  NamedTensors result;
  for (auto const& item : dictionary) {
    bool const known =
        std::any_of(result.begin(), result.end(), [&](auto const& held) { return held.second.is_same(item.value()); });
    if (!known && item.value().defined()) result.emplace_back(item.key(), item.value());
  }
  return result;
}

/// A fingerprint and what it stands for.
struct Description {
  std::uint64_t hash = 0;
  std::string text;
};

/// One comparison for all tensors; if it fails, one per tensor, to report the first that differs.
void require_alike(Comm const& team, char const* rule, NamedTensors const& tensors,
                   std::function<Description(std::string const&, torch::Tensor const&)> const& describe) {
  if (team.num_ranks() == 1) return;
  auto const count = std::to_string(tensors.size()) + " tensors";
  std::vector<Description> all;
  Hash hash;
  hash.add(tensors.size());
  for (auto const& [name, tensor] : tensors) hash.add(all.emplace_back(describe(name, tensor)).hash);
  std::array<Index, 2> words{Index(hash.value() >> 1U), -Index(hash.value() >> 1U)};
  team.max(words);
  if (words[0] == -words[1]) return;
  require_same(team, rule, tensors.size(), count);
  for (auto const& one : all) require_same(team, rule, one.hash, one.text);
}

std::uint64_t hash_of_bits(torch::Tensor const& tensor) {
  auto const held = tensor.detach().to(torch::kCPU).contiguous();
  auto const* bytes = static_cast<unsigned char const*>(held.const_data_ptr());
  auto const size = std::size_t(held.nbytes());
  Hash hash;
  hash.add(size);
  for (std::size_t at = 0; at < size; at += sizeof(std::uint64_t)) {
    std::uint64_t word = 0;
    std::memcpy(&word, bytes + at, std::min(sizeof(word), size - at));
    hash.add(word);
  }
  return hash.value();
}

}  // namespace

NamedTensors parameters_of(torch::nn::Module const& module) { return listed(module.named_parameters()); }

NamedTensors detail::buffers_of(torch::nn::Module const& module) { return listed(module.named_buffers()); }

NamedTensors detail::tensors_of(torch::nn::Module const& module) {
  auto tensors = parameters_of(module);
  for (auto& buffer : buffers_of(module)) tensors.push_back(std::move(buffer));
  return tensors;
}

void detail::require_values(NamedTensors const& tensors) {
  for (auto const& [name, tensor] : tensors)
    if (tensor.is_meta())
      throw Error("UnsupportedTensor", "'" + name +
                                           "' has no values yet: give the model memory (to_empty) and initial values "
                                           "first, and run a lazy module once");
}

void detail::require_dense(std::string const& parameter, torch::Tensor const& gradient) {
  if (!gradient.defined() || gradient.layout() == torch::kStrided) return;
  throw Error("UnsupportedTensor", "the gradient of '" + parameter +
                                       "' is sparse, and ranks sum dense ones: make its layer without sparse gradients "
                                       "(Embedding and EmbeddingBag with sparse = false)");
}

std::exception_ptr detail::agreed_failure(std::vector<Comm> const& teams, std::exception_ptr failure) {
  for (std::size_t round = 0; round < teams.size(); ++round)
    for (auto const& team : teams) attempt(failure, [&] { agree(team, failure); });
  return failure;
}

void detail::throw_agreed(std::vector<Comm> const& teams, std::exception_ptr const& failure) {
  if (auto const found = agreed_failure(teams, failure)) std::rethrow_exception(found);
}

void detail::require_replicas(Comm const& team, NamedTensors const& tensors, ReplicaNeeds needs) {
  require_alike(team, "ReplicaMismatch", tensors, [needs](std::string const& name, torch::Tensor const& tensor) {
    Description result;
    Hash hash;
    hash.add(std::string_view(name)).add(int(tensor.scalar_type())).add(tensor.dim());
    result.text = name + " " + c10::toString(tensor.scalar_type()) + " [";
    for (auto const size : tensor.sizes()) {
      hash.add(size);
      result.text.append(1, ' ').append(std::to_string(size));
    }
    result.text += " ]";
    if (needs == ReplicaNeeds::gradients) {
      hash.add(int(tensor.requires_grad()));
      result.text += tensor.requires_grad() ? ", trainable" : ", frozen";
    }
    result.hash = hash.value();
    return result;
  });
}

void detail::broadcast_replicas(Comm const& team, NamedTensors const& tensors, int root) {
  if (team.num_ranks() == 1) return;
  torch::NoGradGuard const no_grad;
  bool const is_root = team.rank() == root;
  for (auto const& [name, tensor] : tensors) {
    if (tensor.numel() == 0) continue;
    auto const values = tensor.detach();
    auto staged = is_root || values.is_cpu() ? as_message(values) : message_memory(values.sizes(), values);
    if (is_root) await_messages(values.device());
    team.broadcast(staged.mutable_data_ptr(), Index(staged.nbytes()), root);
    if (!is_root && !staged.is_alias_of(values)) values.copy_(staged, /*non_blocking=*/staged.is_pinned());
  }
}

void require_same_bits(Comm const& team, NamedTensors const& tensors) {
  require_alike(team, "ReplicaMismatch", tensors, [](std::string const& name, torch::Tensor const& tensor) {
    auto const hash = hash_of_bits(tensor);
    return Description{hash, name + " with checksum " + graticule::detail::in_hexadecimal(hash)};
  });
}

}  // namespace graticule::nn
