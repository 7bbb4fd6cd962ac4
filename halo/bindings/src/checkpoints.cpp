// SPDX-License-Identifier: BSD-3-Clause
// Checkpoints of a run.
#include <graticule/field_io/detail/converted.hpp>

#include "handles.hpp"
#include "structures.hpp"

#include <algorithm>
#include <utility>

using namespace graticule;
using namespace graticule::c;

namespace {

FieldView owned_view(Comm const& comm, gr_layout const* layout, gr_field const* field) {
  auto const box = required(layout, "layout").of_boxes("layout").owned(comm.rank());
  return view_of(read_structure(field, {"field"}), box, box, {"field"});
}

/// One value is a number, several are a list.
template <class T>
void add_values(gr_checkpoint_writer* writer, char const* name, int num_values, T const* values) {
  auto& of = required(writer, "writer");
  auto const value = agreed(of.comm, [&]() -> CheckpointValue {
    required(name, "name");
    require_count(num_values, 1, "num_values");
    required(values, "values");
    if (num_values == 1) return values[0];
    return std::vector<T>(values, values + num_values);
  });
  of.writer.add_value(name, value);
}

template <class T>
void write_values(gr_checkpoint const* handle, char const* name, int num_values, T* values) {
  auto const& checkpoint = required(handle, "checkpoint").checkpoint;
  required(values, "values");
  auto const& value = checkpoint.value(&required(name, "name"));
  std::vector<T> all;
  if (auto const* const one = std::get_if<T>(&value))
    all = {*one};
  else
    all = checkpoint.value<std::vector<T>>(name);
  if (num_values != int(all.size()))
    throw bad_argument("num_values is " + std::to_string(num_values) + ", '" + name + "' has " +
                       std::to_string(all.size()) + " values");
  std::copy(all.begin(), all.end(), values);
}

}  // namespace

gr_status gr_checkpoints_create(gr_comm const* comm, char const* folder, int keep, gr_checkpoints** checkpoints) {
  return GR_BODY({
    auto const& of = required(comm, "comm").comm;
    run_agreed(of, [&] {
      required(folder, "folder");
      required(checkpoints, "checkpoints");
    });
    CheckpointOptions options;
    options.keep = keep;
    give(checkpoints, of, folder, options);
  });
}

gr_status gr_checkpoints_destroy(gr_checkpoints** checkpoints) {
  return GR_FREE({ free_handle(checkpoints, "checkpoints"); });
}

gr_status gr_checkpoint_begin(gr_checkpoints* checkpoints, int64_t step, gr_checkpoint_writer** writer) {
  return GR_BODY({
    auto& of = required(checkpoints, "checkpoints");
    run_agreed(of.comm, [&] { required(writer, "writer"); });
    give(writer, of.comm, of.store.begin(step));
  });
}

gr_status gr_checkpoint_writer_destroy(gr_checkpoint_writer** writer) {
  return GR_FREE({ free_handle(writer, "writer"); });
}

gr_status gr_checkpoint_add(gr_checkpoint_writer* writer, char const* name, gr_layout const* layout,
                            gr_field const* field) {
  return GR_BODY({
    auto& of = required(writer, "writer");
    auto const view = agreed(of.comm, [&] {
      required(name, "name");
      return owned_view(of.comm, layout, field);
    });
    of.writer.add(name, required(layout, "layout").layout, view);
  });
}

gr_status gr_checkpoint_add_replicated(gr_checkpoint_writer* writer, char const* name, gr_field const* field) {
  return GR_BODY({
    auto& of = required(writer, "writer");
    auto const view = agreed(of.comm, [&] {
      required(name, "name");
      return memory_of(read_structure(field, {"field"}), {"field"});
    });
    of.writer.add(name, view);
  });
}

gr_status gr_checkpoint_add_integers(gr_checkpoint_writer* writer, char const* name, int num_values,
                                     int64_t const* values) {
  return GR_BODY({ add_values(writer, name, num_values, values); });
}

gr_status gr_checkpoint_add_reals(gr_checkpoint_writer* writer, char const* name, int num_values,
                                  double const* values) {
  return GR_BODY({ add_values(writer, name, num_values, values); });
}

gr_status gr_checkpoint_add_text(gr_checkpoint_writer* writer, char const* name, char const* text) {
  return GR_BODY({
    auto& of = required(writer, "writer");
    auto const value = agreed(of.comm, [&] {
      required(name, "name");
      return CheckpointValue(std::string(&required(text, "text")));
    });
    of.writer.add_value(name, value);
  });
}

gr_status gr_checkpoint_commit(gr_checkpoint_writer* writer) {
  return GR_BODY({ (void)required(writer, "writer").writer.commit(); });
}

