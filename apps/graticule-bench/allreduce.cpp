// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/halo/axis_sum.hpp>
#include <graticule/repartition/collectives.hpp>

#include "case.hpp"
#include "mock.hpp"
#include "options.hpp"
#include "timing.hpp"

#include <algorithm>
#include <memory>
#include <optional>
#include <vector>

namespace graticule::bench {

namespace {

/// Exact sums of more elements than these take more memory than they are worth: 368 bytes for each of f64.
constexpr Index most_exact = 65536;

/// What rank `rank` adds: small whole numbers, so that every order of the sum gives the same.
double term(Index element, int rank) { return double((element * 7 + rank * 3) % 1021); }

/// Sums of `count` elements over all ranks, one candidate each.
template <class T>
class Sums {
 public:
  Sums(Comm const& comm, Index count)
      : comm_(comm),
        terms_(std::size_t(count)),
        sums_(terms_.size()),
        zeros_(terms_.size(), T(0)),
        copies_(comm, {count}) {
    for (std::size_t i = 0; i < terms_.size(); ++i) {
      terms_[i] = T(term(Index(i), comm.rank()));
      double sum = 0;
      for (int r = 0; r < comm.num_ranks(); ++r) sum += term(Index(i), r);
      expected_.push_back(T(sum));
    }
    // Every rank owns one row, and each column is a ring of all ranks.
    if (count <= most_exact)
      exact_.emplace(comm, Layout(ProcessGrid{comm.num_ranks(), 1}, Indices{comm.num_ranks(), count}), 0);
  }

  [[nodiscard]] std::vector<Candidate> candidates() {
    std::vector<Candidate> result{
        {"MPI_Allreduce", [this] { allreduce(); }},
        {"memcpy of the same bytes", [this] { std::copy(terms_.begin(), terms_.end(), copied_.begin()); }},
        // In place, and so of zeros, which stay what they are.
        {"Comm::reduce: the same bits on all ranks", [this] { comm_.reduce(zeros_.data(), size(), type(), MPI_SUM); }},
        {"ReplicatedFieldPlan: in order of ranks", [this] { copies_.all_sum_reduce(view(zeros_)); }}};
    if (exact_) result.push_back({"AxisSumPlan: exact", [this] { exact(); }});
    copied_.resize(terms_.size());
    return result;
  }

  void check() {
    auto const holds = [&](std::vector<T> const& found, char const* what) {
      require(comm_, found == expected_, std::string("sums by ") + what + " are wrong");
    };
    allreduce();
    holds(sums_, "MPI_Allreduce");
    auto in_place = terms_;
    comm_.reduce(in_place.data(), size(), type(), MPI_SUM);
    holds(in_place, "Comm::reduce");
    in_place = terms_;
    copies_.all_sum_reduce(view(in_place));
    holds(in_place, "ReplicatedFieldPlan");
    if (!exact_) return;
    std::fill(sums_.begin(), sums_.end(), T(-1));
    exact();
    holds(sums_, "AxisSumPlan");
  }

 private:
  static MPI_Datatype type() { return sizeof(T) == sizeof(double) ? MPI_DOUBLE : MPI_FLOAT; }
  [[nodiscard]] Index size() const { return Index(terms_.size()); }
  [[nodiscard]] FieldView view(std::vector<T>& values) const { return field_view(values.data(), {size()}, 1); }
  void allreduce() {
    check_mpi(MPI_Allreduce(terms_.data(), sums_.data(), int(size()), type(), MPI_SUM, comm_.handle()),
              "MPI_Allreduce");
  }
  void exact() { exact_->apply(field_view(terms_.data(), {1, size()}, 2), field_view(sums_.data(), {1, size()}, 2)); }

  Comm comm_;
  std::vector<T> terms_;
  std::vector<T> sums_;
  std::vector<T> zeros_;
  std::vector<T> copied_;
  std::vector<T> expected_;
  ReplicatedFieldPlan copies_;
  std::optional<AxisSumPlan> exact_;
};

}  // namespace

void run_allreduce(app::Context& context, Options const& options) {
  auto const c = case_of(options, context.comm, 1, DType::f64);
  Index const all = c.channels * c.extents[0] * c.extents[1];
  if (all > (Index(1) << 30))
    throw Error(Fault::usage, "BadOption", "sums have more than 2^30 elements; choose a smaller grid");
  std::vector<Index> counts;
  for (Index count = 1; count < all; count *= 32) counts.push_back(count);
  counts.push_back(all);
  for (Index const count : counts)
    with_element(c.dtype, [&](auto element) {
      Sums<decltype(element)> sums(context.comm, count);
      sums.check();
      show(context,
           "sums of " + std::to_string(count) + " " + to_string(c.dtype) + ", " +
               std::to_string(context.comm.num_ranks()) + " ranks, transport " + options.transport,
           interleave(context, sums.candidates(), options.timing));
    });
}

}  // namespace graticule::bench
