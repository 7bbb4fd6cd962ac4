// SPDX-License-Identifier: BSD-3-Clause
// Repartitions and halos of rows against the fastest copy (or adding pass) of the same bytes by any kernel, caches
// cold.
//   mpiexec -n 2 bench_copies [REPETITIONS] [moves|axes|halo|all] [512x512x64]
// Prints the shortest and the median time of the slowest rank in microseconds, and the ratio of medians to the fastest:
// apart for repetitions in which a message from rank 0 to rank 1 is fast and slow, because the cores of a virtual
// machine share a cache for some minutes, and memory, and do not for others.
#include <graticule/halo/plan.hpp>
#include <graticule/partition/comm.hpp>
#include <graticule/repartition/detail/copy_kernels.hpp>
#include <graticule/repartition/node_memory.hpp>
#include <graticule/repartition/plan.hpp>
#include <graticule/repartition/runtime.hpp>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace graticule {

namespace {

/// What a candidate is compared with: the fastest of those that do the same for `limit_for`.
struct Candidate {
  std::string name;
  std::function<void()> run;
  std::string limit = {};
  std::string limit_for = {};
};

void empty_caches() {
  static std::vector<char> memory(std::size_t(16) << 20U);
  std::memset(memory.data(), memory[0] + 1, memory.size());
}

/// Seconds of a short message between two ranks: of the fastest of some, so that an interruption does not count.
double message_seconds(Comm const& comm) {
  constexpr int count = 50;
  double shortest = 1;
  double value = 0;
  for (int i = 0; i < count && comm.num_ranks() > 1 && comm.rank() < 2; ++i) {
    double const begin = MPI_Wtime();
    for (int turn = 0; turn < 2; ++turn)
      if (comm.rank() == turn)
        MPI_Send(&value, 1, MPI_DOUBLE, 1 - comm.rank(), 0, comm.handle());
      else
        MPI_Recv(&value, 1, MPI_DOUBLE, 1 - comm.rank(), 0, comm.handle(), MPI_STATUS_IGNORE);
    shortest = std::min(shortest, (MPI_Wtime() - begin) / 2);
  }
  std::array<double, 1> agreed{comm.rank() == 0 ? shortest : 0};
  comm.max(agreed);
  return agreed[0];
}

/// Messages between cores that share a cache take less.
constexpr double near_seconds = 3.5e-7;

void print(std::vector<Candidate> const& candidates, std::vector<std::vector<double>> seconds) {
  std::vector<double> median;
  for (auto& values : seconds) {
    std::ranges::sort(values);
    median.push_back(values[values.size() / 2]);
  }
  for (std::size_t c = 0; c < candidates.size(); ++c) {
    std::printf("  %-40s %9.1f %9.1f", candidates[c].name.c_str(), 1e6 * seconds[c].front(), 1e6 * median[c]);
    double limit = 0;
    for (std::size_t other = 0; other < candidates.size(); ++other)
      if (!candidates[c].limit.empty() && candidates[other].limit_for == candidates[c].limit)
        limit = limit == 0 ? median[other] : std::min(limit, median[other]);
    if (limit > 0) std::printf("  %6.3f", median[c] / limit);
    std::printf("\n");
  }
}

void compare(Comm const& comm, char const* title, std::vector<Candidate> const& candidates, int repetitions) {
  std::array<std::vector<std::vector<double>>, 2> seconds;  // far, near
  seconds.fill(std::vector<std::vector<double>>(candidates.size()));
  constexpr int num_warm_ups = 3;
  for (int repetition = -num_warm_ups; repetition < repetitions; ++repetition) {
    std::vector<double> taken;
    bool const is_near = message_seconds(comm) < near_seconds;
    for (auto const& candidate : candidates) {
      empty_caches();
      comm.barrier();
      double const begin = MPI_Wtime();
      candidate.run();
      std::array<double, 1> slowest{MPI_Wtime() - begin};
      comm.max(slowest);
      taken.push_back(slowest[0]);
    }
    if (repetition < 0 || is_near != (message_seconds(comm) < near_seconds)) continue;
    for (std::size_t c = 0; c < candidates.size(); ++c) seconds[std::size_t(is_near)][c].push_back(taken[c]);
  }
  if (comm.rank() != 0) return;
  for (bool const is_near : {true, false}) {
    auto const& of_state = seconds[std::size_t(is_near)];
    if (of_state[0].empty()) continue;
    std::printf("%s: %zu repetitions, messages %s\n", title, of_state[0].size(), is_near ? "fast" : "slow");
    print(candidates, of_state);
  }
  if (auto const* const kernel = chosen_copy_kernel())
    std::printf("  long copies: %s\n", std::string(kernel->name).c_str());
  std::fflush(stdout);
}

template <class T>
class Array {
 public:
  Array(Index count, bool shared) : count_(count) {
    if (shared)
      memory_ = NodeMemory(std::size_t(count) * sizeof(T));
    else
      private_.resize(std::size_t(count));
    data_ = shared ? memory_.data<T>() : private_.data();
    std::fill_n(data_, count, T(1));
  }
  [[nodiscard]] T* data() const { return data_; }
  [[nodiscard]] std::byte* bytes() const { return reinterpret_cast<std::byte*>(data_); }
  [[nodiscard]] std::size_t num_bytes() const { return std::size_t(count_) * sizeof(T); }

