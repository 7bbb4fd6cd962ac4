// SPDX-License-Identifier: BSD-3-Clause
#include "contents.hpp"
#include "hdf5/value_bytes.hpp"

namespace graticule::detail {

namespace {

void visit(auto& io, auto& contents) {
  io.number(contents.step);
  io.number(contents.number);
  io.list(contents.fields, [&](auto& field) {
    io.values(field.name);
    io.number(field.dtype);
    io.indices(field.extents);
    io.indices(field.grid_axes);
    visit_attributes(io, field.attributes);
  });
  io.values(contents.checksums);
  io.values(contents.offsets);
  io.list(contents.values, [&](auto& value) {
    io.values(value.first);
    io.variant(value.second);
  });
}

}  // namespace

std::string to_bytes(CheckpointContents const& contents) {
  ByteWriter out;
  visit(out, contents);
  return out.take();
}

CheckpointContents checkpoint_contents_from_bytes(std::string_view bytes) {
  ByteReader in(bytes);
  CheckpointContents contents;
  visit(in, contents);
  return contents;
}

}  // namespace graticule::detail
