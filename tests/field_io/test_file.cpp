// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/field_io/file.hpp>
#include <graticule/partition/cells.hpp>
#include <graticule/partition/cuts.hpp>

#include "mpi/pmpi_shim.hpp"
#include "sample_files.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <limits>
#include <random>
#include <stdexcept>
#include <string_view>

namespace graticule {
namespace {

using test::DatasetSpec;
using test::Folder;
using test::NewFile;
using test::row_major;

constexpr double nan = std::numeric_limits<double>::quiet_NaN();

/// Value of cell `i`, small enough for every integer type.
double formula(Index i) { return double(i * 37 % 101); }

Box random_box(Indices const& extents, std::mt19937& random) {
  Box box = Box::from_extents(extents);
  for (int axis = 0; axis < box.ndim(); ++axis) {
    Index const a = Index(random() % std::uint32_t(extents[axis] + 1));
    Index const b = Index(random() % std::uint32_t(extents[axis] + 1));
    box.set(axis, std::min(a, b), std::max(a, b));
  }
  return box;
}

template <class Value>
void expect_formula(FieldFile const& file, std::string const& name, Indices const& extents, Box const& box) {
  std::vector<Value> values(std::size_t(box.num_cells()), Value(-1));

  file.read(name, box, std::span(values));

  std::size_t i = 0;
  for_each_cell(box, [&](Indices const& cell) {
    ASSERT_EQ(values[i], Value(formula(row_major(extents, cell)))) << name << to_string(cell);
    ++i;
  });
}

struct StoredCase {
  char const* name;
  hid_t type;
};

void write_all_types(std::filesystem::path const& path, std::vector<StoredCase> const& cases) {
  NewFile const file(path);
  std::vector<double> values(std::size_t(5 * 7 * 6));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = formula(Index(i));
  for (auto const& one : cases) {
    test::write_dataset(file, {one.name, one.type, {5, 7, 6}}, H5T_NATIVE_DOUBLE, values.data());
    auto const chunked = std::string(one.name) + "_chunked";
    test::write_dataset(file, {chunked, one.type, {5, 7, 6}, {2, 3, 6}}, H5T_NATIVE_DOUBLE, values.data());
    auto const deflated = std::string(one.name) + "_deflated";
    test::write_dataset(file, {deflated, one.type, {5, 7, 6}, {1, 4, 5}, 4}, H5T_NATIVE_DOUBLE, values.data());
  }
}

hid_t half_type() {
  hid_t const type = H5Tcopy(H5T_IEEE_F32LE);
  H5Tset_fields(type, 15, 10, 5, 0, 10);
  H5Tset_size(type, 2);
  H5Tset_ebias(type, 15);
  return type;
}

TEST(FieldFile, reads_random_boxes_of_every_type_byte_order_and_storage) {
  auto const comm = Comm::world();
  Folder const folder(comm);
  hid_t const half = half_type();
  std::vector<StoredCase> const cases{
      {"i8", H5T_STD_I8LE},    {"u8", H5T_STD_U8LE},      {"i16", H5T_STD_I16LE},    {"i16be", H5T_STD_I16BE},
      {"u16", H5T_STD_U16LE},  {"i32", H5T_STD_I32LE},    {"i32be", H5T_STD_I32BE},  {"u32be", H5T_STD_U32BE},
      {"i64", H5T_STD_I64LE},  {"i64be", H5T_STD_I64BE},  {"u64", H5T_STD_U64LE},    {"f32", H5T_IEEE_F32LE},
      {"f64", H5T_IEEE_F64LE}, {"f32be", H5T_IEEE_F32BE}, {"f64be", H5T_IEEE_F64BE}, {"f16", half}};
  auto const path = folder.make("types.h5", [&](auto const& p) { write_all_types(p, cases); });
  FieldFile const file(comm, path);
  Indices const extents{5, 7, 6};
  std::mt19937 random(unsigned(comm.rank()) + 1);

  int turn = 0;
  for (auto const& one : cases)
    for (auto const* storage : {"", "_chunked", "_deflated"}) {
      if (comm.num_ranks() > 2 && turn++ % 5 != 0) continue;
      // Collective reads are slow where ranks outnumber cores: each type meets both memory types, not all pairs.
      auto const name = one.name + std::string(storage);
      auto const box = turn % 3 == 0 ? Box::from_extents(extents) : random_box(extents, random);
      if (turn % 2 == 0) expect_formula<float>(file, name, extents, box);
      if (turn % 2 == 1 || comm.num_ranks() < 3) expect_formula<double>(file, name, extents, box);
      if (comm.num_ranks() < 3) ++turn;
    }
  H5Tclose(half);
}

TEST(FieldFile, gives_the_same_values_in_pieces_of_any_size) {
  auto const comm = Comm::world();
  Folder const folder(comm);
  auto const path = folder.make("types.h5", [&](auto const& p) { write_all_types(p, {{"f32", H5T_IEEE_F32LE}}); });
  Indices const extents{5, 7, 6};
  std::mt19937 random(unsigned(comm.rank()) + 7);

  for (Index const bytes : comm.num_ranks() > 2 ? std::vector<Index>{400} : std::vector<Index>{90, 100, 1000}) {
    FieldFile const file(comm, path, {.piece_bytes = bytes});
    // Ranks with smaller boxes need fewer pieces and take part without cells.
    auto const box = comm.rank() == 0 ? Box::from_extents(extents) : random_box(extents, random);
    expect_formula<float>(file, "f32", extents, box);
    expect_formula<double>(file, "f32_chunked", extents, box);
    expect_formula<float>(file, "f32_deflated", extents, box);
    FieldFile const all_together(comm, path, {.piece_bytes = bytes, .calls = ReadCalls::collective});
    expect_formula<double>(all_together, "f32", extents, box);
    expect_formula<float>(all_together, "f32_chunked", extents, box);
  }
}

/// A variable of netCDF without fill values, never written or in its first chunk alone.
void add_unfilled(hid_t file, char const* name, hsize_t chunk, bool is_packed,
                  H5D_fill_time_t time = H5D_FILL_TIME_NEVER) {
  hsize_t const extent = 6;
  hid_t const space = H5Screate_simple(1, &extent, nullptr);
  hid_t const creation = H5Pcreate(H5P_DATASET_CREATE);
  H5Pset_fill_time(creation, time);
  if (chunk > 0) H5Pset_chunk(creation, 1, &chunk);
  if (is_packed) H5Pset_deflate(creation, 1);
  hid_t const dataset = H5Dcreate2(file, name, H5T_IEEE_F32LE, space, H5P_DEFAULT, creation, H5P_DEFAULT);
  if (chunk > 0) {
    hsize_t const start = 0;
    hid_t const part = H5Screate_simple(1, &chunk, nullptr);
    H5Sselect_hyperslab(space, H5S_SELECT_SET, &start, nullptr, &chunk, nullptr);
    std::vector<float> const values(std::size_t(chunk), 7.0F);
    H5Dwrite(dataset, H5T_NATIVE_FLOAT, part, space, H5P_DEFAULT, values.data());
    H5Sclose(part);
  }
  H5Dclose(dataset);
  H5Pclose(creation);
  H5Sclose(space);
}

TEST(FieldFile, cells_that_were_never_written_are_missing_without_a_fill_value_too) {
  auto const comm = Comm::world();
  Folder const folder(comm);
  auto const path = folder.make("unfilled.h5", [](auto const& p) {
    NewFile const file(p);
    add_unfilled(file, "never", 0, false);
    add_unfilled(file, "chunked", 3, false);
    add_unfilled(file, "packed", 3, true);
    add_unfilled(file, "zero", 3, false, H5D_FILL_TIME_IFSET);
  });
  for (auto const calls : {ReadCalls::independent, ReadCalls::collective}) {
    FieldFile const file(comm, path, {.calls = calls});
    std::vector<double> zeros(6, 1.0);
    file.read("zero", Box({0}, {6}), std::span(zeros));
    EXPECT_EQ(zeros, (std::vector<double>{7, 7, 7, 0, 0, 0})) << "by HDF5's own fill value";
    for (auto const* name : {"never", "chunked", "packed"}) {
      std::vector<double> values(6, 1.0);
      std::vector<std::byte> stored(24, std::byte{1});
      file.read(name, Box({0}, {6}), std::span(values));
      file.read_stored(name, Box({0}, {6}), stored);
      for (std::size_t i = 0; i < 6; ++i) {
        bool const is_written = i < 3 && std::string_view(name) != "never";
        EXPECT_TRUE(is_written ? values[i] == 7.0 : std::isnan(values[i])) << name << i << " " << values[i];
        float number = 0;
        std::memcpy(&number, stored.data() + 4 * i, sizeof number);
        EXPECT_EQ(number, is_written ? 7.0F : 9.96921e36F) << name << i;
      }
    }
  }
}

/// A file whose properties `more` chooses, with the dataset z of `extents`.
void write_by(std::filesystem::path const& path, Indices const& extents,
              std::function<void(hid_t creation, hid_t access, hid_t dataset)> const& more) {
  hid_t const creation = H5Pcreate(H5P_FILE_CREATE);
  hid_t const access = H5Pcreate(H5P_FILE_ACCESS);
  hid_t const dataset_creation = H5Pcreate(H5P_DATASET_CREATE);
  more(creation, access, dataset_creation);
  std::vector<hsize_t> const sizes(extents.begin(), extents.end());
  std::vector<float> values;
  for (Index i = 0; i < Box::from_extents(extents).num_cells(); ++i) values.push_back(float(formula(i)));
  hid_t const file = H5Fcreate(path.c_str(), H5F_ACC_TRUNC, creation, access);
  hid_t const space = H5Screate_simple(int(sizes.size()), sizes.data(), nullptr);
  hid_t const dataset = H5Dcreate2(file, "z", H5T_IEEE_F32BE, space, H5P_DEFAULT, dataset_creation, H5P_DEFAULT);
  herr_t const written = H5Dwrite(dataset, H5T_NATIVE_FLOAT, H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data());
  for (hid_t const id : {dataset, space}) H5Idec_ref(id);
  H5Fclose(file);
  for (hid_t const id : {creation, access, dataset_creation}) H5Pclose(id);
  if (written < 0) throw std::runtime_error("cannot write " + path.string());
}

/// Data in one piece are read without HDF5, whose addresses are not always places in the file.
TEST(FieldFile, finds_data_in_one_piece_wherever_they_lie) {
  auto const comm = Comm::world();
  Folder const folder(comm);
  Indices const extents{5, 7, 9};
  auto const nothing = [](hid_t, hid_t, hid_t) {};
  auto const block_of = [](hsize_t bytes) {
    return [bytes](hid_t creation, hid_t, hid_t) { H5Pset_userblock(creation, bytes); };
  };
  auto const paged = [](hid_t creation, hid_t access, hid_t) {
    H5Pset_file_space_strategy(creation, H5F_FSPACE_STRATEGY_PAGE, true, 1);
    H5Pset_file_space_page_size(creation, 4096);
    H5Pset_libver_bounds(access, H5F_LIBVER_V110, H5F_LIBVER_V110);
  };
  auto const compact = [](hid_t, hid_t, hid_t dataset) { H5Pset_layout(dataset, H5D_COMPACT); };
  std::vector<std::filesystem::path> const paths{
      folder.make("plain.h5", [&](auto const& p) { write_by(p, extents, nothing); }),
      folder.make("block.h5", [&](auto const& p) { write_by(p, extents, block_of(1024)); }),
      folder.make("paged.h5", [&](auto const& p) { write_by(p, extents, paged); }),
      folder.make("compact.h5", [&](auto const& p) { write_by(p, extents, compact); }),
      // Something else was put before the file, or its user block was cut off.
      folder.make("before.h5",
                  [&](auto const& p) {
                    test::write_bytes(p, std::string(2048, 'x') + test::read_bytes(p.parent_path() / "plain.h5"));
                  }),
      folder.make("cut.h5", [&](auto const& p) {
        test::write_bytes(p, test::read_bytes(p.parent_path() / "block.h5").substr(1024));
      })};
  Box const box({1, Index(comm.rank() % 3), 2}, {4, 7, 8});
  for (auto const& path : paths)
    for (auto const calls : {ReadCalls::independent, ReadCalls::collective}) {
      SCOPED_TRACE(path);
      FieldFile const file(comm, path, {.calls = calls});
      expect_formula<float>(file, "z", extents, box);
    }
}

TEST(FieldFile, reads_the_file_that_it_opened_after_another_one_got_its_name) {
  auto const comm = Comm::world();
  Folder const folder(comm);
  Indices const extents{5, 7, 9};
  auto const nothing = [](hid_t, hid_t, hid_t) {};
  auto const path = folder.make("z.h5", [&](auto const& p) { write_by(p, extents, nothing); });
  FieldFile const file(comm, path);
  auto const other = folder.make("other.h5", [&](auto const& p) {
    NewFile const made(p);
    std::vector<float> const values(4000, -5.0F);
    test::write_dataset(made, {"a", H5T_IEEE_F32BE, {4000}}, H5T_NATIVE_FLOAT, values.data());
    test::write_dataset(made, {"z", H5T_IEEE_F32BE, {5, 7, 9}}, H5T_NATIVE_FLOAT, values.data());
  });
  (void)folder.make("done", [&](auto const&) { std::filesystem::rename(other, path); });

  expect_formula<float>(file, "z", extents, Box({0, Index(comm.rank() % 3), 0}, {5, 7, 9}));
}

TEST(FieldFile, says_how_to_join_the_files_of_dividing_drivers) {
  auto const comm = Comm::world();
  Folder const folder(comm);
  auto const family_of = [](hsize_t bytes) {
    return [bytes](hid_t, hid_t access, hid_t) { H5Pset_fapl_family(access, bytes, H5P_DEFAULT); };
  };
  (void)folder.make("family%d.h5", [&](auto const& p) { write_by(p, {40, 40}, family_of(4096)); });
  (void)folder.make("large%d.h5", [&](auto const& p) { write_by(p, {40, 40}, family_of(1 << 20)); });
  (void)folder.make("split", [&](auto const& p) {
    write_by(p, {40, 40},
             [](hid_t, hid_t access, hid_t) { H5Pset_fapl_split(access, "-m.h5", H5P_DEFAULT, "-r.h5", H5P_DEFAULT); });
  });
  for (auto const& [name, remedy] : {std::pair{"family0.h5", "h5repart -family_to_single"},
                                     {"large0.h5", "h5repart -family_to_single"},
                                     {"split-m.h5", "h5repack"}}) {
    try {
      FieldFile const file(comm, folder / name);
      ADD_FAILURE() << "opened " << name;
    } catch (Error const& error) {
      EXPECT_EQ(error.rule(), "UnsupportedFile") << error.text();
      EXPECT_NE(error.text().find(remedy), std::string::npos) << error.text();
    }
  }
}

TEST(FieldFile, unpacks_in_double_and_compares_missing_values_packed) {
  auto const comm = Comm::world();
  Folder const folder(comm);
  std::vector<std::int16_t> const packed{-32767, -5, 0, 7, 32767, -32768};
  auto const path = folder.make("packed.h5", [&](auto const& p) {
    NewFile const file(p);
    for (auto const* name : {"little", "big"}) {
      auto const stored = std::string(name) == "big" ? H5T_STD_I16BE : H5T_STD_I16LE;
      test::write_dataset(file, {name, stored, {6}}, H5T_NATIVE_INT16, packed.data(), [](hid_t dataset) {
        test::write_number(dataset, "scale_factor", -1.7250274674968);
        test::write_number(dataset, "add_offset", 66825.5);
        std::int16_t const fill = -32767;
        test::write_number(dataset, "_FillValue", H5T_STD_I16LE, H5T_NATIVE_INT16, &fill);
        std::int16_t const missing = 7;
        test::write_number(dataset, "missing_value", H5T_STD_I16LE, H5T_NATIVE_INT16, &missing);
      });
    }
  });
  FieldFile const file(comm, path);

  for (auto const* name : {"little", "big"}) {
    std::vector<double> doubles(6);
    std::vector<float> floats(6);
    file.read(name, Box({0}, {6}), std::span(doubles));
    file.read(name, Box({0}, {6}), std::span(floats));

    std::vector<double> expected;
    for (auto const value : packed)
      expected.push_back(value == -32767 || value == 7 ? nan : value * -1.7250274674968 + 66825.5);
    for (std::size_t i = 0; i < 6; ++i) {
      EXPECT_EQ(std::isnan(doubles[i]), std::isnan(expected[i])) << i;
      EXPECT_EQ(std::isnan(floats[i]), std::isnan(expected[i])) << i;
      if (std::isnan(expected[i])) continue;
      EXPECT_EQ(doubles[i], expected[i]) << i;
      EXPECT_EQ(floats[i], float(expected[i])) << i;
    }
  }
}

struct MissingCase {
  char const* what;
  hid_t stored;
  double value;    ///< in the file
  double missing;  ///< the attribute, as double
  bool is_missing;
};

TEST(FieldFile, reads_beside_attributes_without_elements_and_limits_of_64_unsigned_bits) {
  auto const comm = Comm::world();
  Folder const folder(comm);
  auto const path = folder.make("attributes.h5", [](auto const& p) {
    NewFile const file(p);
    std::vector<float> const values{1, 2, 3};
    test::write_dataset(file, {"z", H5T_STD_I16LE, {3}}, H5T_NATIVE_FLOAT, values.data(), [](hid_t z) {
      auto const most = std::numeric_limits<std::uint64_t>::max();
      test::write_number(z, "valid_max", H5T_STD_U64LE, H5T_NATIVE_UINT64, &most);
      hsize_t const none = 0;
      hid_t const space = H5Screate_simple(1, &none, nullptr);
      H5Aclose(H5Acreate2(z, "add_offset", H5T_IEEE_F64LE, space, H5P_DEFAULT, H5P_DEFAULT));
      H5Sclose(space);
    });
  });
  FieldFile const file(comm, path);
  std::vector<double> values(3);

  file.read("z", Box({0}, {3}), std::span(values));

  EXPECT_EQ(values, (std::vector<double>{1, 2, 3}));
  EXPECT_EQ(file.variable("z").attribute("valid_max")->numbers(), std::vector<double>{std::ldexp(1.0, 64)});
  EXPECT_EQ(file.variable("z").attribute("add_offset"), nullptr);
}

TEST(FieldFile, takes_a_missing_value_of_another_type_as_the_variable_would_hold_it) {
  auto const comm = Comm::world();
  Folder const folder(comm);
  hid_t const half = half_type();
  std::vector<MissingCase> const cases{
      {"float rounds the double", H5T_IEEE_F32LE, double(9.999e20F), 9.999e20, true},
      {"short without fraction", H5T_STD_I16LE, 3, 3.5, false},
      {"short out of range", H5T_STD_I16LE, -1, 65535, false},
      {"NaN for a short", H5T_STD_I16LE, 0, nan, false},
      {"zero of either sign", H5T_IEEE_F64LE, -0.0, 0.0, true},
      {"byte", H5T_STD_U8LE, 255, 255, true},
      {"big-endian int", H5T_STD_I32BE, -999, -999, true},
      {"big-endian float", H5T_IEEE_F32BE, -999.5, -999.5, true},
      {"half", half, 65504, 65504, true},
      {"half zero of either sign", half, -0.0, 0.0, true},
      {"int64 beyond 2^53", H5T_STD_I64LE, 9007199254740992.0, 9007199254740994.0, false}};
  auto const path = folder.make("missing.h5", [&](auto const& p) {
    NewFile const file(p);
    for (auto const& one : cases)
      test::write_dataset(file, {one.what, one.stored, {1}}, H5T_NATIVE_DOUBLE, &one.value,
                          [&](hid_t dataset) { test::write_number(dataset, "missing_value", one.missing); });
  });
  FieldFile const file(comm, path);

  for (auto const& one : cases) {
    std::array<double, 1> value{-7};
    file.read(one.what, Box({0}, {1}), value);

    EXPECT_EQ(std::isnan(value[0]), one.is_missing) << one.what;
    if (!one.is_missing) {
      EXPECT_EQ(value[0], one.value) << one.what;
    }
  }
  H5Tclose(half);
}

TEST(FieldFile, reads_signed_bytes_as_unsigned_where_the_file_says_so) {
  auto const comm = Comm::world();
  Folder const folder(comm);
  auto const path = folder.make("unsigned.h5", [](auto const& p) {
    NewFile const file(p);
    std::int8_t const value = -2;
    test::write_dataset(file, {"b", H5T_STD_I8LE, {1}}, H5T_NATIVE_INT8, &value, [](hid_t dataset) {
      hid_t const text = H5Tcopy(H5T_C_S1);
      H5Tset_size(text, 4);
      test::write_number(dataset, "_Unsigned", text, text, "true");
      H5Tclose(text);
    });
  });
  FieldFile const file(comm, path);
  std::array<double, 1> value{};

  file.read("b", Box({0}, {1}), value);

  EXPECT_EQ(value[0], 254);
}

/// A fill value of -1 is the byte 255, whether it is given as stored or as what it means.
TEST(FieldFile, finds_missing_cells_of_unsigned_data_by_signed_and_unsigned_attributes) {
  auto const comm = Comm::world();
  if (!test::has_tool("ncgen")) GTEST_SKIP() << "ncgen (netcdf-bin) is not installed";
  Folder const folder(comm);
  auto const path = folder.make("unsigned.nc", [](auto const& p) {
    test::write_cdl(p, R"(netcdf unsigned { dimensions: x = 4; variables:
      byte a(x); a:_Unsigned = "true"; a:_FillValue = -1b;
      byte b(x); b:_Unsigned = "true"; b:missing_value = 255s, -2b; b:scale_factor = 0.5;
      short c(x); c:_Unsigned = "true"; c:missing_value = -3;
      int64 d(x); d:_Unsigned = "true"; d:_FillValue = -1ll;
      ubyte plain(x); plain:missing_value = -1s;
      data: a = 0, 127, -128, -1; b = 2, -2, -3, -1; c = -1, -2, -3, 4; d = 5, -1, 7, 8; plain = 255, 254, 1, 0; })");
  });
  FieldFile const file(comm, path);
  constexpr double none = std::numeric_limits<double>::quiet_NaN();
  struct Case {
    char const* name;
    std::array<double, 4> expected;
  };
  for (auto const& one : std::vector<Case>{{"a", {0, 127, 128, none}},
                                           {"b", {1, none, 126.5, none}},
                                           {"c", {65535, 65534, none, 4}},
                                           {"d", {5, none, 7, 8}},
                                           {"plain", {255, 254, 1, 0}}}) {
    std::array<double, 4> values{};

    file.read(one.name, Box({0}, {4}), values);

    for (std::size_t i = 0; i < values.size(); ++i) {
      EXPECT_EQ(std::isnan(values[i]), std::isnan(one.expected[i])) << one.name << i;
      if (!std::isnan(one.expected[i])) {
        EXPECT_EQ(values[i], one.expected[i]) << one.name << i;
      }
    }
  }
}

/// netCDF-4 lets variables of different lengths share an unlimited dimension.
TEST(FieldFile, cells_beyond_the_end_of_a_short_variable_are_missing) {
  auto const comm = Comm::world();
  if (!test::has_tool("ncgen")) GTEST_SKIP() << "ncgen (netcdf-bin) is not installed";
  Folder const folder(comm);
  auto const path = folder.make("short.nc", [](auto const& p) {
    test::write_cdl(p, R"(netcdf short { dimensions: t = UNLIMITED; x = 3; y = UNLIMITED; variables: int t(t); int y(y);
      short plain(t, x); float big(t, x); big:_Endianness = "big"; big:_FillValue = 1.f; int deflated(t, x);
      deflated:_DeflateLevel = 1; deflated:_ChunkSizes = 3, 2; deflated:scale_factor = 0.5; float both(t, y); char c(t, x);
      float none(t, x); double outer(x, t);
      data: t = 0, 1, 2, 3, 4; y = 5, 6, 7, 8; plain = 1, 2, 3; big = 4, 5, 6, 7, 8, 9;
      deflated = 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24; both = {1, 2, 3}, {4, 5, 6}; c = "abc";
      outer = {1, 2}, {3, 4}, {5, 6}; })");
    test::shorten(p, "plain", {1, 3});
    test::shorten(p, "big", {2, 3});
    test::shorten(p, "deflated", {4, 3});
    test::shorten(p, "both", {2, 3});
    test::shorten(p, "c", {1, 3});
    test::shorten(p, "none", {0, 3});
    test::shorten(p, "outer", {3, 2});
  });
  FieldFile const file(comm, path);
  struct Case {
    char const* name;
    Indices extents;
    Indices in_file;
    double fill;
    double first;
    double step;
  };
  for (auto const& one : std::vector<Case>{{"plain", {5, 3}, {1, 3}, -32767, 1, 1},
                                           {"big", {5, 3}, {2, 3}, 1, 4, 1},
                                           {"deflated", {5, 3}, {4, 3}, -2147483647, 1, 1},
                                           {"both", {5, 4}, {2, 3}, 9.9692099683868690e+36F, 1, 1},
                                           {"none", {5, 3}, {0, 3}, 9.9692099683868690e+36F, 0, 0},
                                           {"outer", {3, 5}, {3, 2}, 9.9692099683868690e+36, 1, 1}}) {
    SCOPED_TRACE(one.name);
    auto const& variable = file.variable(one.name);
    ASSERT_EQ(variable.extents, one.extents);
    ASSERT_EQ(variable.stored_extents, one.in_file);
    auto const expected = [&](Index i, Index j) {
      return i < one.in_file[0] && j < one.in_file[1] ? one.first + one.step * double(i * one.in_file[1] + j)
                                                      : std::numeric_limits<double>::quiet_NaN();
    };
    // Each rank has its own box: within, across and beyond the end.
    for (Index turn = 0; turn < 6; ++turn) {
      Index const lo = (turn + comm.rank()) % one.extents[0];
      Box const box({lo, turn % 2}, {std::min<Index>(lo + 1 + turn % 3, one.extents[0]), one.extents[1]});
      std::vector<double> values(std::size_t(box.num_cells()));
      file.read(one.name, box, std::span(values));
      std::size_t k = 0;
      for (Index i = box.lo(0); i < box.hi(0); ++i)
        for (Index j = box.lo(1); j < box.hi(1); ++j, ++k) {
          EXPECT_EQ(std::isnan(values[k]), std::isnan(expected(i, j))) << i << " " << j;
          if (!std::isnan(expected(i, j))) {
            EXPECT_EQ(values[k], expected(i, j)) << i << " " << j;
          }
        }
    }
    std::vector<float> picked(std::size_t((one.extents[0] + 1) / 2 * one.extents[1]));
    FileSelection const selection{.box = Box::from_extents(one.extents), .steps = {-2, 1}};
    file.read(one.name, selection, field_view(picked.data(), {(one.extents[0] + 1) / 2, one.extents[1]}, 2));
    for (Index i = 0; i < (one.extents[0] + 1) / 2; ++i)
      for (Index j = 0; j < one.extents[1]; ++j) {
        auto const wanted = expected(one.extents[0] - 1 - 2 * i, j);
        auto const found = picked[std::size_t(i * one.extents[1] + j)];
        EXPECT_TRUE(std::isnan(wanted) ? std::isnan(found) : found == wanted) << i << " " << j << " " << found;
      }
    // Stored, with the value that netCDF shows.
    auto const all = Box::from_extents(one.extents);
    std::vector<std::byte> bytes(std::size_t(all.num_cells() * variable.value_bytes));
    file.read_stored(one.name, all, bytes);
    auto const* const last = bytes.data() + bytes.size() - variable.value_bytes;
    double stored = 0;
    if (variable.type == ValueType::i16) stored = *reinterpret_cast<std::int16_t const*>(last);
    if (variable.type == ValueType::i32) stored = *reinterpret_cast<std::int32_t const*>(last);
    if (variable.type == ValueType::f32) stored = *reinterpret_cast<float const*>(last);
    if (variable.type == ValueType::f64) stored = *reinterpret_cast<double const*>(last);
    EXPECT_EQ(stored, one.fill);
  }
  std::vector<std::byte> text(15);
  file.read_stored("c", Box({0, 0}, {5, 3}), text);
  EXPECT_EQ(std::string(reinterpret_cast<char const*>(text.data()), 15), std::string("abc") + std::string(12, '\0'));
}

