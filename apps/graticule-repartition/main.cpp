// SPDX-License-Identifier: BSD-3-Clause
// Rewrites an archive of fields in another axis order, chunking, packing and type, within a memory budget.
#include <graticule/app/bytes.hpp>
#include <graticule/app/driver.hpp>
#include <graticule/app/shared_options.hpp>
#include <graticule/app/stopping.hpp>
#include <graticule/field_io/references.hpp>

#include "archive.hpp"

#include <spdlog/spdlog.h>

namespace {

using namespace graticule;

void declare(CLI::App& app, archive::Options& options) {
  app.footer(
      "Examples:\n"
      "  mpiexec -n 4 graticule-repartition maps.nc series.nc --order latitude,longitude,level,time \\\n"
      "      --chunk time=all --deflate 1 --memory 2GiB           # maps to time series\n"
      "  graticule-repartition in.nc out.nc --order time,level,latitude,longitude --chunk time=1 # back");
  app.add_option("IN,--in", options.input, "netCDF-4 or HDF5 file or Zarr store to read")->required();
  app.add_option("OUT,--out", options.output, "netCDF-4 file to write, or a Zarr store (NAME.zarr)");
  app.add_option("--variables", options.variables,
                 "Variables to rewrite; the others are copied unchanged. Default: every variable of two or more "
                 "dimensions; with "
                 "--order, if it names all of them")
      ->delimiter(',');
  app.add_option("--exclude", options.exclude, "Variables to leave out of OUT")->delimiter(',');
  app.add_option("--order", options.order,
                 "Order of the dimensions in OUT, such as latitude,longitude,time: along the last one, values "
                 "lie side by side in the file. Default: as in IN")
      ->delimiter(',');
  app.add_option(
         "--chunk", options.chunk,
         "Cells of a chunk in OUT along each dimension, such as latitude=32,time=all. A chunk is what readers read "
         "and decompress at once. Dimensions that are not named: as in IN.\n"
         "none: no chunks; unlimited dimensions become fixed, and nothing is compressed\n"
         "same: as in IN")
      ->delimiter(',');
  app.add_option("--dtype", options.dtype,
                 "Data type in OUT.\n"
                 "same: as in IN, every bit\n"
                 "f32, f64: numbers of this type, unpacked\n"
                 "i16-packed: 16-bit integers with scale and offset, an error of at most half of scale_factor\n"
                 "Variables with flag_values or flag_masks keep theirs")
      ->check(CLI::IsMember({"same", "f32", "f64", "i16-packed"}));
  app.add_option("--deflate", options.deflate,
                 "Compression in a netCDF-4 file, by zlib.\n"
                 "0: none; 1: fast; 9: slow and little smaller\n"
                 "same: as in IN");
  app.add_flag("--shuffle", options.shuffle,
               "Sort bytes by significance before compression, which makes fields smaller. Default if --deflate "
               "compresses");
  app.add_flag("--no-shuffle", options.no_shuffle, "Do not sort bytes before compression");
  app.add_option(
         "--shard", options.shard,
         "OUT is a Zarr store: cells of a file (shard) along each dimension, such as time=all,latitude=180, which "
         "then holds several chunks. Dimensions that are not named: as a chunk. Default: a file per chunk")
      ->delimiter(',');
  app.add_option(
      "--codec", options.codec,
      "OUT is a Zarr store: its compression: none, gzip, zstd, blosc-zstd, blosc-lz4, ...; zstd:3 is zstd of "
      "level 3. Default: blosc-zstd:3 if Graticule was built with blosc");
  app::add_shared(app, "--memory", options.memory, "buffers and messages, such as 2GiB, 500MB or 64k");
  app.add_option("--writers-per-node", options.writers_per_node, "Ranks of each node that write.\n0: all of them")
      ->check(CLI::Range(0, 1 << 20));
  app.add_option(
         "--references", options.references,
         "In place of OUT: write a JSON file that lists where the chunks of IN lie in its file. Programs that know "
         "such references (kerchunk, xarray, all drivers) then read IN as a Zarr store; nothing is copied")
      ->type_name("FILE.json");
  app.add_flag("--in-place", options.in_place,
               "Allow OUT and IN to be the same file, which is replaced when the new one is complete. "
               "Without this option such a call is refused");
}

using Json = app::Report::Json;

Json numbers(Indices const& values) { return std::vector<Index>(values.begin(), values.end()); }

Json describe(archive::VariableResult const& result) {
  auto const& [rewrite, passes] = result;
  auto const& tiling = passes.last;
  constexpr std::array moves{"none", "within ranks", "between ranks", "through a scratch file"};
  Json json;
  json["name"] = rewrite.target.name;
  json["order"] = rewrite.target.dimensions;
  json["type"] = std::string(to_string(rewrite.target.type));
  json["chunk"] = numbers(rewrite.target.chunk);
  json["deflate"] = rewrite.target.deflate;
  if (rewrite.target.packing) {
    json["scale_factor"] = rewrite.target.packing->scale;
    json["add_offset"] = rewrite.target.packing->offset;
  }
  json["rounds"] = passes.num_rounds();
  json["cells_per_round"] = numbers(tiling.tile);  // in the input's order of axes
  json["readers"] = numbers(tiling.reader_grid);
  json["writers"] = numbers(tiling.writer_grid);
  json["move"] = moves[std::size_t(tiling.move)];
  json["chunk_reads"] = passes.read_factor();
  return json;
}

/// Tells what stayed as it was, and what would have made the run faster.
void advise(Comm const& comm, archive::Result const& result) {
  for (auto const& name : result.ambiguous)
    spdlog::info("{} keeps its order: --order cannot tell its axes apart", name);
  for (auto const& name : result.fixed)
    spdlog::info("dimension {} is no longer unlimited: contiguous fields cannot grow", name);
  for (auto const& name : result.flags)
    spdlog::info("{} keeps its type: its flag_values or flag_masks have that type", name);
  for (auto const& name : result.widened) spdlog::info("{} is not f16: netCDF has no half precision", name);
  for (auto const& name : result.no_fills)
    spdlog::info("_FillValue of {} is left out: readers of OUT have none for such text; its cells are kept", name);
  for (auto const& line : result.fills)
    if (comm.rank() == 0) spdlog::warn("{}", line);
  for (auto const& limit : result.no_limits)
    spdlog::info("{} is left out: it limits stored values, which have changed", limit);
  if (!result.no_scratch.empty())
    spdlog::info("no scratch file beside the output, which would have saved reading chunks again: {}",
                 result.no_scratch);
  for (auto const& [rewrite, passes] : result.variables)
    if (passes.read_factor() > 3)
      spdlog::info("each chunk of {} was read {:.1f} times; a larger --memory or more ranks would reduce this",
                   rewrite.source.name, passes.read_factor());
}

void fill_report(app::Context& context, archive::Options const& options, archive::Result const& result) {
  auto const& comm = context.comm;
  auto const& totals = result.totals;
  auto& report = context.report;
  report.add_seconds("read", totals.read_seconds);
  report.add_seconds("move", totals.move_seconds);
  report.add_seconds("write", totals.write_seconds);
  report.add_seconds("scratch", totals.scratch_seconds);
  auto const total = [&](Index value) {
    std::array<Index, 1> sum{value};
    comm.sum(std::span<Index>(sum));
    return sum[0];
  };
  auto& data = report.data();
  data["output"] = options.output;
  data["memory_bytes"] = app::parse_bytes("--memory", options.memory);
  data["peak_workspace_bytes"] = comm.gather_to_all(totals.peak_bytes);
  data["bytes"] = {{"read", total(totals.read_bytes)},
                   {"moved_between_ranks", total(totals.sent_bytes)},
                   {"written", total(totals.written_bytes)},
                   {"scratch", result.scratch_bytes}};
  data["chunks_inflated"] = total(result.num_chunks);
  auto& transport = data["transport"];
  transport["path"] = comm.num_nodes() == 1 ? Json{{"node", "node-shared"}}
                                            : Json{{"node", "node-shared"}, {"network", "point-to-point"}};
  transport["messages"] = app::minimum_mean_maximum(comm, double(totals.num_messages));
  transport["bytes"] = app::minimum_mean_maximum(comm, double(totals.sent_bytes));
  data["variables"] = Json::array();
  for (auto const& variable : result.variables) data["variables"].push_back(describe(variable));
  for (auto const& [rewrite, passes] : result.variables) {
    if (rewrite.source.ndim() < 2) continue;
    auto const& tiling = passes.last;
    report.set_partition(tiling.writers(tiling.round(0)), rewrite.target.dimensions);
    break;
  }
}

/// Rank 0 alone reads the places of chunks.
int refer(app::Context& context, archive::Options const& options) {
  if (!options.output.empty())
    throw Error(Fault::usage, "BadOption", "--references writes no other output: leave out " + options.output);
  run_agreed(context.comm, [&] {
    if (context.comm.rank() != 0) return;
    for (auto const& reason : write_references(options.input, options.references)) spdlog::warn("{}", reason);
  });
  context.report.data()["output"] = options.references;
  return app::good;
}

int run(app::Context& context, archive::Options const& options) {
  if (!options.references.empty()) return refer(context, options);
  if (options.output.empty())
    throw Error(Fault::usage, "BadOption", "--out is required: the file or store to write; or --references FILE.json");
  app::StopSignals const signals{SIGHUP, SIGINT, SIGTERM, SIGUSR1};
  std::optional<app::Progress> progress;
  auto const result =
      archive::rewrite_file(context.comm, options, [&](Index done, Index all, std::string const& variable) {
        app::end_if_stopped(context.comm, signals);
        if (!progress) progress.emplace(context.progress("rounds", all));
        progress->update(done, variable);
      });
  progress.reset();
  advise(context.comm, result);
  fill_report(context, options, result);
  return app::good;
}

}  // namespace

int main(int argc, char** argv) {
  archive::Options options;
  graticule::app::run_driver(argc, argv,
                             {.name = "graticule-repartition",
                              .description = "Rewrites variables of a netCDF-4 or HDF5 file or a Zarr store in another "
                                             "axis order, chunking, packing and type, "
                                             "in parallel and within a memory budget.",
                              .declare = [&](CLI::App& app) { declare(app, options); },
                              .run = [&](graticule::app::Context& context) { return run(context, options); }});
}
