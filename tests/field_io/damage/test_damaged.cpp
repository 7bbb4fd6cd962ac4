// SPDX-License-Identifier: BSD-3-Clause
// Files that crash, hang or mislead HDF5 1.10.8 itself.
#include <graticule/field_io/detail/read_contents.hpp>
#include <graticule/field_io/detail/series_reader.hpp>
#include <graticule/field_io/file.hpp>
#include <graticule/field_io/series.hpp>

#include "damaged_samples.hpp"
#include "expect_error.hpp"
#include "file_mutants.hpp"
#include "sample_files.hpp"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <zlib.h>

#include <cstdlib>

namespace graticule {
namespace {

using test::Folder;
using test::NewFile;
using test::put;
using test::thrown_by;
using test::write_fields;

TEST(DamagedFile, that_keeps_HDF5_busy_for_ever_is_an_error_that_names_the_variable) {
  Folder const folder(Comm::world());
  auto const path = folder.make("heap.h5", test::write_endless_heap);

  auto const thrown = thrown_by([&] { (void)read_contents(path); });

  EXPECT_EQ(thrown.rule, "BrokenFile") << thrown.text;
  EXPECT_EQ(thrown.fault, Fault::input);
  EXPECT_NE(thrown.text.find(path.string()), std::string::npos) << thrown.text;
  EXPECT_NE(thrown.text.find("variable "), std::string::npos) << thrown.text;
}

TEST(DamagedFile, with_an_attribute_larger_than_itself_is_refused) {
  Folder const folder(Comm::world());
  auto const path = folder.make("texts.h5", [](auto const& p) {
    constexpr std::size_t num_texts = 200;
    constexpr std::uint32_t length = 3001;
    {
      NewFile const file(p);
      hid_t const type = H5Tcopy(H5T_C_S1);
      H5Tset_size(type, H5T_VARIABLE);
      hsize_t const count = num_texts;
      hid_t const space = H5Screate_simple(1, &count, nullptr);
      std::string const first(length, 'x');
      std::vector<char const*> texts(num_texts, "y");
      texts.front() = first.c_str();
      hid_t const attribute = H5Acreate2(file, "texts", type, space, H5P_DEFAULT, H5P_DEFAULT);
      H5Awrite(attribute, type, texts.data());
      H5Aclose(attribute);
      H5Sclose(space);
      H5Tclose(type);
    }
    // A text is its length and its place in the heap: 16 bytes. All become the first one.
    auto bytes = test::read_bytes(p);
    std::string sought(4, '\0');
    put(sought, 0, length);
    auto const at = bytes.find(sought);
    ASSERT_NE(at, std::string::npos);
    for (std::size_t i = 1; i < num_texts; ++i) std::copy_n(bytes.begin() + at, 16, bytes.begin() + at + i * 16);
    test::write_bytes(p, bytes);
  });

  auto const thrown = thrown_by([&] { (void)read_contents(path); });

  EXPECT_EQ(thrown.rule, "BrokenFile");
  EXPECT_NE(thrown.text.find("attribute texts of "), std::string::npos) << thrown.text;
  EXPECT_NE(thrown.text.find("is larger than the file"), std::string::npos) << thrown.text;
}

TEST(DamagedFile, with_a_chunk_outside_of_it_is_read_but_for_that_variable) {
  auto const comm = Comm::world();
  Folder const folder(comm);
  auto const path = folder.make("chunk.h5", [](auto const& p) {
    write_fields(p);
    auto bytes = test::read_bytes(p);
    // The tree of z, the first one of chunks: node type 1. A key has 4 + 4 bytes and an offset for each axis and the
    // value's bytes, the address of the first chunk follows.
    auto tree = bytes.find("TREE\x01");
    ASSERT_NE(tree, std::string::npos);
    put(bytes, tree + 24 + 8 + 3 * 8, std::uint64_t(1) << 40);
    test::write_bytes(p, bytes);
  });

  FieldFile const file(comm, path);

  std::vector<double> values(24);
  auto const all = std::span(values);
  auto const thrown = thrown_by([&] { file.read("z", Box({0, 0}, {4, 6}), all); });
  EXPECT_EQ(thrown.rule, "BrokenFile");
  EXPECT_NE(thrown.text.find("variable z of " + path.string()), std::string::npos) << thrown.text;
  EXPECT_NE(thrown.text.find("lies outside the file"), std::string::npos) << thrown.text;
  file.read("other", Box({0, 0}, {4, 6}), all);
  EXPECT_EQ(values, std::vector<double>(24, 1.0));
}

TEST(DamagedFile, with_a_chunk_at_another_place_does_not_have_filled_cells_there) {
  auto const comm = Comm::world();
  Folder const folder(comm);
  for (auto const& [column, word] : {std::pair{6, "outside of it"}, {600, "outside of it"}, {0, "follow each other"}}) {
    auto const path = folder.make("place.h5", [column = column](auto const& p) {
      write_fields(p);
      auto bytes = test::read_bytes(p);
      // As above; the second key, of the chunk at row 0 and column 3.
      put(bytes, bytes.find("TREE\x01") + 24 + 8 + 3 * 8 + 8 + 8 + 8, std::uint64_t(column));
      test::write_bytes(p, bytes);
    });
    FieldFile const file(comm, path);
    std::vector<double> values(24);
    auto const all = std::span(values);

    auto const thrown = thrown_by([&] { file.read("z", Box({0, 0}, {4, 6}), all); });

    EXPECT_EQ(thrown.rule, "BrokenFile") << column;
    EXPECT_NE(thrown.text.find(word), std::string::npos) << thrown.text;
    file.read("other", Box({0, 0}, {4, 6}), all);
    EXPECT_EQ(values, std::vector<double>(24, 1.0));
  }
}

/// A dataset `z` of 2 chunks of 4096 floats, of which the first one is `packed` as it stands.
void write_packed(std::filesystem::path const& path, std::string const& packed, bool sums) {
  NewFile const file(path);
  hsize_t const extent = 8192;
  hsize_t const chunk = 4096;
  hid_t const space = H5Screate_simple(1, &extent, nullptr);
  hid_t const creation = H5Pcreate(H5P_DATASET_CREATE);
  H5Pset_chunk(creation, 1, &chunk);
  if (sums)
    H5Pset_fletcher32(creation);
  else
    H5Pset_deflate(creation, 1);
  hid_t const z = H5Dcreate2(file, "z", H5T_IEEE_F32LE, space, H5P_DEFAULT, creation, H5P_DEFAULT);
  std::vector<float> const values(8192, 3.0F);
  H5Dwrite(z, H5T_NATIVE_FLOAT, H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data());
  hsize_t const first = 0;
  H5Dwrite_chunk(z, H5P_DEFAULT, 0, &first, packed.size(), packed.data());
  H5Dclose(z);
  H5Pclose(creation);
  H5Sclose(space);
}

std::string deflated(std::string const& bytes) {
  uLongf size = compressBound(uLong(bytes.size()));
  std::string packed(size, '\0');
  compress2(reinterpret_cast<Bytef*>(packed.data()), &size, reinterpret_cast<Bytef const*>(bytes.data()),
            uLong(bytes.size()), 9);
  packed.resize(size);
  return packed;
}

struct PackedCase {
  char const* name;
  std::string packed;
  bool sums;
  char const* expected;
};

TEST(DamagedFile, with_a_chunk_of_other_length_gives_an_error_and_no_other_memory) {
  auto const comm = Comm::world();
  Folder const folder(comm);
  rusage before{};
  ::getrusage(RUSAGE_SELF, &before);
  std::vector<PackedCase> const cases{
      {"short.h5", deflated(std::string(100, 'x')), false, "a chunk inflates to 100 bytes instead of 16384"},
      {"bomb.h5", deflated(std::string(std::size_t(1) << 25, '\0')), false, "a chunk cannot be inflated to its 16384"},
      {"long.h5", std::string(100000, 'x'), false, "a chunk of 100000 bytes for 16384"},
      {"sum.h5", "xy", true, "a chunk is shorter than its checksum"},
      {"wrong_sum.h5", std::string(16388, 'x'), true, "a chunk does not have its checksum"}};

  for (auto const& one : cases) {
    auto const path = folder.make(one.name, [&](auto const& p) { write_packed(p, one.packed, one.sums); });
    FieldFile const file(comm, path);
    std::vector<double> values(4096);

    auto const thrown = thrown_by([&] { file.read("z", Box({0}, {4096}), std::span(values)); });

    EXPECT_EQ(thrown.rule, "BrokenFile") << one.name;
    EXPECT_NE(thrown.text.find(one.expected), std::string::npos) << thrown.text;
    EXPECT_NE(thrown.text.find("variable z"), std::string::npos) << thrown.text;
    file.read("z", Box({4096}, {8192}), std::span(values));
    EXPECT_EQ(values, std::vector<double>(4096, 3.0)) << one.name;
  }
}

TEST(PackedChunks, are_unpacked_as_HDF5_does_for_every_filter_step_and_unwritten_chunk) {
  auto const comm = Comm::world();
  Folder const folder(comm);
  std::vector<hsize_t> const extents{7, 9, 11};
  std::vector<std::int32_t> values(7 * 9 * 11);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = std::int32_t(i * i * 37 % 100003);
  auto const path = folder.make("filters.h5", [&](auto const& p) {
    NewFile const file(p);
    for (int filters = 1; filters < 16; ++filters) {
      hid_t const space = H5Screate_simple(3, extents.data(), nullptr);
      hid_t const creation = H5Pcreate(H5P_DATASET_CREATE);
      hsize_t const chunk[] = {2, 4, 5};
      H5Pset_chunk(creation, 3, chunk);
      std::int32_t const fill = -7;
      H5Pset_fill_value(creation, H5T_NATIVE_INT32, &fill);
      if ((filters & 1) != 0) H5Pset_shuffle(creation);
      if ((filters & 8) != 0) H5Pset_fletcher32(creation);
      if ((filters & 2) != 0) H5Pset_deflate(creation, 3);
      if ((filters & 12) == 4) H5Pset_fletcher32(creation);
      hid_t const dataset = H5Dcreate2(file, ("v" + std::to_string(filters)).c_str(), H5T_STD_I32BE, space, H5P_DEFAULT,
                                       creation, H5P_DEFAULT);
      // The last planes are never written.
      hsize_t const start[] = {0, 0, 0};
      hsize_t const count[] = {4, 9, 11};
      H5Sselect_hyperslab(space, H5S_SELECT_SET, start, nullptr, count, nullptr);
      hid_t const memory = H5Screate_simple(3, count, nullptr);
      H5Dwrite(dataset, H5T_NATIVE_INT32, memory, space, H5P_DEFAULT, values.data());
      H5Sclose(memory);
      H5Dclose(dataset);
      H5Pclose(creation);
      H5Sclose(space);
    }
  });
  FieldFile const file(comm, path);
  auto const expected = [&](Index i, Index j, Index k) {
    return i < 4 ? double(values[std::size_t((i * 9 + j) * 11 + k)]) : -7.0;
  };

  for (int filters = 1; filters < 16; ++filters) {
    auto const name = "v" + std::to_string(filters);
    std::vector<double> all(7 * 9 * 11);
    file.read(name, Box({0, 0, 0}, {7, 9, 11}), std::span(all));
    for (Index i = 0; i < 7; ++i)
      for (Index j = 0; j < 9; ++j)
        for (Index k = 0; k < 11; ++k)
          ASSERT_EQ(all[std::size_t((i * 9 + j) * 11 + k)], expected(i, j, k))
              << name << " " << i << " " << j << " " << k;
    // Planes 1, 3, 5, rows from 8 to 2, columns 2, 5, 8.
    std::vector<double> some(3 * 3 * 3, -1);
    file.read(name, {.box = Box({1, 2, 2}, {6, 9, 9}), .steps = {2, -3, 3}}, field_view(some.data(), {3, 3, 3}, 0));
    for (Index i = 0; i < 3; ++i)
      for (Index j = 0; j < 3; ++j)
        for (Index k = 0; k < 3; ++k)
          ASSERT_EQ(some[std::size_t((i * 3 + j) * 3 + k)], expected(1 + 2 * i, 8 - 3 * j, 2 + 3 * k)) << name;
  }
}

/// `z` of 8 x 8 integers behind one of HDF5's other filters. @return false where HDF5 cannot write it
bool write_filtered(std::filesystem::path const& path, H5Z_filter_t filter) {
  unsigned config = 0;
  if (H5Zfilter_avail(filter) <= 0 || H5Zget_filter_info(filter, &config) < 0 ||
      (config & H5Z_FILTER_CONFIG_ENCODE_ENABLED) == 0)
    return false;
  NewFile const file(path);
  hsize_t const extents[] = {8, 8};
  hsize_t const chunk[] = {4, 8};
  hid_t const space = H5Screate_simple(2, extents, nullptr);
  hid_t const creation = H5Pcreate(H5P_DATASET_CREATE);
  H5Pset_chunk(creation, 2, chunk);
  if (filter == H5Z_FILTER_SZIP) H5Pset_szip(creation, H5_SZIP_NN_OPTION_MASK, 8);
  if (filter == H5Z_FILTER_NBIT) H5Pset_nbit(creation);
  if (filter == H5Z_FILTER_SCALEOFFSET) H5Pset_scaleoffset(creation, H5Z_SO_INT, H5Z_SO_INT_MINBITS_DEFAULT);
  if (filter == H5Z_FILTER_DEFLATE)  // twice
    H5Pset_deflate(creation, 1), H5Pset_deflate(creation, 1);
  hid_t const type = H5Tcopy(H5T_STD_I32LE);
  hid_t const z = H5Dcreate2(file, "z", type, space, H5P_DEFAULT, creation, H5P_DEFAULT);
  std::vector<std::int32_t> values(64);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = std::int32_t(i);
  herr_t const written = H5Dwrite(z, H5T_NATIVE_INT32, H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data());
  H5Dclose(z);
  H5Tclose(type);
  H5Pclose(creation);
  H5Sclose(space);
  test::write_dataset(file, {"other", H5T_STD_I32LE, {8, 8}}, H5T_NATIVE_INT32, values.data());
  return written >= 0;
}

struct OtherFilter {
  H5Z_filter_t id;
  char const* name;
};

class OtherFilters : public testing::TestWithParam<OtherFilter> {};

INSTANTIATE_TEST_SUITE_P(Each, OtherFilters,
                         testing::Values(OtherFilter{H5Z_FILTER_NBIT, "nbit"},
                                         OtherFilter{H5Z_FILTER_SCALEOFFSET, "scaleoffset"},
                                         OtherFilter{H5Z_FILTER_SZIP, "szip"},
                                         OtherFilter{H5Z_FILTER_DEFLATE, "deflate, deflate"}),
                         [](auto const& tested) {
                           return tested.param.id == H5Z_FILTER_DEFLATE ? std::string("twice") : tested.param.name;
                         });

TEST_P(OtherFilters, are_refused_by_name_and_read_when_the_file_is_trusted_or_rewritten) {
  auto const comm = Comm::world();
  Folder const folder(comm);
  std::vector<double> expected(64);
  for (std::size_t i = 0; i < expected.size(); ++i) expected[i] = double(i);
  bool is_written = false;
  auto const path = folder.make("filter.h5", [&](auto const& p) { is_written = write_filtered(p, GetParam().id); });
  std::array<Index, 1> written{is_written ? 1 : 0};
  comm.max(written);
  if (written[0] == 0) GTEST_SKIP() << "HDF5 cannot write with the filter " << GetParam().name;

  ::unsetenv("HDF5_PLUGIN_PATH");
  FieldFile const file(comm, path);

  std::vector<double> values(64, -1.0);
  auto const all = std::span(values);
  auto const thrown = thrown_by([&] { file.read("z", Box({0, 0}, {8, 8}), all); });
  EXPECT_EQ(thrown.fault, Fault::input);
  EXPECT_NE(thrown.text.find("variable z of " + path.string()), std::string::npos) << thrown.text;
  EXPECT_NE(thrown.text.find(std::string("(") + GetParam().name + ")"), std::string::npos) << thrown.text;
  EXPECT_NE(thrown.text.find("h5repack -f NONE"), std::string::npos) << thrown.text;
  file.read("other", Box({0, 0}, {8, 8}), all);
  EXPECT_EQ(values, expected);
  values.assign(64, -1.0);
  FieldFile(comm, path, {.plugins = FilterPlugins::allowed}).read("z", Box({0, 0}, {8, 8}), all);
  EXPECT_EQ(values, expected);

  // What the message says to do: a folder of plugins is one that HDF5 trusts.
  ::setenv("HDF5_PLUGIN_PATH", folder.path().c_str(), 1);
  values.assign(64, -1.0);
  FieldFile(comm, path).read("z", Box({0, 0}, {8, 8}), all);
  ::unsetenv("HDF5_PLUGIN_PATH");
  EXPECT_EQ(values, expected);
  if (!test::has_tool("h5repack")) GTEST_SKIP() << "h5repack is not installed";
  auto const plain = folder.make("plain.h5", [&](auto const& p) {
    test::run_tool("h5repack -f NONE '" + path.string() + "' '" + p.string() + "'");
  });
  values.assign(64, -1.0);
  FieldFile(comm, plain).read("z", Box({0, 0}, {8, 8}), all);
  EXPECT_EQ(values, expected);
}

TEST_P(OtherFilters, of_damaged_files_neither_crash_nor_hang) {
  auto const comm = Comm::world();
  Folder const folder(comm);
  std::string whole;
  auto const path = folder.make("filter.h5", [&](auto const& p) {
    if (write_filtered(p, GetParam().id)) whole = test::read_bytes(p);
  });
  std::array<Index, 1> written{whole.empty() ? 0 : 1};
  comm.max(written);
  if (written[0] == 0) GTEST_SKIP() << "HDF5 cannot write with the filter " << GetParam().name;

  int num_refused = 0;
  for (std::uint64_t number = 0; number < 40; ++number) {
    auto const mutant = folder.make(
        std::to_string(number), [&](auto const& p) { test::write_bytes(p, test::Mutator(whole).mutant(7, number)); });
    auto const thrown = thrown_by([&] {
      FieldFile const file(comm, mutant);
      std::vector<double> values(64);
      file.read("z", Box({0, 0}, {8, 8}), std::span(values));
    });
    // One that loses its filter is a plain file; all others are refused.
    if (thrown.rule == "nothing was thrown") continue;
    ++num_refused;
    EXPECT_EQ(thrown.fault, Fault::input) << number << ": " << thrown.text;
    EXPECT_NE(thrown.text.find(mutant.string()), std::string::npos) << number << ": " << thrown.text;
  }
  EXPECT_GE(num_refused, 30);
}

}  // namespace
}  // namespace graticule
