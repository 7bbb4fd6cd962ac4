// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/training/data_parallel/wrapper.hpp>

#include "wrapper_impl.hpp"

#include <utility>

namespace graticule::training {

DataParallel::DataParallel(torch::nn::Module& module, std::vector<torch::optim::Optimizer*> optimizers,
                           std::vector<nn::TeamRule> rules, DataParallelOptions const& options)
    : impl_(std::make_unique<Impl>(module, std::move(optimizers), rules, options)) {}
DataParallel::DataParallel(DataParallel&& other) noexcept = default;
DataParallel& DataParallel::operator=(DataParallel&& other) noexcept = default;
DataParallel::~DataParallel() = default;

void DataParallel::step() { impl_->step(); }
double DataParallel::step(std::function<torch::Tensor()> const& closure) { return impl_->step(closure); }
void DataParallel::synchronize() { impl_->synchronize(); }
void DataParallel::finalize() { impl_->finalize(); }
DataParallel::NoSync DataParallel::no_sync() { return NoSync(*impl_); }
void DataParallel::reduce() { impl_->reducer().reduce(); }
void DataParallel::run(std::function<void()> const& pass) { impl_->run(pass); }
void DataParallel::sync_buffers() { impl_->sync_buffers(); }
double DataParallel::clip_gradients(double max_norm, double norm_type) { return impl_->clip(max_norm, norm_type); }
GradientWait DataParallel::wait() const noexcept { return impl_->wait(); }
std::string const& DataParallel::fallback() const noexcept { return impl_->fallback(); }
std::vector<DataParallel::Traffic> const& DataParallel::traffic() const { return impl_->reducer().sums().traffic(); }

std::vector<std::vector<std::string>> DataParallel::buckets() const {
  std::vector<std::vector<std::string>> result;
  for (auto const& bucket : impl_->reducer().buckets().all()) {
    if (bucket.members.empty()) continue;
    auto& names = result.emplace_back();
    for (auto const i : bucket.members) names.push_back(impl_->reducer().buckets().parameters()[i].name);
  }
  return result;
}

std::vector<DataParallel::Event> DataParallel::events() { return impl_->reducer().log().take(); }

nn::NamedTensors DataParallel::low_rank_state() const {
  auto& reducer = impl_->reducer();
  return reducer.buckets().low_rank_state(reducer.num_begun());
}
void DataParallel::load_low_rank_state(nn::NamedTensors const& state) {
  auto& reducer = impl_->reducer();
  reducer.buckets().load_low_rank_state(state, reducer.num_begun());
}

DataParallel::NoSync::NoSync(DataParallel::Impl& impl) : impl_(impl), before_(impl.reducer().syncs()) {
  impl_.reducer().set_sync(false);
}
DataParallel::NoSync::~NoSync() { impl_.reducer().set_sync(before_); }

}  // namespace graticule::training