TEST(FieldFile, reads_scalars_and_empty_variables) {
  auto const comm = Comm::world();
  Folder const folder(comm);
  auto const path = folder.make("scalar.h5", [](auto const& p) {
    NewFile const file(p);
    double const value = 2.5;
    hid_t const space = H5Screate(H5S_SCALAR);
    hid_t const dataset = H5Dcreate2(file, "scalar", H5T_IEEE_F64LE, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
    H5Dwrite(dataset, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, &value);
    H5Dclose(dataset);
    H5Sclose(space);
    test::write_dataset(file, {"none", H5T_IEEE_F32LE, {0, 4}, {1, 4}}, H5T_NATIVE_DOUBLE, &value);
  });
  FieldFile const file(comm, path);
  std::array<float, 1> scalar{};

  file.read("scalar", Box(), scalar);
  file.read("none", Box({0, 0}, {0, 4}), std::span<float>());

  EXPECT_EQ(scalar[0], 2.5F);
  EXPECT_EQ(file.variable("none").extents, (Indices{0, 4}));
}

TEST(FieldFile, throws_on_all_ranks_for_a_wrong_box_on_one_and_stays_usable) {
  auto const comm = Comm::world();
  Folder const folder(comm);
  auto const path = folder.make("types.h5", [&](auto const& p) { write_all_types(p, {{"f64", H5T_IEEE_F64LE}}); });
  FieldFile const file(comm, path);
  Indices const extents{5, 7, 6};
  bool const last = comm.rank() == comm.num_ranks() - 1;
  auto const rule_of = [&](Box const& box, std::size_t num_values) {
    std::vector<double> values(num_values);
    try {
      file.read("f64", box, std::span(values));
    } catch (Error const& error) {
      return error.rule();
    }
    return std::string();
  };

  EXPECT_EQ(rule_of(last ? Box({0, 0, 0}, {6, 7, 6}) : Box({0, 0, 0}, {1, 1, 1}), last ? 252 : 1), "OutOfRange");
  EXPECT_EQ(rule_of(last ? Box({0, 0}, {1, 1}) : Box({0, 0, 0}, {1, 1, 1}), 1), "OutOfRange");
  EXPECT_EQ(rule_of(Box({0, 0, 0}, {1, 1, 1}), last ? 2 : 1), "ShapeMismatch");
  expect_formula<double>(file, "f64", extents, Box::from_extents(extents));
}

TEST(FieldFile, a_damaged_chunk_is_one_error_on_all_ranks) {
  auto const comm = Comm::world();
  Folder const folder(comm);
  auto const path = folder.make("damaged.h5", [&](auto const& p) {
    write_all_types(p, {{"f64", H5T_IEEE_F64LE}});
    // HDF5 itself says where the chunk lies.
    hid_t const file = H5Fopen(p.c_str(), H5F_ACC_RDONLY, H5P_DEFAULT);
    hid_t const dataset = H5Dopen2(file, "f64_deflated", H5P_DEFAULT);
    hsize_t offset[3];
    unsigned mask = 0;
    haddr_t address = 0;
    hsize_t size = 0;
    hid_t const space = H5Dget_space(dataset);
    H5Dget_chunk_info(dataset, space, 0, offset, &mask, &address, &size);
    H5Sclose(space);
    H5Dclose(dataset);
    H5Fclose(file);
    auto bytes = test::read_bytes(p);
    for (hsize_t i = 0; i < size; ++i) bytes[address + i] = '\x55';
    test::write_bytes(p, bytes);
  });
  FieldFile const file(comm, path);
  // The damaged chunk is the first one, and only the last rank needs it.
  bool const last = comm.rank() == comm.num_ranks() - 1;
  Box const box = last ? Box({0, 0, 0}, {1, 7, 6}) : Box({4, 0, 0}, {5, 7, 6});
  std::vector<double> values(42);

  try {
    file.read("f64_deflated", box, std::span(values));
    FAIL() << "read a damaged chunk";
  } catch (Error const& error) {
    EXPECT_EQ(error.fault(), Fault::input);
    EXPECT_EQ(error.rule(), "BrokenFile");
    EXPECT_NE(error.text().find("damaged.h5"), std::string::npos) << error.text();
    EXPECT_NE(error.text().find("f64_deflated"), std::string::npos) << error.text();
  }
  expect_formula<double>(file, "f64", {5, 7, 6}, Box({0, 0, 0}, {5, 7, 6}));
}

TEST(FieldFile, refuses_by_name_what_it_cannot_read) {
  auto const comm = Comm::world();
  Folder const folder(comm);
  auto const path = folder.make("refused.h5", [&](auto const& p) {
    std::vector<double> const values(8, 1.0);
    {
      NewFile const other(p.parent_path() / "other.h5");
      test::write_dataset(other, {"x", H5T_IEEE_F64LE, {8}}, H5T_NATIVE_DOUBLE, values.data());
    }
    NewFile const file(p);
    H5Lcreate_external("other.h5", "/x", file, "external", H5P_DEFAULT, H5P_DEFAULT);
    H5Lcreate_soft("/external", file, "soft", H5P_DEFAULT, H5P_DEFAULT);
    hsize_t const extent = 8;
    hid_t const space = H5Screate_simple(1, &extent, nullptr);
    hid_t const creation = H5Pcreate(H5P_DATASET_CREATE);
    H5Pset_virtual(creation, space, "gone.h5", "/x", space);
    H5Dclose(H5Dcreate2(file, "virtual", H5T_IEEE_F64LE, space, H5P_DEFAULT, creation, H5P_DEFAULT));
    H5Pclose(creation);
    hid_t const raw = H5Pcreate(H5P_DATASET_CREATE);
    H5Pset_external(raw, "raw.bin", 0, 64);
    H5Dclose(H5Dcreate2(file, "raw", H5T_IEEE_F64LE, space, H5P_DEFAULT, raw, H5P_DEFAULT));
    H5Pclose(raw);
    hid_t const filtered = H5Pcreate(H5P_DATASET_CREATE);
    H5Pset_chunk(filtered, 1, &extent);
    H5Pset_filter(filtered, 32015, H5Z_FLAG_OPTIONAL, 0, nullptr);
    H5Dclose(H5Dcreate2(file, "filtered", H5T_IEEE_F64LE, space, H5P_DEFAULT, filtered, H5P_DEFAULT));
    H5Pclose(filtered);
    hid_t const compound = H5Tcreate(H5T_COMPOUND, 16);
    H5Tinsert(compound, "r", 0, H5T_IEEE_F64LE);
    H5Tinsert(compound, "i", 8, H5T_IEEE_F64LE);
    H5Dclose(H5Dcreate2(file, "complex", compound, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
    H5Tclose(compound);
    H5Sclose(space);
    std::vector<hsize_t> const nine(9, 1);
    test::write_dataset(file, {"nine", H5T_IEEE_F64LE, nine}, H5T_NATIVE_DOUBLE, values.data());
    hid_t const named = H5Tcopy(H5T_C_S1);
    H5Tset_size(named, 4);
    test::write_dataset(file, {"text", named, {2}}, named, "abcdefgh");
    H5Tclose(named);
  });
  FieldFile const file(comm, path);

  EXPECT_EQ(file.contents().find("soft"), nullptr);
  for (auto const& [name, word] : {std::pair{"external", "another file"},
                                   {"virtual", "virtual"},
                                   {"raw", "another file"},
                                   {"filtered", "32015"},
                                   {"complex", "compound"},
                                   {"nine", "9 axes"},
                                   {"text", "text"}}) {
    try {
      file.read(name, Box({0}, {8}), std::span<double>());
      ADD_FAILURE() << "read " << name;
    } catch (Error const& error) {
      EXPECT_EQ(error.rule(), "UnreadableVariable");
      EXPECT_EQ(error.fault(), Fault::input);
      EXPECT_NE(error.text().find(word), std::string::npos) << error.text();
      EXPECT_NE(error.text().find(name), std::string::npos) << error.text();
    }
  }
}

TEST(FieldFile, names_the_filter_and_what_helps) {
  auto const comm = Comm::world();
  Folder const folder(comm);
  auto const filtered_by = [&](int filter) {
    return folder.make(std::to_string(filter) + ".h5", [&](auto const& p) {
      NewFile const file(p);
      hsize_t const extent = 8;
      hid_t const space = H5Screate_simple(1, &extent, nullptr);
      hid_t const filtered = H5Pcreate(H5P_DATASET_CREATE);
      H5Pset_chunk(filtered, 1, &extent);
      H5Pset_filter(filtered, filter, H5Z_FLAG_OPTIONAL, 0, nullptr);
      H5Dclose(H5Dcreate2(file, "z", H5T_IEEE_F64LE, space, H5P_DEFAULT, filtered, H5P_DEFAULT));
      H5Pclose(filtered);
      H5Sclose(space);
    });
  };
  std::vector<double> values(8);
  auto const text_of = [&](int filter) {
    try {
      FieldFile(comm, filtered_by(filter)).read("z", Box({0}, {8}), std::span(values));
    } catch (Error const& error) {
      EXPECT_EQ(error.rule(), "UnreadableVariable");
      return error.text();
    }
    return std::string();
  };

  ::unsetenv("HDF5_PLUGIN_PATH");
  auto const text = text_of(32015);
  auto const lzf = text_of(32000);

  EXPECT_NE(text.find("the filter 'zstd' (number 32015), which this program lacks; run with HDF5_PLUGIN_PATH="),
            std::string::npos)
      << text;
  EXPECT_NE(lzf.find("the filter 'lzf' (number 32000), which only h5py has"), std::string::npos) << lzf;
}

TEST(FieldFile, reads_coordinates_on_all_ranks_in_the_order_of_the_file) {
  auto const comm = Comm::world();
  if (!test::has_tool("ncgen")) GTEST_SKIP() << "ncgen (netcdf-bin) is not installed";
  Folder const folder(comm);
  auto const path = folder.make("grid.nc", [](auto const& p) {
    test::write_cdl(p, R"(netcdf grid { dimensions: lat = 3; lon = 4; x = 2;
      variables: float lat(lat); lat:units = "degrees_north"; double lon(lon); lon:units = "degrees_east"; float t(lat, lon, x);
      data: lat = 60, 0, -60; lon = 0, 90, 180, 270; })");
  });
  FieldFile const file(comm, path);

  EXPECT_EQ(file.coordinate("lat"), (std::vector<double>{60, 0, -60}));
  EXPECT_EQ(file.coordinate("lon"), (std::vector<double>{0, 90, 180, 270}));
  EXPECT_EQ(file.horizontal_axes("t"), (HorizontalAxes{0, 1}));
  try {
    (void)file.coordinate("x");
    FAIL() << "a coordinate from nowhere";
  } catch (Error const& error) {
    EXPECT_EQ(error.rule(), "MissingVariable");
    EXPECT_EQ(error.fault(), Fault::input);
  }
}

TEST(FieldFile, leaves_the_error_printing_of_hdf5_as_it_was) {
  auto const comm = Comm::world();
  Folder const folder(comm);
  auto const path = folder.make("types.h5", [&](auto const& p) { write_all_types(p, {{"f64", H5T_IEEE_F64LE}}); });
  H5E_auto2_t before = nullptr;
  void* data = nullptr;
  H5Eget_auto2(H5E_DEFAULT, &before, &data);
  unsigned plugins = 0;
  H5PLget_loading_state(&plugins);

  FieldFile const file(comm, path);
  EXPECT_THROW((void)file.variable("missing"), Error);
  EXPECT_THROW(FieldFile(comm, folder / "missing.nc"), Error);

  H5E_auto2_t after = nullptr;
  unsigned plugins_after = 0;
  H5Eget_auto2(H5E_DEFAULT, &after, &data);
  H5PLget_loading_state(&plugins_after);
  EXPECT_NE(before, nullptr);
  EXPECT_EQ(before, after);
  EXPECT_EQ(plugins, plugins_after);
}

TEST(FieldFile, does_not_wait_for_ever_when_one_rank_alone_unwinds) {
  auto const comm = Comm::world();
  if (comm.num_ranks() == 1) GTEST_SKIP() << "needs more than one rank";
#ifdef __SANITIZE_ADDRESS__
  GTEST_SKIP() << "a file that stays open to the end of the program is a leak to the sanitizer";
#endif
  Folder const folder(comm);
  auto const path = folder.make("types.h5", [&](auto const& p) { write_all_types(p, {{"f64", H5T_IEEE_F64LE}}); });
  // The others keep theirs until the program ends: HDF5 then closes the file with all ranks.
  static FieldFile* kept = nullptr;
  bool caught = false;

  try {
    auto file = std::make_unique<FieldFile>(comm, path);
    if (comm.rank() == 1) throw std::runtime_error("alone");
    kept = file.release();
  } catch (std::runtime_error const&) {
    caught = true;
  }
  comm.barrier();  // ends only after rank 1 has left the block by its exception

  EXPECT_EQ(caught, comm.rank() == 1);
  EXPECT_EQ(kept == nullptr, comm.rank() == 1);
  test::forgive_left_objects();
}

/// An attribute with all its digits, as ncdump prints it.
double dumped_number(Folder const& folder, std::filesystem::path const& file, std::string const& attribute) {
  auto const text = folder.make(attribute + ".txt", [&](auto const& p) {
    test::run_tool("ncdump -h -p 9,17 '" + file.string() + "' | sed -n 's/.*" + attribute +
                   " = \\([^ ]*\\) ;/\\1/p' > '" + p.string() + "'");
  });
  return std::stod(test::read_bytes(text));
}

/// The same file in one piece and deflated, as netCDF's own tools see it.
TEST(FieldFile, reads_the_real_fields_as_ncdump_prints_them) {
  auto const comm = Comm::world();
  std::filesystem::path const data(GRATICULE_TEST_DATA);
  if (data.empty()) GTEST_SKIP() << "GRATICULE_TEST_DATA names no folder of sample files";
  if (!test::has_tool("ncdump")) GTEST_SKIP() << "ncdump (netcdf-bin) is not installed";
  Folder const folder(comm);
  FieldFile const plain(comm, data / "eraint_uvz.nc");
  FieldFile const deflated(comm, data / "eraint_uvz_deflate.nc");
  auto const extents = plain.variable("z").extents;
  ASSERT_EQ(extents, (Indices{2, 3, 241, 480}));
  ASSERT_EQ(plain.variable("z").dimensions, (std::vector<std::string>{"month", "level", "latitude", "longitude"}));
  auto const axes = plain.horizontal_axes("z");
  EXPECT_EQ(axes, (HorizontalAxes{2, 3}));
  auto const latitude = plain.coordinate("latitude");
  EXPECT_EQ(latitude.front(), 90);
  EXPECT_EQ(latitude.back(), -90);

  for (std::string const name : {"z", "u", "v"}) {
    auto const scale = dumped_number(folder, data / "eraint_uvz.nc", name + ":scale_factor");
    auto const offset = dumped_number(folder, data / "eraint_uvz.nc", name + ":add_offset");
    auto const text = folder.make(name + ".txt", [&](auto const& p) {
      test::run_tool("ncdump -v " + name + " '" + (data / "eraint_uvz.nc").string() +
                     "' | sed '1,/^data:/d' | tr -c '0-9-' ' ' > '" + p.string() + "'");
    });
    std::ifstream dump(text);
    std::vector<double> packed;
    for (double value = 0; dump >> value;) packed.push_back(value);
    ASSERT_EQ(packed.size(), std::size_t(2 * 3 * 241 * 480));
    auto const cuts = balanced_cuts(241, comm.num_ranks());
    Box box = Box::from_extents(extents);
    box.set(2, cuts.lo(comm.rank()), cuts.hi(comm.rank()));
    std::vector<double> values(std::size_t(box.num_cells()));
    std::vector<double> again(values.size());
    std::vector<float> rounded(values.size());

    plain.read(name, box, std::span(values));
    deflated.read(name, box, std::span(again));
    deflated.read(name, box, std::span(rounded));

    std::size_t i = 0;
    std::size_t num_wrong = 0;
    for_each_cell(box, [&](Indices const& cell) {
      double const expected = packed[std::size_t(row_major(extents, cell))] * scale + offset;
      if (values[i] != expected || again[i] != expected || rounded[i] != float(expected)) ++num_wrong;
      ++i;
    });
    EXPECT_EQ(num_wrong, 0U) << name;
  }
}

}  // namespace
}  // namespace graticule
