// SPDX-License-Identifier: BSD-3-Clause
#include "gradient_sum.hpp"

#include <tuple>

namespace graticule::training::detail {

torch::Tensor orthonormal(torch::Tensor const& columns) { return std::get<0>(torch::linalg_qr(columns)); }

torch::Tensor GradientSum::matrix(LowRankMatrix const& place) const {
  return flat_.narrow(0, place.begin, place.rows * place.columns).view({place.rows, place.columns});
}

template <class Visit>
void GradientSum::visit_rest(Visit const& visit) const {
  Index at = 0;
  for (auto const& place : matrices_) {
    if (place.begin > at) visit(flat_.narrow(0, at, place.begin - at));
    at = place.begin + place.rows * place.columns;
  }
  visit(flat_.narrow(0, at, flat_.numel() - at));
}

void GradientSum::start(torch::Tensor const& flat, Index num_data, double divisor, Travels how) {
  traffic_ = {};
  flat_ = flat;
  num_data_ = num_data;
  divisor_ = divisor;
  bool const thin = how == Travels::low_rank && !matrices_.empty() && team().num_ranks() > 1;
  stage_ = thin ? Stage::left : Stage::whole;
  if (!thin) return sum_.start(flat, num_data, divisor);
  sum_.stream().follow_current();
  auto const current = sum_.stream().use();
  send_left();
}

void GradientSum::start(torch::Tensor const& flat, Index num_data, std::function<bool()> future) {
  torch::NoGradGuard const no_grad;
  traffic_ = {};
  flat_ = flat;
  num_data_ = num_data;
  stage_ = Stage::hooked;
  future_ = std::move(future);
  sent_ = flat.narrow(0, num_data, flat.numel() - num_data).clone();
  sum_.start(sent_, 0, 1);
}

bool GradientSum::advance() {
  torch::NoGradGuard const no_grad;
  {
    // What is computed between messages is in one stream, whichever thread gets here.
    auto const current = sum_.stream().use();
    if (!advance_in_stream()) return false;
  }
  sum_.stream().precede_current();
  return true;
}

bool GradientSum::advance_in_stream() {
  if (future_ && !future_()) return false;
  future_ = nullptr;
  while (stage_ != Stage::idle) {
    if (!sum_.advance()) return false;
    sum_.traffic().add_to(traffic_);
    auto const stage = stage_;
    stage_ = Stage::idle;
    if (stage == Stage::left) send_right();
    if (stage == Stage::right) multiply();
    if (stage == Stage::hooked) flat_.narrow(0, num_data_, sent_.numel()).copy_(sent_);
  }
  flat_.reset();
  sent_.reset();
  left_.clear();
  return true;
}

void GradientSum::send_left() {
  torch::NoGradGuard const no_grad;
  std::vector<torch::Tensor> parts;
  for (auto const& place : matrices_)
    parts.push_back(matrix(place).add_(place.part->error).matmul(place.part->factor).view({-1}));
  // What is not divided stays at the end.
  visit_rest([&](torch::Tensor const& rest) { parts.push_back(rest); });
  sent_ = torch::cat(parts);
  sum_.start(sent_, sent_.numel(), 1);
}

void GradientSum::send_right() {
  Index at = 0;
  left_.clear();
  for (auto const& place : matrices_) {
    auto const rank = place.part->factor.size(1);
    left_.push_back(sent_.narrow(0, at, place.rows * rank).view({place.rows, rank}));
    at += place.rows * rank;
  }
  visit_rest([&](torch::Tensor const& rest) {
    rest.copy_(sent_.narrow(0, at, rest.numel()));
    at += rest.numel();
  });
  if (flat_[flat_.numel() - 1].item<double>() > 0) return;
  std::vector<torch::Tensor> parts;
  for (std::size_t i = 0; i < matrices_.size(); ++i) {
    left_[i] = orthonormal(left_[i]);
    parts.push_back(matrix(matrices_[i]).t().matmul(left_[i]).reshape({-1}));
  }
  sent_ = torch::cat(parts);
  stage_ = Stage::right;
  sum_.start(sent_, sent_.numel(), 1);
}

void GradientSum::multiply() {
  Index at = 0;
  auto const scale = 1.0 / team().num_ranks();
  for (std::size_t i = 0; i < matrices_.size(); ++i) {
    auto const& place = matrices_[i];
    auto& part = *place.part;
    auto const right = sent_.narrow(0, at, part.factor.numel()).view(part.factor.sizes());
    at += part.factor.numel();
    auto const given = matrix(place);
    if (flat_[place.flag].item<double>() == 0) {
      // Nobody gets it: all of it is still to be given.
      part.next_error = given.clone();
      continue;
    }
    auto const sum = left_[i].matmul(right.t());
    part.next_error = given - sum * scale;
    part.next_factor = orthonormal(right);
    given.copy_(sum);
  }
  flat_.narrow(0, 0, num_data_).div_(divisor_);
}

}  // namespace graticule::training::detail