gr_status gr_checkpoints_newest(gr_checkpoints* checkpoints, gr_checkpoint** checkpoint) {
  return GR_BODY({
    auto& of = required(checkpoints, "checkpoints");
    run_agreed(of.comm, [&] { required(checkpoint, "checkpoint"); });
    auto found = of.store.newest();
    *checkpoint = nullptr;
    if (found) give(checkpoint, of.comm, std::move(*found));
  });
}

gr_status gr_checkpoints_skipped(gr_checkpoints const* checkpoints, char const** text) {
  return GR_BODY({
    auto const& of = required(checkpoints, "checkpoints");
    std::string lines;
    for (auto const& one : of.store.skipped())
      lines += (lines.empty() ? "" : "\n") + one.path.string() + ": " + one.reason;
    required(text, "text") = kept_text(lines);
  });
}

gr_status gr_checkpoint_open(gr_comm const* comm, char const* path, gr_checkpoint** checkpoint) {
  return GR_BODY({
    auto const& of = required(comm, "comm").comm;
    run_agreed(of, [&] {
      required(path, "path");
      required(checkpoint, "checkpoint");
    });
    give(checkpoint, of, Checkpoint(of, path));
  });
}

gr_status gr_checkpoint_close(gr_checkpoint** checkpoint) {
  return GR_FREE({ free_handle(checkpoint, "checkpoint"); });
}

gr_status gr_checkpoint_step(gr_checkpoint const* checkpoint, int64_t* step) {
  return GR_BODY({ required(step, "step") = required(checkpoint, "checkpoint").checkpoint.step(); });
}

gr_status gr_checkpoint_path(gr_checkpoint const* checkpoint, char const** path) {
  return GR_BODY(
      { required(path, "path") = kept_text(required(checkpoint, "checkpoint").checkpoint.path().string()); });
}

gr_status gr_checkpoint_has(gr_checkpoint const* checkpoint, char const* name, int* found) {
  return GR_BODY({
    auto const& of = required(checkpoint, "checkpoint").checkpoint;
    required(name, "name");
    required(found, "found") = of.has_field(name) || of.has_value(name) ? 1 : 0;
  });
}

namespace {

/// An error about the type names the call that converts.
template <class Read, class Convert>
void read_as_asked(Object<gr_checkpoint> const& checkpoint, Read const& read, Convert const& convert) {
  if (checkpoint.converts) return convert();
  try {
    read();
  } catch (Error const& error) {
    if (error.rule() != "WrongType") throw;
    throw Error(error.fault(), error.rule(), error.text() + "; gr_checkpoint_convert makes reads convert");
  }
}

}  // namespace

gr_status gr_checkpoint_read(gr_checkpoint const* checkpoint, char const* name, gr_layout const* layout,
                             gr_field const* field) {
  return GR_BODY({
    auto const& of = required(checkpoint, "checkpoint");
    auto const view = agreed(of.comm, [&] {
      required(name, "name");
      return owned_view(of.comm, layout, field);
    });
    auto const& on = required(layout, "layout").layout;
    read_as_asked(
        of, [&] { of.checkpoint.read(name, on, view); }, [&] { read_converted(of.checkpoint, name, on, view); });
  });
}

gr_status gr_checkpoint_read_replicated(gr_checkpoint const* checkpoint, char const* name, gr_field const* field) {
  return GR_BODY({
    auto const& of = required(checkpoint, "checkpoint");
    auto const view = agreed(of.comm, [&] {
      required(name, "name");
      return memory_of(read_structure(field, {"field"}), {"field"});
    });
    read_as_asked(
        of, [&] { of.checkpoint.read(name, view); }, [&] { read_converted(of.checkpoint, name, view); });
  });
}

gr_status gr_checkpoint_convert(gr_checkpoint* checkpoint, int converts) {
  return GR_BODY({ required(checkpoint, "checkpoint").converts = converts != 0; });
}

gr_status gr_checkpoint_integers(gr_checkpoint const* checkpoint, char const* name, int num_values, int64_t* values) {
  return GR_BODY({ write_values(checkpoint, name, num_values, values); });
}

gr_status gr_checkpoint_reals(gr_checkpoint const* checkpoint, char const* name, int num_values, double* values) {
  return GR_BODY({ write_values(checkpoint, name, num_values, values); });
}

gr_status gr_checkpoint_text(gr_checkpoint const* checkpoint, char const* name, char const** text) {
  return GR_BODY({
    auto const& of = required(checkpoint, "checkpoint").checkpoint;
    required(name, "name");
    required(text, "text") = kept_text(of.value<std::string>(name));
  });
}

gr_status gr_checkpoint_verify(gr_checkpoint const* checkpoint) {
  return GR_BODY({ required(checkpoint, "checkpoint").checkpoint.verify(); });
}
