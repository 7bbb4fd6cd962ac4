// SPDX-License-Identifier: BSD-3-Clause
#include "team_sum.hpp"

#include <graticule/nn_bridge/detail/reduce.hpp>
#include <graticule/partition/detail/check_mpi.hpp>
#include <graticule/repartition/detail/device_mpi.hpp>
#include <graticule/repartition/detail/device_place.hpp>
#include <graticule/repartition/detail/device_runtime.hpp>
#include <graticule/training/detail/wires.hpp>

#include <c10/core/impl/VirtualGuardImpl.h>

#include <algorithm>

namespace graticule::training::detail {

namespace {

/// Longest piece of one MPI call, whose counts are `int`.
constexpr Index max_count = Index(1) << 30;

/// Elements that are added at a time, so that what is added stays in a cache.
constexpr Index block_numel = Index(1) << 15;

torch::ScalarType wire_type(torch::ScalarType type, Wire wire) {
  switch (wire) {
    case Wire::own: return type;
    case Wire::bf16: return torch::kBFloat16;
    case Wire::f16: return torch::kHalf;
    case Wire::f32:
    case Wire::automatic: break;
  }
  throw Error("BadOption",
              "gradients are sent in their own type, bf16 or f16, and not in " + graticule::detail::enum_name(wire));
}

/// A power of two near the square root of the team, as in LibTorch's reducer: neither the values before the sum nor the
/// sum leave the range of a narrow type.
double divisor_before(int num_ranks) {
  int before = 1;
  while (num_ranks % before == 0 && num_ranks / before > before) before *= 2;
  return before;
}

/// Adds the terms of a part in order of ranks, in f32 where they have 16 bits, and divides those that are data.
struct Adder {
  torch::ScalarType type;
  Index num_data;
  double before;
  double divisor;

  [[nodiscard]] torch::Tensor block(std::byte* values, Index begin, Index count) const {
    return torch::from_blob(values + begin * Index(c10::elementSize(type)), {count}, type);
  }

  /// @param sum of the values from `begin` on, of all
  void divide(torch::Tensor const& sum, Index begin) const {
    auto const data = sum.narrow(0, 0, std::clamp<Index>(num_data - begin, 0, sum.numel()));
    if (before != divisor && before != 1) data.mul_(before);
    if (before != divisor) data.div_(divisor);
  }

  void operator()(messages::SumPart const& part) const {
    auto const sums = torch::empty({std::min(part.count, block_numel)}, nn::detail::type_of_sums(type));
    for (Index begin = 0; begin < part.count; begin += block_numel) {
      auto const count = std::min(block_numel, part.count - begin);
      auto const sum = sums.narrow(0, 0, count);
      sum.copy_(block(part.terms[0], begin, count));
      for (std::size_t rank = 1; rank < part.terms.size(); ++rank) sum.add_(block(part.terms[rank], begin, count));
      divide(sum, part.begin + begin);
      for (auto* const result : part.results) block(result, begin, count).copy_(sum);
    }
  }
};

/// The same by kernels of a device, in its stream for messages.
struct DeviceAdder {
  Adder adder;
  torch::Device device;
  nn::detail::MessageStream const* stream;
  bool terms_on_device;  ///< else they lie on the host, as what MPI reads
  bool is_sent;          ///< the result, by MPI

  [[nodiscard]] torch::Tensor values(std::byte* memory, Index count) const {
    return nn::detail::tensor_over(memory, count, adder.type, terms_on_device ? device : torch::Device(torch::kCPU));
  }

