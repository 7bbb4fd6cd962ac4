// SPDX-License-Identifier: BSD-3-Clause
// The engine's part of the table of accidents: docs/accidents.md.
#include "accidents.hpp"

#include <graticule/field_io/checkpoint.hpp>
#include <graticule/field_io/file.hpp>
#include <graticule/field_io/writer.hpp>
#include <graticule/halo/plan.hpp>
#include <graticule/repartition/plan.hpp>

#include <array>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <vector>

namespace {

using namespace graticule;
using test::Operation;

constexpr Index num_rows = 12;
constexpr Index num_columns = 8;

/// A folder of this run, the same on all ranks; removed by the last one that lets go of it.
std::filesystem::path new_folder(Comm const& comm) {
  auto text = (std::filesystem::temp_directory_path() / "graticule-accidents-XXXXXX").string();
  if (comm.rank() == 0 && ::mkdtemp(text.data()) == nullptr) throw Error("Accident", "no folder " + text);
  return comm.broadcast(text, 0);
}

/// A field on its part of a grid.
struct Part {
  Layout layout;
  std::vector<double> cells;

  explicit Part(Comm const& comm) : layout({comm.num_ranks(), 1}, {num_rows, num_columns}) {
    cells.assign(std::size_t(layout.owned(comm.rank()).num_cells()), 1.5);
  }
};

Operation collectives(Comm const& comm) {
  return {[comm] {
            std::array<Index, 2> whole{1, 2};
            std::array<double, 2> real{1, 2};
            comm.max(whole);
            comm.sum(std::span<double>(real));
            (void)comm.gather_to_all(3);
            (void)comm.broadcast("text", 0);
            comm.barrier();
            (void)comm.split(0, 0);
          },
          [comm] { comm.barrier(); }};
}

Operation one_call(Comm const& comm, std::function<void(Comm const&)> const& call) {
  return {[comm, call] { call(comm); },
          [comm] {
            std::array<Index, 3> more{};
            comm.max(more);
          }};
}

Operation halo(Comm const& comm, bool adjoint) {
  struct Filled {
    HaloPlan plan;
    std::vector<double> cells;
  };
  auto const filled = std::make_shared<Filled>(
      Filled{HaloPlan(comm, Part(comm).layout, {{1, 1}, {1, 1}}, Boundary::uniform(2, Edge::periodic)), {}});
  filled->cells.assign(std::size_t(filled->plan.local().num_cells()), 1.0);
  auto const field = field_view(filled->cells.data(), filled->plan.local().extents(), 2);
  return {[=] { adjoint ? filled->plan.exchange_adjoint(field) : filled->plan.exchange(field); },
          [comm] { comm.barrier(); }};
}

Operation plans(Comm const& comm) {
  return {[comm] {
            HaloPlan const plan(comm, Part(comm).layout, {{1, 1}, {1, 1}}, Boundary::uniform(2, Edge::periodic));
          },
          [comm] { comm.barrier(); }};
}

Operation repartition(Comm const& comm) {
  struct Moved {
    RepartitionPlan plan;
    std::vector<double> from;
    std::vector<double> to;
  };
  auto const moved = std::make_shared<Moved>(
      Moved{RepartitionPlan(comm, Part(comm).layout, Layout({1, comm.num_ranks()}, {num_rows, num_columns})), {}, {}});
  moved->from.assign(std::size_t(moved->plan.source_box().num_cells()), 1.0);
  moved->to.assign(std::size_t(moved->plan.target_box().num_cells()), 1.0);
  auto const source = field_view(moved->from.data(), moved->plan.source_box().extents(), 2);
  auto const target = field_view(moved->to.data(), moved->plan.target_box().extents(), 2);
  return {[=] { moved->plan.apply(source, target); }, [=] { moved->plan.apply_adjoint(source, target); }};
}

Operation checkpoint(Comm const& comm) {
  auto const store = std::make_shared<CheckpointStore>(comm, new_folder(comm));
  auto const part = std::make_shared<Part>(comm);
  auto const number = std::make_shared<Index>(0);
  return {[=] {
            auto writer = store->begin(++*number);
            writer.add("z", part->layout, field_view(part->cells.data(), part->layout.owned(comm.rank()).extents(), 2));
            writer.commit();
          },
          [=] { (void)store->newest(); }};
}

std::vector<float> own_values(Box const& box) { return std::vector<float>(std::size_t(box.num_cells()), 2.0F); }

/// A file of records of `u`.
std::filesystem::path write_file(Comm const& comm) {
  auto const path = new_folder(comm) / "u.nc";
  Box const rows = Part(comm).layout.owned(comm.rank());
  FieldWriter writer(comm, path);
  writer.add_dimension("time", 1, DimensionKind::unlimited);
  writer.add_dimension("row", num_rows);
  writer.add_dimension("column", num_columns);
  writer.add_variable({.name = "u", .dimensions = {"time", "row", "column"}});
  Box const box({0, rows.lo(0), 0}, {1, rows.hi(0), num_columns});
  auto const values = own_values(box);
  writer.write("u", box, std::span<float const>(values));
  writer.commit();
  return path;
}

Operation field_read(Comm const& comm) {
  auto const file = std::make_shared<FieldFile>(comm, write_file(comm));
  Box const rows = Part(comm).layout.owned(comm.rank());
  Box const box({0, rows.lo(0), 0}, {1, rows.hi(0), num_columns});
  return {[=] {
            auto values = own_values(box);
            file->read("u", box, std::span<float>(values));
          },
          [comm] { comm.barrier(); }};
}

Operation append(Comm const& comm) {
  auto const path = write_file(comm);
  Box const rows = Part(comm).layout.owned(comm.rank());
  auto const number = std::make_shared<Index>(0);
  return {[=] {
            Index const record = ++*number;
            auto writer = FieldWriter::append(comm, path);
            writer.extend("time", 1);
            Box const box({record, rows.lo(0), 0}, {record + 1, rows.hi(0), num_columns});
            auto const values = own_values(box);
            writer.write("u", box, std::span<float const>(values));
            writer.commit();
          },
          [=] { FieldFile const file(comm, path); }};
}

}  // namespace

int main(int argc, char** argv) {
  return test::run_accident(
      argc, argv,
      {{"collectives", collectives},
       {"gather",
        [](Comm const& comm) { return one_call(comm, [](Comm const& on) { (void)on.gather_to_all(Index(1)); }); }},
       {"plans", plans},
       {"halo", [](Comm const& comm) { return halo(comm, false); }},
       {"halo_adjoint", [](Comm const& comm) { return halo(comm, true); }},
       {"repartition", repartition},
       {"checkpoint", checkpoint},
       {"field_read", field_read},
       {"append", append}});
}
