// SPDX-License-Identifier: BSD-3-Clause
// checkpoint_loop write FOLDER SEED: commits checkpoints until one rank kills itself, at a moment drawn from SEED.
// checkpoint_loop check FOLDER: every checkpoint there is whole and none that was committed is lost.
#include <graticule/field_io/checkpoint.hpp>
#include <graticule/repartition/runtime.hpp>

#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <fstream>
#include <random>
#include <thread>

namespace {

using namespace graticule;

constexpr Index num_rows = 61;
constexpr Index num_columns = 96;

double formula(Index step, Index cell) { return double(step) * 1e6 + double(cell); }

/// Columns when loading, rows when saving.
Layout layout_of(Comm const& comm, bool rows) {
  return rows ? Layout({comm.num_ranks(), 1}, {num_rows, num_columns})
              : Layout({1, comm.num_ranks()}, {num_rows, num_columns});
}

template <class Visit>
void for_each_cell(Box const& box, Visit&& visit) {
  std::size_t at = 0;
  for (Index j = box.lo(0); j < box.hi(0); ++j)
    for (Index i = box.lo(1); i < box.hi(1); ++i) visit(at++, j * num_columns + i);
}

void save(CheckpointStore& store, Comm const& comm, Index step) {
  auto const layout = layout_of(comm, true);
  auto const owned = layout.owned(comm.rank());
  std::vector<double> z(std::size_t(owned.num_cells()));
  for_each_cell(owned, [&](std::size_t at, Index cell) { z[at] = formula(step, cell); });
  std::vector<double> const weights(1000, formula(step, 0));
  auto writer = store.begin(step);
  writer.add("z", layout, field_view(z.data(), owned.extents(), 2));
  writer.add("weights", field_view(weights.data(), {1000}, 0));
  writer.add_value("seconds", formula(step, 1));
  writer.commit();
}

bool is_right(Checkpoint const& found, Comm const& comm) {
  auto const layout = layout_of(comm, false);
  auto const owned = layout.owned(comm.rank());
  std::vector<double> z(std::size_t(owned.num_cells()));
  found.verify();
  found.read("z", layout, field_view(z.data(), owned.extents(), 2));
  bool right = found.value<double>("seconds") == formula(found.step(), 1);
  for_each_cell(owned, [&](std::size_t at, Index cell) { right = right && z[at] == formula(found.step(), cell); });
  std::vector<double> weights(1000);
  found.read("weights", field_view(weights.data(), {1000}, 0));
  return right && weights == std::vector<double>(1000, formula(found.step(), 0));
}

/// The last step whose `commit` returned.
Index last_committed(std::filesystem::path const& folder) {
  std::ifstream file(folder / "committed");
  Index step = 0;
  for (Index next = 0; file >> next;) step = next;
  return step;
}

[[noreturn]] void write(Comm const& comm, std::filesystem::path const& folder, unsigned seed) {
  std::mt19937 random(seed);
  int const victim = int(random() % unsigned(comm.num_ranks()));
  auto const delay = std::chrono::microseconds(random() % 800'000);
  CheckpointStore store(comm, folder, {.keep = 2});
  std::ofstream committed;
  if (comm.rank() == 0) committed.open(folder / "committed", std::ios::app);
  std::thread killer;
  Index const first = last_committed(folder) + 1;
  comm.barrier();
  for (Index step = first;; ++step) {
    save(store, comm, step);
    committed << step << std::endl;
    if (step == first && comm.rank() == victim)
      killer = std::thread([delay] {
        std::this_thread::sleep_for(delay);
        ::kill(::getpid(), SIGKILL);
      });
  }
}

void require(Comm const& comm, bool holds, char const* claim) {
  run_agreed(comm, [&] {
    if (!holds) throw Error(Fault::check, "NotWhole", claim);
  });
}

void check(Comm const& comm, std::filesystem::path const& folder) {
  CheckpointStore store(comm, folder, {.keep = 2});
  Index const committed = last_committed(folder);
  auto const files = store.files();
  for (auto const& path : files)
    require(comm, is_right(Checkpoint(comm, path), comm), "a checkpoint holds other cells");
  auto const found = store.newest();
  require(comm, found.has_value(), "there is no checkpoint");
  // The last one may have got its name although the program did not live to hear of it.
  require(comm, found->step() == committed || found->step() == committed + 1, "a committed checkpoint is lost");
  if (comm.rank() == 0)
    std::printf("committed %lld, found %lld, %zu files\n", static_cast<long long>(committed),
                static_cast<long long>(found->step()), files.size());
  save(store, comm, found->step() + 1);
  if (comm.rank() == 0) std::ofstream(folder / "committed", std::ios::app) << found->step() + 1 << std::endl;
  std::size_t num_entries = 0;
  for ([[maybe_unused]] auto const& entry : std::filesystem::directory_iterator(folder)) ++num_entries;
  require(comm, num_entries == store.files().size() + 1, "something was left over");
  comm.barrier();
}

}  // namespace

int main(int argc, char** argv) {
  Runtime const runtime(argc, argv);
  auto const comm = Comm::world();
  try {
    if (argc == 4 && std::string(argv[1]) == "write") write(comm, argv[2], unsigned(std::stoul(argv[3])));
    if (argc != 3 || std::string(argv[1]) != "check")
      throw Error(Fault::usage, "Usage", "write FOLDER SEED or check FOLDER");
    check(comm, argv[2]);
    return 0;
  } catch (std::exception const& error) {
    if (comm.rank() == 0) std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