  void operator()(messages::SumPart const& part) const {
    torch::NoGradGuard const no_grad;
    auto const current = stream->use();
    std::vector<torch::Tensor> terms;
    for (auto* const term : part.terms) terms.push_back(nn::detail::from_message(values(term, part.count), device));
    auto const sum = nn::detail::sum_in_order(terms);
    adder.divide(sum, part.begin);
    auto const rounded = sum.to(adder.type);
    for (auto* const result : part.results) values(result, part.count).copy_(rounded, /*non_blocking=*/true);
    if (is_sent) stream->synchronize();
  }
};

}  // namespace

MPI_Datatype mpi_type(torch::ScalarType type) {
  switch (type) {
    case torch::kHalf:
    case torch::kBFloat16: return MPI_UINT16_T;
    case torch::kFloat: return MPI_FLOAT;
    case torch::kDouble: return MPI_DOUBLE;
    default: throw Error("UnsupportedTensor", std::string("no sum or mean over ranks of ") + c10::toString(type));
  }
}

messages::AllocateTerms terms_memory(torch::Device const& device, nn::detail::MessageStream const& stream,
                                     bool mpi_reads_device) {
  return [device, &stream, mpi_reads_device](std::size_t bytes) {
    auto const current = stream.use();
    auto const options = torch::TensorOptions(torch::kByte);
    auto const memory =
        torch::empty({Index(bytes)}, mpi_reads_device ? options.device(device) : options.pinned_memory(true));
    // Earlier work in the stream may still use what the allocator gives out again.
    stream.synchronize();
    return std::shared_ptr<std::byte>(static_cast<std::byte*>(memory.mutable_data_ptr()), [memory](std::byte*) {});
  };
}

TeamSum::TeamSum(Comm team, torch::ScalarType type, Wire wire, SumOrder order, torch::Device const& device)
    : team_(std::move(team)),
      type_(type),
      device_(device),
      wire_(wire_type(type, wire)),
      before_(wire_ == torch::kHalf && type != torch::kHalf ? divisor_before(team_.num_ranks()) : 1),
      stream_(std::make_unique<nn::detail::MessageStream>(device)) {
  bool const on_host = device.is_cpu();
  bool const by_library = on_host && order == SumOrder::any && wire_ == type && !nn::detail::is_narrow(type);
  if (!by_library) sum_.emplace(team_, Index(c10::elementSize(wire_)));
  if (on_host || team_.num_ranks() == 1) return;
  mpi_reads_device_ = graticule::detail::mpi_moves_device_memory(team_);
  sum_->receive_in(terms_memory(device, *stream_, mpi_reads_device_));
}

void TeamSum::share_on_node(Comm const& team, std::vector<std::pair<TeamSum*, Index>> const& sums) {
  std::vector<std::pair<messages::OrderedSum*, Index>> on_host;
  std::vector<TeamSum*> on_devices;
  std::vector<graticule::detail::DevicePlace::Wanted> wanted;
  for (auto const& [sum, numel] : sums) {
    if (!sum->sum_) continue;
    if (sum->device_.is_cpu()) {
      on_host.emplace_back(&*sum->sum_, numel);
      continue;
    }
    on_devices.push_back(sum);
    wanted.push_back(
        {std::size_t(numel) * c10::elementSize(sum->wire_), [stream = sum->stream_.get()] { return stream->queue(); }});
  }
  messages::OrderedSum::share_on_node(team, on_host);
  auto places = graticule::detail::DevicePlace::make(team, wanted);
  for (std::size_t i = 0; i < places.size(); ++i) {
    on_devices[i]->sum_->share(std::move(places[i]));
    on_devices[i]->is_shared_on_device_ = true;
  }
}

TeamSum::~TeamSum() {
  if (!is_shared_on_device_ || !sum_) return;
  try {
    // Whoever has used the shared memory as a tensor may have done so in any stream.
    c10::impl::VirtualGuardImpl(device_.type()).synchronizeDevice(device_.index());
  } catch (...) {  // NOLINT(bugprone-empty-catch): the device has failed, and says so in the next call.
  }
}

void TeamSum::start(torch::Tensor const& flat, Index num_data, double divisor) {
  torch::NoGradGuard const no_grad;
  traffic_ = {};
  requests_.clear();
  stream_->follow_current();
  if (team_.num_ranks() == 1) return;
  flat_ = flat;
  num_data_ = num_data;
  divisor_ = divisor;
  if (!sum_) return start_all_reduce();
  {
    auto const current = stream_->use();
    sent_ = as_sent();
  }
  if (travels_on_device()) return start_sum();
  stream_->mark();
  is_staging_ = true;
  start_staged();
}

torch::Tensor TeamSum::as_sent() const {
  bool const on_host = device_.is_cpu();
  if (on_host && wire_ == type_) return flat_;
  auto values = flat_;
  if (before_ != 1) {
    values = flat_.clone();
    values.narrow(0, 0, num_data_).div_(before_);
  }
  if (flat_.numel() <= sum_->room()) {
    auto const shared = shared_values(flat_.numel());
    if (shared.const_data_ptr() != values.const_data_ptr()) shared.copy_(values, /*non_blocking=*/true);
    return shared;
  }
  values = values.to(wire_);
  return on_host || mpi_reads_device_ ? values : nn::detail::as_message(values);
}

void TeamSum::start_staged() {
  if (!is_staging_ || !stream_->has_passed()) return;
  is_staging_ = false;
  start_sum();
}

void TeamSum::start_sum() {
  Adder const adder{wire_, num_data_, before_, divisor_};
  auto* const values = static_cast<std::byte*>(sent_.mutable_data_ptr());
  if (device_.is_cpu()) return sum_->start(values, sent_.numel(), adder);
  sum_->start(values, sent_.numel(), DeviceAdder{adder, device_, stream_.get(), !sent_.is_cpu(), !travels_on_device()});
}

void TeamSum::start_all_reduce() {
  for (Index done = 0; done < flat_.numel(); done += max_count) {
    auto const count = std::min(max_count, flat_.numel() - done);
    check_mpi(MPI_Iallreduce(MPI_IN_PLACE, flat_.narrow(0, done, count).mutable_data_ptr(), int(count), mpi_type(type_),
                             MPI_SUM, team_.handle(), &requests_.emplace_back()),
              "MPI_Iallreduce");
    ++traffic_.collectives;
  }
  traffic_.bytes = Index(flat_.nbytes());
}

bool TeamSum::is_reduced() {
  int done = 0;
  check_mpi(MPI_Testall(int(requests_.size()), requests_.data(), &done, MPI_STATUSES_IGNORE), "MPI_Testall");
  if (done && divisor_ != 1) flat_.narrow(0, 0, num_data_).div_(divisor_);
  return done != 0;
}

bool TeamSum::advance() {
  // Where MPI may look up device memory.
  graticule::detail::OnDevice const scope(mpi_reads_device_ ? device_.index() : -1);
  if (!flat_.defined()) {
    stream_->precede_current();
    return true;
  }
  torch::NoGradGuard const no_grad;
  start_staged();
  if (is_staging_ || (sum_ ? !sum_->advance() : !is_reduced())) return false;
  if (sum_) {
    traffic_.messages = sum_->sent().messages;
    traffic_.bytes = sum_->sent().bytes;
    if (sent_.const_data_ptr() != flat_.const_data_ptr()) {
      auto const current = stream_->use();
      flat_.copy_(sent_, /*non_blocking=*/true);
    }
    stream_->precede_current();
  }
  requests_.clear();
  flat_.reset();
  sent_.reset();
  return true;
}

torch::Tensor TeamSum::shared_memory() const {
  if (!sum_ || !sum_->shared_memory() || wire_ != type_) return {};
  return shared_values(sum_->room());
}

torch::Tensor TeamSum::shared_values(Index numel) const {
  return nn::detail::tensor_over(sum_->shared_memory(), numel, wire_, device_);
}

bool TeamSum::travels_on_device() const {
  return is_shared_on_device_ && sent_.defined() && sent_.numel() <= sum_->room();
}

}  // namespace graticule::training::detail