 private:
  Index count_;
  NodeMemory memory_;
  std::vector<T> private_;
  T* data_ = nullptr;
};

std::vector<Candidate> every_copy(Array<double> const& to, Array<double> const& from) {
  std::vector<Candidate> result;
  for (auto const& kernel : copy_kernels())
    if (has_feature(kernel))
      result.push_back({"copy by " + std::string(kernel.name),
                        [&] {
                          copy_run(kernel, to.bytes(), from.bytes(), from.num_bytes());
                          store_fence();
                        },
                        {},
                        "copy"});
  return result;
}

void moves(Comm const& comm, Indices const& extents, int repetitions) {
  Index const n = comm.num_ranks();
  Layout const rows(ProcessGrid{n, 1, 1}, extents);
  Layout const columns(ProcessGrid{1, n, 1}, extents);
  RepartitionPlan const same(comm, rows, rows);
  RepartitionPlan const bands(comm, rows, columns);
  Index const count = rows.owned(comm.rank()).num_cells();
  Array<double> const from(count, false);
  Array<double> const shared(count, true);
  Array<double> const to(count, false);
  auto const view = [&](Array<double> const& field, Layout const& layout) {
    return field_view(field.data(), layout.owned(comm.rank()).extents(), 3);
  };
  auto candidates = every_copy(to, from);
  candidates.push_back({"add",
                        [&] {
                          for (Index i = 0; i < count; ++i) to.data()[i] += from.data()[i];
                        },
                        {},
                        "add"});
  candidates.push_back({"to the same layout", [&] { same.apply(view(from, rows), view(to, rows)); }, "copy"});
  candidates.push_back({"bands", [&] { bands.apply(view(from, rows), view(to, columns)); }, "copy"});
  candidates.push_back(
      {"bands, source in NodeMemory", [&] { bands.apply(view(shared, rows), view(to, columns)); }, "copy"});
  candidates.push_back({"bands, inverse", [&] { bands.apply_inverse(view(from, rows), view(to, columns)); }, "copy"});
  candidates.push_back({"bands, adjoint of zeros",
                        [&] { bands.apply_adjoint(view(from, rows), view(to, columns), {.beta = 0.0}); }, "copy"});
  candidates.push_back({"bands, adjoint", [&] { bands.apply_adjoint(view(from, rows), view(to, columns)); }, "add"});
  compare(comm, "bands of f64", candidates, repetitions);
}

void axes(Comm const& comm, Indices const& extents, int repetitions) {
  Index const n = comm.num_ranks();
  Layout const rows(ProcessGrid{n, 1, 1}, extents);
  Index const count = rows.owned(comm.rank()).num_cells();
  Array<double> const from(count, false);
  Array<double> const to(count, false);
  auto candidates = every_copy(to, from);
  std::vector<std::unique_ptr<RepartitionPlan>> plans;
  std::vector<std::unique_ptr<Array<double>>> targets;
  for (Indices const& axes :
       {Indices{0, 2, 1}, Indices{1, 0, 2}, Indices{1, 2, 0}, Indices{2, 0, 1}, Indices{2, 1, 0}}) {
    Indices permuted = axes;
    Indices grid = axes;
    for (int a = 0; a < 3; ++a) {
      permuted[a] = extents[int(axes[a])];
      grid[a] = axes[a] == 0 ? n : 1;
    }
    Layout const layout(ProcessGrid(grid), permuted);
    auto const& plan = *plans.emplace_back(
        std::make_unique<RepartitionPlan>(comm, rows, layout, RepartitionOptions{.permutation = axes}));
    auto const& target = *targets.emplace_back(std::make_unique<Array<double>>(count, false));
    auto const from_view = field_view(from.data(), rows.owned(comm.rank()).extents(), 3);
    auto const to_view = field_view(target.data(), plan.target_box().extents(), 3);
    candidates.push_back(
        {"axes " + to_string(axes), [&plan, from_view, to_view] { plan.apply(from_view, to_view); }, "copy"});
  }
  compare(comm, "axes of f64, within each rank", candidates, repetitions);
}

/// Rows 1 and `rows` of each channel to rows `rows + 1` and 0, as an exchange between two bands does.
template <class Move>
void for_rows(Index channels, Index rows, Index columns, Move const& move) {
  for (Index c = 0; c < channels; ++c) {
    Index const first = c * (rows + 2) * columns;
    move(first, first + rows * columns);
    move(first + (rows + 1) * columns, first + columns);
  }
}

void halos(Comm const& comm, int repetitions) {
  constexpr Index channels = 64;
  Index const columns = 1440;
  Layout const layout(ProcessGrid{comm.num_ranks(), 1}, {721, columns});
  HaloPlan const plan(comm, layout, {{1, 1}, {0, 0}}, Boundary::uniform(2, Edge::periodic));
  Index const rows = plan.owned().extent(0);
  Index const count = channels * (rows + 2) * columns;
  // Every candidate that moves rows by hand has fields of its own, so that none finds rows of another in a cache.
  Array<float> const field(count, false);
  Array<float> const shared(count, true);
  std::vector<std::unique_ptr<Array<float>>> hand;
  for (int i = 0; i < 6; ++i) hand.push_back(std::make_unique<Array<float>>(count, false));
  auto const view = [&](Array<float> const& of) { return field_view(of.data(), {channels, rows + 2, columns}, 2); };
  auto const copy = [&](float* to, float const* from) {
    for_rows(channels, rows, columns,
             [&](Index a, Index b) { std::memcpy(to + a, from + b, std::size_t(columns) * sizeof(float)); });
  };
  auto const add = [&](float* to, float* from) {
    for_rows(channels, rows, columns, [&](Index a, Index b) {
      for (Index i = 0; i < columns; ++i) {
        to[b + i] += from[a + i];
        from[a + i] = 0;
      }
    });
  };
  auto const data = [&](int i) { return hand[std::size_t(i)]->data(); };
  compare(comm, "halo of rows, 64 x 721 x 1440 f32",
          {{"two copies",
            [&] {
              copy(data(0), data(0));
              copy(data(1), data(1));
            },
            {},
            "two"},
           {"copy", [&] { copy(data(0), data(0)); }},
           {"copy between fields", [&] { copy(data(2), data(3)); }, {}, "between"},
           {"copy and add",
            [&] {
              copy(data(1), data(1));
              add(data(0), data(0));
            },
            {},
            "copy and add"},
           {"add between fields", [&] { add(data(4), data(5)); }, {}, "add between"},
           {"node-shared", [&] { plan.exchange(view(field)); }, "two"},
           {"NodeMemory", [&] { plan.exchange(view(shared)); }, "between"},
           {"adjoint, node-shared", [&] { plan.exchange_adjoint(view(field)); }, "copy and add"},
           {"adjoint, NodeMemory", [&] { plan.exchange_adjoint(view(shared)); }, "add between"}},
          repetitions);
}

}  // namespace

}  // namespace graticule

int main(int argc, char** argv) {
  using namespace graticule;
  Runtime const runtime(argc, argv, 1);
  auto const comm = Comm::world();
  std::vector<std::string> const words(argv, argv + argc);
  int const repetitions = words.size() > 1 ? std::stoi(words[1]) : 20;
  std::string const part = words.size() > 2 ? words[2] : "all";
  std::string const size = words.size() > 3 ? words[3] : "512x512x64";
  Indices const extents{std::stoll(size), std::stoll(size.substr(size.find('x') + 1)),
                        std::stoll(size.substr(size.rfind('x') + 1))};
  if (part == "all" || part == "moves") moves(comm, extents, repetitions);
  if (part == "all" || part == "axes") axes(comm, extents, repetitions);
  if (part == "all" || part == "halo") halos(comm, repetitions);
}
