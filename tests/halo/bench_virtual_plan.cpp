// SPDX-License-Identifier: BSD-3-Clause
// Time and memory to plan the halo of one rank among many, without MPI: neither may grow with the number of ranks.
#include <graticule/halo/virtual_plan.hpp>

#include <benchmark/benchmark.h>

#include <cstdlib>
#include <new>

namespace {

using namespace graticule;

std::size_t heap_bytes = 0;
std::size_t num_allocations = 0;

}  // namespace

// Not inlined: GCC 12 takes the pair for mismatched then.
[[gnu::noinline]] void* operator new(std::size_t size) {
  heap_bytes += size;
  ++num_allocations;
  if (void* memory = std::malloc(size)) return memory;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

namespace {

/// 721 x 1440 degrees of a quarter, 16 times finer, on `n` x `n` ranks, poles on the outer rows, widths 3.
VirtualHalo make_halo(Index n) {
  return {Layout(ProcessGrid({n, n}), {721 * 16, 1440 * 16}), {{{3, 3}, {3, 3}}, Boundary::sphere(Edge::pole_row)}};
}

void plan_one_rank(benchmark::State& state, Indices const& coords) {
  auto const halo = make_halo(state.range(0));
  int const rank = halo.layout().grid()->rank(coords);
  std::size_t num_peers = 0;
  heap_bytes = num_allocations = 0;
  for (auto _ : state) num_peers = halo.plan(rank).peers.size();
  state.counters["peers"] = double(num_peers);
  state.counters["bytes"] = double(heap_bytes) / double(state.iterations());
  state.counters["allocations"] = double(num_allocations) / double(state.iterations());
}

void in_the_middle(benchmark::State& state) { plan_one_rank(state, {state.range(0) / 2, state.range(0) / 2}); }
void at_the_pole(benchmark::State& state) { plan_one_rank(state, {0, state.range(0) / 2}); }

/// The layout and the rules, which all ranks of a study share.
void layout_and_rules(benchmark::State& state) {
  heap_bytes = num_allocations = 0;
  for (auto _ : state) benchmark::DoNotOptimize(make_halo(state.range(0)));
  state.counters["bytes"] = double(heap_bytes) / double(state.iterations());
}

}  // namespace

BENCHMARK(in_the_middle)->ArgName("ranks_per_axis")->Arg(2)->Arg(8)->Arg(16)->Arg(64)->Arg(256);
BENCHMARK(at_the_pole)->ArgName("ranks_per_axis")->Arg(2)->Arg(8)->Arg(16)->Arg(64)->Arg(256);
BENCHMARK(layout_and_rules)->ArgName("ranks_per_axis")->Arg(2)->Arg(8)->Arg(16)->Arg(64)->Arg(256);
BENCHMARK_MAIN();
