// SPDX-License-Identifier: BSD-3-Clause
#include "shard/movement.hpp"

#include <graticule/nn_bridge/call/tensor_view.hpp>
#include <graticule/nn_bridge/detail/message_memory.hpp>
#include <graticule/partition/layout.hpp>

#include "layout/cut_moves.hpp"

#include <algorithm>
#include <functional>
#include <numeric>
#include <utility>

namespace graticule::program::detail {

namespace {

std::int64_t product_of(Shape const& shape, std::int64_t begin, std::int64_t end) {
  return std::accumulate(shape.begin() + begin, shape.begin() + end, std::int64_t{1}, std::multiplies<>());
}

Layout layout_of(MoveTask const& task, std::int64_t periods, bool along) {
  std::vector<Index> places;
  for (std::size_t rank = 0; rank + 1 < task.from.bounds.size(); ++rank) {
    places.push_back(task.from.bounds[rank + 1] - task.from.bounds[rank]);
  }
  auto const num_ranks = static_cast<Index>(places.size());
  std::vector<Cuts> cuts{Cuts({periods}), Cuts(std::span<Index const>(places))};
  Indices grid{1, num_ranks};
  if (!along) {
    cuts.push_back(Cuts({task.shape[index(task.axis)]}));
    grid.push_back(1);
  }
  return {ProcessGrid(grid), std::move(cuts)};
}

// The row behind the last one of those that follow each other, in one period.
std::size_t end_of_run(std::vector<std::int64_t> const& rows, std::size_t begin, std::size_t last,
                       std::int64_t period) {
  std::size_t end = begin + 1;
  while (end < last && rows[end] == rows[end - 1] + 1 && rows[end] % period != 0) {
    ++end;
  }
  return end;
}

}  // namespace

void Movement::set_shapes(MoveTask const& task, int rank) {
  auto const num_rows = static_cast<std::int64_t>(task.rows[index(rank)].size());
  auto const ndim = static_cast<std::int64_t>(task.shape.size());
  std::int64_t const cut = task.from.axis;
  auto const bound = task.from.bounds.begin() + rank;
  std::int64_t const own = bound[1] - bound[0];
  source_shape_ = task.shape;
  source_shape_[index(cut)] = periods_ * own;
  target_shape_ = task.shape;
  target_shape_[index(task.axis)] = num_rows;
  std::int64_t const first = std::min(cut, task.axis);
  std::int64_t const last = std::max(cut, task.axis);
  std::int64_t const outer = product_of(task.shape, 0, first);
  std::int64_t const inner = product_of(task.shape, last + 1, ndim);
  if (along_) {
    joined_source_ = {outer, periods_, own, inner};
    joined_target_ = {outer, num_rows, inner};
    axes_ = {-3, -2};
    return;
  }
  std::int64_t const middle = product_of(task.shape, first + 1, last);
  std::int64_t const all = task.shape[index(task.axis)];
  std::int64_t const period = task.from.period;
  if (cut < task.axis) {
    joined_source_ = {outer, periods_, own, middle, all, inner};
    joined_target_ = {outer, periods_, period, middle, num_rows, inner};
    axes_ = {-5, -4, -2};
    rows_axis_ = 4;
  } else {
    joined_source_ = {outer, all, middle, periods_, own, inner};
    joined_target_ = {outer, num_rows, middle, periods_, period, inner};
    axes_ = {-3, -2, -5};
    rows_axis_ = 1;
  }
}

std::vector<Box> Movement::boxes_along(std::vector<std::int64_t> const& rows, std::int64_t period) {
  auto const num_rows = static_cast<std::int64_t>(rows.size());
  if (num_rows == 0) {
    runs_.push_back({0, 0});
    return {Box({0, 0}, {1, 0})};
  }
  std::int64_t const width = num_rows / periods_;
  std::int64_t const first = rows.front();
  block_ = direct_.size == 0 && num_rows % periods_ == 0 && first + width <= period;
  for (std::int64_t i = 0; i < num_rows && block_; ++i) {
    block_ = rows[index(i)] == i / width * period + first + i % width;
  }
  if (block_) {
    runs_.push_back({0, num_rows});
    return {Box({0, first}, {periods_, first + width})};
  }
  std::vector<Box> boxes;
  auto const end_of_direct = index(direct_.place + direct_.size);
  add_boxes(rows, 0, direct_.size > 0 ? index(direct_.place) : 0, period, boxes);
  add_boxes(rows, end_of_direct, rows.size(), period, boxes);
  if (boxes.empty()) {
    runs_.push_back({0, 0});
    boxes.push_back(Box({0, 0}, {1, 0}));
  }
  return boxes;
}

void Movement::add_boxes(std::vector<std::int64_t> const& rows, std::size_t begin, std::size_t end, std::int64_t period,
                         std::vector<Box>& boxes) {
  while (begin < end) {
    std::size_t const end_of_box = end_of_run(rows, begin, end, along_ ? period : rows.back() + 1);
    auto const size = static_cast<std::int64_t>(end_of_box - begin);
    std::int64_t const row = rows[begin];
    boxes.push_back(along_ ? Box({row / period, row % period}, {row / period + 1, row % period + size})
                           : Box({0, 0, row}, {periods_, period, row + size}));
    runs_.push_back({static_cast<std::int64_t>(begin), size});
    begin = end_of_box;
  }
}

void Movement::set_direct(MoveTask const& task, int rank) {
  if (!along_ || periods_ != 1) {
    return;
  }
  auto const& rows = task.rows[index(rank)];
  auto const bound = task.from.bounds.begin() + rank;
  auto const first = std::ranges::lower_bound(rows, bound[0]);
  auto const last = std::ranges::lower_bound(rows, bound[1]);
  std::int64_t const size = last - first;
  if (size > 0 && *std::prev(last) - *first == size - 1) {
    direct_ = {first - rows.begin(), size};
    direct_source_ = *first - bound[0];
  }
}

std::vector<Box> Movement::boxes_across(std::vector<std::int64_t> const& rows, std::int64_t period) {
  if (rows.empty()) {
    runs_.push_back({0, 0});
    return {Box({0, 0, 0}, {periods_, period, 0})};
  }
  std::vector<Box> boxes;
  add_boxes(rows, 0, rows.size(), period, boxes);
  return boxes;
}

Movement::Movement(Comm const& comm, MoveTask const& task)
    : periods_(task.shape[index(task.from.axis)] / task.from.period), along_(task.axis == task.from.axis) {
  set_shapes(task, comm.rank());
  set_direct(task, comm.rank());
  auto const& rows = task.rows[index(comm.rank())];
  auto const boxes = along_ ? boxes_along(rows, task.from.period) : boxes_across(rows, task.from.period);
  plan_.emplace(comm, layout_of(task, periods_, along_), boxes);
}

std::vector<FieldView> Movement::parts(torch::Tensor const& target) const {
  torch::Tensor const joined = target.view(joined_target_);
  if (block_) {
    auto const block = joined.view({joined_target_[0], periods_, joined_target_[1] / periods_, joined_target_[2]});
    return {nn::tensor_view(block, axes_)};
  }
  std::vector<FieldView> views;
  for (Run const& run : runs_) {
    auto const part = joined.narrow(rows_axis_, run.place, run.size);
    views.push_back(nn::tensor_view(along_ ? part.unsqueeze(1) : part, axes_));
  }
  return views;
}

torch::Tensor Movement::apply(torch::Tensor const& x) const {
  torch::Tensor const source = x.contiguous().view(joined_source_);
  torch::Tensor target = torch::empty(target_shape_, x.options().requires_grad(false));
  auto const views = parts(target);
  if (direct_.size > 0) {
    target.view(joined_target_)
        .narrow(1, direct_.place, direct_.size)
        .copy_(source.select(1, 0).narrow(1, direct_source_, direct_.size));
  }
  DeviceQueueScope const scope(nn::detail::queue_of(source));
  plan_->apply(nn::tensor_view(source, axes_), std::span<FieldView const>(views));
  return target;
}

// What the rows without the plan leave in a fresh source, and zeros.
torch::Tensor Movement::direct_part(torch::Tensor const& target) const {
  auto const options = target.options().requires_grad(false);
  if (direct_.size == 0) {
    return torch::zeros(source_shape_, options);
  }
  bool const all = direct_.size == joined_source_[2];
  torch::Tensor const source = all ? torch::empty(source_shape_, options) : torch::zeros(source_shape_, options);
  source.view(joined_source_)
      .select(1, 0)
      .narrow(1, direct_source_, direct_.size)
      .copy_(target.view(joined_target_).narrow(1, direct_.place, direct_.size));
  return source;
}

torch::Tensor Movement::apply_adjoint(torch::Tensor const& y) const {
  torch::Tensor const target = y.contiguous();
  torch::Tensor const source = direct_part(target);
  auto const views = parts(target);
  DeviceQueueScope const scope(nn::detail::queue_of(source));
  plan_->apply_adjoint(nn::tensor_view(source.view(joined_source_), axes_), std::span<FieldView const>(views));
  return source;
}

}  // namespace graticule::program::detail
