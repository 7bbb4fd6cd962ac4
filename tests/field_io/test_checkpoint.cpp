// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/field_io/checkpoint.hpp>

#include "expect_error.hpp"
#include "sample_files.hpp"
#include "test_field.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <complex>
#include <random>

namespace graticule {
namespace {

using test::Folder;
using test::MemoryShape;
using test::names_in;
using test::Random;
using test::TestField;

Random seeded(Comm const& comm) {
  auto const seed = comm.broadcast(std::to_string(std::random_device{}()), 0);
  if (comm.rank() == 0) std::printf("seed %s\n", seed.c_str());
  return Random(std::stoull(seed));
}

/// A communicator of the first `num_ranks` ranks; the others get one of their own.
Comm first_ranks(Comm const& comm, int num_ranks) { return comm.split(comm.rank() < num_ranks ? 0 : 1, comm.rank()); }

/// Two fields and two values that depend on the step.
std::filesystem::path write_sample(CheckpointStore& store, Comm const& comm, Index step) {
  Layout const layout({comm.num_ranks(), 1}, {11, 6});
  auto const owned = layout.owned(comm.rank());
  TestField<double> z(owned, {2}, MemoryShape::dense(2, 1), 0);
  z.set(owned, [&](Indices const& b, Indices const& cell) {
    return double(step * 1000 + b[0] * 100 + cell[0] * 6 + cell[1]);
  });
  std::vector<float> const weights{1, 2, float(step)};
  auto writer = store.begin(step);
  writer.add("z", layout, z.view());
  writer.add("net/weights", field_view(weights.data(), {3}, 0));
  writer.add_value("seconds", 60.0 * double(step));
  writer.add_value("note", std::string("step ") + std::to_string(step));
  return writer.commit();
}

void expect_sample(Checkpoint const& found, Comm const& comm, Index step) {
  Layout const layout({1, comm.num_ranks()}, {11, 6});
  auto const owned = layout.owned(comm.rank());
  TestField<double> z(owned, {2}, MemoryShape::dense(2, 1), -1);
  found.read("z", layout, z.view());
  z.for_each(owned, [&](Indices const& b, Indices const& cell) {
    EXPECT_EQ(z.at(b, cell), double(step * 1000 + b[0] * 100 + cell[0] * 6 + cell[1])) << to_string(cell);
  });
  std::vector<float> weights(3, 0);
  found.read("net/weights", field_view(weights.data(), {3}, 0));
  EXPECT_EQ(weights, (std::vector<float>{1, 2, float(step)}));
  EXPECT_EQ(found.step(), step);
  EXPECT_EQ(found.value<double>("seconds"), 60.0 * double(step));
  EXPECT_EQ(found.value<std::string>("note"), "step " + std::to_string(step));
}

struct Trip {
  Indices extents;
  Indices batch;
  Layout from;
  Layout to;
  MemoryShape from_shape;
  MemoryShape to_shape;
  std::vector<Width> from_halo;
  std::vector<Width> to_halo;
};

Trip random_trip(Random& random, int num_from, int num_to) {
  int const num_grid = int(test::draw(random, 1, 3));
  int const num_batch = int(test::draw(random, 0, 2));
  auto const extents = test::random_extents(random, num_grid, 9);
  auto const batch = test::random_extents(random, num_batch, 3);
  auto const halo = [&] {
    std::vector<Width> widths;
    for (int a = 0; a < num_grid; ++a) widths.push_back({test::draw(random, 0, 2), test::draw(random, 0, 2)});
    return widths;
  };
  auto const shape = [&] { return MemoryShape::random(random, num_grid, num_batch).run_backwards_at_random(random); };
  Trip trip{extents,
            batch,
            test::random_layout(random, num_from, extents),
            test::random_layout(random, num_to, extents),
            shape(),
            shape(),
            halo(),
            halo()};
  return trip;
}

/// Saves on `some`, loads on `comm`.
template <class T>
void make_trip(Comm const& comm, Comm const& some, bool saves, Trip const& trip, DType dtype,
               std::filesystem::path const& folder) {
  if (saves) {
    auto const owned = trip.from.owned(some.rank());
    auto const local = grown(owned, trip.from_halo);
    TestField<T> field(local, trip.batch, trip.from_shape, test::bits_of<T>({7}, {7}));
    field.set(owned, [](Indices const& b, Indices const& cell) { return test::bits_of<T>(b, cell); });
    CheckpointStore store(some, folder, {.piece_bytes = 200});
    auto writer = store.begin(1);
    writer.add("x", trip.from, field.view(dtype), {.local = local});
    writer.commit();
  }
  comm.barrier();
  CheckpointStore store(comm, folder, {.piece_bytes = 120});
  auto const found = store.newest();
  ASSERT_TRUE(found) << (store.skipped().empty() ? "no file" : store.skipped()[0].reason);
  auto const owned = trip.to.owned(comm.rank());
  auto const local = grown(owned, trip.to_halo);
  TestField<T> field(local, trip.batch, trip.to_shape, test::bits_of<T>({8}, {8}));
  auto expected = field;
  expected.set(owned, [](Indices const& b, Indices const& cell) { return test::bits_of<T>(b, cell); });
  found->read("x", trip.to, field.view(dtype), local);
  EXPECT_TRUE(field.holds(expected)) << to_string(dtype) << " " << to_string(trip.from) << " to " << to_string(trip.to);
}

TEST(Checkpoint, is_loaded_by_any_ranks_in_any_layout_and_memory) {
  auto const comm = Comm::world();
  auto random = seeded(comm);
  // HDF5's collective calls are slow where ranks share cores.
  Index const first = test::draw(random, 0, 10);
  int const num_trials = comm.num_ranks() < 3 ? 22 : 4;
  for (int trial = 0; trial < num_trials; ++trial) {
    int const num_from = int(test::draw(random, 1, comm.num_ranks()));
    auto const some = first_ranks(comm, num_from);
    bool const saves = comm.rank() < num_from;
    auto const trip = random_trip(random, num_from, comm.num_ranks());
    Folder const folder(comm);
    SCOPED_TRACE(trial);
    auto const run = [&]<class T>(T, DType dtype) { make_trip<T>(comm, some, saves, trip, dtype, folder / "run"); };
    switch ((trial + first) % 11) {
      case 0: run(std::uint8_t(), DType::u8); break;
      case 1: run(std::int8_t(), DType::i8); break;
      case 2: run(std::int16_t(), DType::i16); break;
      case 3: run(std::int32_t(), DType::i32); break;
      case 4: run(std::int64_t(), DType::i64); break;
      case 5: run(std::int16_t(), DType::f16); break;
      case 6: run(std::int16_t(), DType::bf16); break;
      case 7: run(float(), DType::f32); break;
      case 8: run(double(), DType::f64); break;
      case 9: run(std::complex<float>(), DType::c64); break;
      default: run(std::complex<double>(), DType::c128); break;
    }
    if (testing::Test::HasFailure()) return;
  }
}

TEST(Checkpoint, keeps_values_of_every_kind_to_the_bit) {
  auto const comm = Comm::world();
  Folder const folder(comm);
  std::vector<std::byte> state(5000);
  for (std::size_t i = 0; i < state.size(); ++i) state[i] = std::byte(i * 7 % 256);
  std::vector<std::pair<std::string, CheckpointValue>> const values{
      {"bytes", state},
      {"empty/bytes", std::vector<std::byte>()},
      {"empty/integers", std::vector<Index>()},
      {"empty/reals", std::vector<double>()},
      {"empty/text", std::string()},
      {"integer", std::numeric_limits<Index>::min()},
      {"integers", std::vector<Index>{3, -1, std::numeric_limits<Index>::max()}},
      {"real", -0.0},
      {"reals", std::vector<double>{std::numeric_limits<double>::denorm_min(), 1.0 / 3}},
      {"text", std::string("zwölf\0\n", 8)},
  };
  CheckpointStore store(comm, folder / "run");
  auto writer = store.begin(0);
  for (auto const& [name, value] : values) writer.add_value(name, value);
  auto const path = writer.commit();

  Checkpoint const found(comm, path);

  std::vector<std::string> names;
  for (auto const& [name, value] : values) {
    names.push_back(name);
    EXPECT_EQ(found.value(name), value) << name;
  }
  EXPECT_EQ(found.value_names(), names);
  EXPECT_TRUE(std::signbit(found.value<double>("real")));
  EXPECT_EQ(test::rule_of([&] { (void)found.value<Index>("real"); }), "WrongType");
  EXPECT_EQ(test::rule_of([&] { (void)found.value("reel"); }), "MissingVariable");
  EXPECT_TRUE(found.has_value("text"));
  EXPECT_FALSE(found.has_value("texts"));
}

TEST(Checkpoint, loads_whole_what_was_cut_and_cut_what_was_whole) {
  auto const comm = Comm::world();
  Folder const folder(comm);
  Layout const rows(ProcessGrid{comm.num_ranks()}, Indices{7});
  auto const owned = rows.owned(comm.rank());
  std::vector<float> whole(21);
  for (std::size_t i = 0; i < whole.size(); ++i) whole[i] = float(i);
  float count = 42;
  CheckpointStore store(comm, folder / "run");
  auto writer = store.begin(0);
  writer.add("whole", field_view(whole.data(), {7, 3}, 0));
  writer.add("count", field_view(&count, {}, 0));
  auto cut = field_view(whole.data() + owned.lo(0) * 3, {owned.extent(0), 3}, 0);
  cut.grid_axes = {0};
  writer.add("cut", rows, cut);
  auto const found = Checkpoint(comm, writer.commit());

  for (auto const* name : {"whole", "cut"}) {
    std::vector<float> all(21, -1);
    found.read(name, field_view(all.data(), {7, 3}, 0));
    EXPECT_EQ(all, whole) << name;

    std::vector<float> part(std::size_t(owned.extent(0) * 3), -1);
    auto view = field_view(part.data(), {owned.extent(0), 3}, 0);
    view.grid_axes = {0};
    found.read(name, rows, view);
    EXPECT_TRUE(std::equal(part.begin(), part.end(), whole.begin() + owned.lo(0) * 3)) << name;

    // Overlapping boxes: each rank a block of rows and columns of its own.
    Index const first = comm.rank() % 3;
    std::vector<float> block(8, -1);
    found.read(name, Box({first, 1}, {first + 4, 3}), field_view(block.data(), {4, 2}, 2));
    for (Index j = 0; j < 4; ++j)
      for (Index i = 0; i < 2; ++i) EXPECT_EQ(block[std::size_t(j * 2 + i)], float((first + j) * 3 + 1 + i)) << name;
  }
  float read = 0;
  found.read("count", field_view(&read, {}, 0));
  EXPECT_EQ(read, 42);
  EXPECT_EQ(test::rule_of([&] {
              found.read("whole", Box({5, 0}, {8, 3}), field_view(whole.data(), {3, 3}, 2));
            }),
            "OutOfRange");
}

TEST(Checkpoint, lists_fields_with_their_attributes) {
  auto const comm = Comm::world();
  Folder const folder(comm);
  Layout const layout({1, comm.num_ranks()}, {2, 9});
  auto const owned = layout.owned(comm.rank());
  TestField<float> u(owned, {4}, MemoryShape::dense(2, 1), 1.0F);
  CheckpointStore store(comm, folder / "run");
  auto writer = store.begin(5);
  std::vector<Attribute> const attributes{Attribute::of_text("units", "m s-1"),
                                          Attribute::of_number("third", 1.0 / 3, ValueType::f32),
                                          {.name = "notes", .value = std::vector<std::string>{"a", "", "b c"}}};
  writer.add("wind/u", layout, u.view(), {.attributes = attributes});
  Checkpoint const found(comm, writer.commit());

  ASSERT_EQ(found.fields().size(), 1U);
  auto const& field = found.field("wind/u");
  EXPECT_EQ(field.dtype, DType::f32);
  EXPECT_EQ(field.extents, (Indices{4, 2, 9}));
  EXPECT_EQ(field.grid_axes, (Indices{1, 2}));
  ASSERT_EQ(field.attributes.size(), 3U);
  EXPECT_EQ(field.attributes[0], attributes[0]);
  EXPECT_EQ(field.attributes[2], attributes[2]);
  EXPECT_EQ(field.attributes[1].numbers(), std::vector<double>{double(1.0F / 3)});
  EXPECT_EQ(found.number(), 1);
}

TEST(Checkpoint, is_an_ordinary_hdf5_file) {
  auto const comm = Comm::world();
  Folder const folder(comm);
  CheckpointStore store(comm, folder / "run");
  auto const path = write_sample(store, comm, 7);

  hid_t const file = H5Fopen(path.c_str(), H5F_ACC_RDONLY, H5P_DEFAULT);
  std::vector<double> z(132, -1);
  hid_t const dataset = H5Dopen2(file, "/fields/z", H5P_DEFAULT);
  EXPECT_GE(H5Dread(dataset, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, z.data()), 0);
  double seconds = 0;
  hid_t const value = H5Dopen2(file, "/values/seconds", H5P_DEFAULT);
  EXPECT_GE(H5Dread(value, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, &seconds), 0);
  H5Dclose(value);
  H5Dclose(dataset);
  H5Fclose(file);

  for (Index i = 0; i < 132; ++i) EXPECT_EQ(z[std::size_t(i)], double(7000 + i / 66 * 100 + i % 66)) << i;
  EXPECT_EQ(seconds, 420);
}

TEST(Checkpoint, has_the_same_bytes_for_every_number_of_ranks) {
  auto const comm = Comm::world();
  Folder const folder(comm);
  auto const alone = first_ranks(comm, 1);
  std::filesystem::path first;
  if (comm.rank() == 0) {
    CheckpointStore store(alone, folder / "alone");
    first = write_sample(store, alone, 3);
  }
  CheckpointStore store(comm, folder / "together");
  auto const second = write_sample(store, comm, 3);

  if (comm.rank() == 0) {
    EXPECT_GT(test::read_bytes(first).size(), 1000U);
    EXPECT_TRUE(test::read_bytes(first) == test::read_bytes(second));
  }
}

TEST(CheckpointStore, keeps_the_last_ones_and_counts_on) {
  auto const comm = Comm::world();
  Folder const folder(comm);
  auto const run = folder / "some" / "run";
  CheckpointStore store(comm, run, {.keep = 2});
  EXPECT_FALSE(store.newest());
  for (Index step : {10, 20, 30}) write_sample(store, comm, step);
  EXPECT_EQ(names_in(run),
            (std::vector<std::string>{"checkpoint-000002-step-000000020.h5", "checkpoint-000003-step-000000030.h5"}));

  // Back to an older state: what is written then counts as newer.
  write_sample(store, comm, 15);

  EXPECT_EQ(names_in(run),
            (std::vector<std::string>{"checkpoint-000003-step-000000030.h5", "checkpoint-000004-step-000000015.h5"}));
  auto const found = store.newest();
  ASSERT_TRUE(found);
  EXPECT_EQ(found->number(), 4);
  expect_sample(*found, comm, 15);
  EXPECT_TRUE(store.skipped().empty());
}

TEST(CheckpointStore, leaves_other_files_of_the_folder_alone) {
  auto const comm = Comm::world();
  Folder const folder(comm);
  std::vector<std::string> const others{".checkpoint-000001-step-000000001.h5.parts",
                                        ".other-000001-step-000000001.h5.part",
                                        "checkpoint-000001-step-1.txt",
                                        "checkpoint-000001-step-000000001.h5.bak",
                                        "checkpoint-99999999999999999999-step-1.h5",
                                        "checkpoint-x-000001-step-000000001.h5"};
  for (auto const& name : others) folder.make(name, [](auto const& p) { test::write_bytes(p, "x"); });
  CheckpointStore store(comm, folder / ".", {.keep = 1});

  write_sample(store, comm, 1);
  write_sample(store, comm, 2);

  auto expected = others;
  expected.push_back("checkpoint-000002-step-000000002.h5");
  std::sort(expected.begin(), expected.end());
  EXPECT_EQ(names_in(folder / "."), expected);
  EXPECT_EQ(store.files().size(), 1U);
}

TEST(CheckpointStore, removes_what_killed_writers_left_but_not_what_lives) {
  auto const comm = Comm::world();
  Folder const folder(comm);
  folder.make(".checkpoint-000001-step-000000001.h5.part", [](auto const& p) { test::write_bytes(p, "half"); });
  CheckpointStore store(comm, folder / ".");
  {
    auto const living = store.begin(5);
    auto const temporaries = names_in(folder / ".");
    EXPECT_EQ(temporaries, std::vector<std::string>{".checkpoint-000001-step-000000005.h5.part"});
    comm.barrier();

    auto other = store.begin(5);
    other.commit();

    EXPECT_EQ(names_in(folder / "."), (std::vector<std::string>{".checkpoint-000001-step-000000005.h5.part",
                                                                "checkpoint-000002-step-000000005.h5"}));
    comm.barrier();
  }
  comm.barrier();
  EXPECT_EQ(names_in(folder / "."), std::vector<std::string>{"checkpoint-000002-step-000000005.h5"});
}

void flip_bit(std::filesystem::path const& path, std::uint64_t bit) {
  auto bytes = test::read_bytes(path);
  auto& byte = bytes.at(std::size_t(bit / 8) % bytes.size());
  byte = char(byte ^ (1 << (bit % 8)));
  test::write_bytes(path, bytes);
}

TEST(CheckpointStore, passes_over_damaged_foreign_and_renamed_files_and_says_why) {
  auto const comm = Comm::world();
  Folder const folder(comm);
  CheckpointStore store(comm, folder / "run", {.keep = 20});
  write_sample(store, comm, 1);
  auto const truncated = write_sample(store, comm, 2);
  auto const cells = write_sample(store, comm, 3);
  auto const text = write_sample(store, comm, 4);
  auto const renamed = write_sample(store, comm, 5);
  auto const hidden = folder / "run" / "checkpoint-000009-step-000000005.h5";
  run_agreed(comm, [&] {
    if (comm.rank() != 0) return;
    std::filesystem::resize_file(truncated, std::filesystem::file_size(truncated) - 1);
    auto bytes = test::read_bytes(cells);
    double const cell = 3042;  // z of cell (7, 0)
    auto const at = bytes.find(std::string(reinterpret_cast<char const*>(&cell), sizeof cell));
    flip_bit(cells, at * 8 + 3);
    bytes = test::read_bytes(text);
    flip_bit(text, bytes.find("step 4") * 8 + 1);
    std::filesystem::rename(renamed, hidden);
    test::write_bytes(folder / "run" / "checkpoint-000010-step-000000010.h5", "");
    test::write_bytes(folder / "run" / "checkpoint-000011-step-000000011.h5", "GRIB and more");
    std::filesystem::create_directory(folder / "run" / "checkpoint-000012-step-000000012.h5");
    test::NewFile const other(folder / "run" / "checkpoint-000013-step-000000013.h5");
  });

  auto const found = store.newest();

  ASSERT_TRUE(found);
  expect_sample(*found, comm, 1);
  std::vector<std::pair<std::string, std::string>> const expected{
      {"checkpoint-000013-step-000000013.h5", "not a checkpoint"},
      {"checkpoint-000012-step-000000012.h5", "is a directory"},
      {"checkpoint-000011-step-000000011.h5", "is a GRIB file"},
      {"checkpoint-000010-step-000000010.h5", "is empty"},
      {"checkpoint-000009-step-000000005.h5", "it was renamed, it is checkpoint 5 of step 5"},
      {"checkpoint-000004-step-000000004.h5", "value note does not have its checksum"},
      {"checkpoint-000003-step-000000003.h5", "the cells of field z do not have their checksum"},
      {"checkpoint-000002-step-000000002.h5", "truncated"}};
  ASSERT_EQ(store.skipped().size(), expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    auto const& [path, reason] = store.skipped()[i];
    EXPECT_EQ(path.filename(), expected[i].first);
    EXPECT_NE(reason.find(expected[i].second), std::string::npos) << reason;
    EXPECT_NE(reason.find(expected[i].first), std::string::npos) << reason;
  }
  // By its own path a renamed file is good, and damaged cells are found by whoever reads them.
  expect_sample(Checkpoint(comm, hidden), comm, 5);
  Checkpoint const damaged(comm, cells);
  std::vector<double> z(132);
  auto const whole = field_view(z.data(), {2, 11, 6}, 0);
  EXPECT_EQ(test::rule_of([&] { damaged.read("z", whole); }), "BrokenFile");
  EXPECT_EQ(test::rule_of([&] { damaged.verify(); }), "BrokenFile");
  EXPECT_EQ(test::rule_of([&] {
              damaged.read("z", Box({0, 0, 0}, {2, 11, 6}), field_view(z.data(), {2, 11, 6}, 3));
            }),
            "BrokenFile");
}

TEST(CheckpointStore, does_not_count_or_keep_broken_ones) {
  auto const comm = Comm::world();
  Folder const folder(comm);
  CheckpointStore store(comm, folder / "run", {.keep = 2});
  write_sample(store, comm, 1);
  auto const broken = write_sample(store, comm, 2);
  folder.make("done", [&](auto const&) { std::filesystem::resize_file(broken, 1000); });
  EXPECT_TRUE(store.newest());

  write_sample(store, comm, 3);
  EXPECT_EQ(store.files().size(), 3U);  // 1 is still the second best
  write_sample(store, comm, 4);

  EXPECT_EQ(names_in(folder / "run"),
            (std::vector<std::string>{"checkpoint-000003-step-000000003.h5", "checkpoint-000004-step-000000004.h5"}));
}

TEST(CheckpointStore, says_that_none_verifies) {
  auto const comm = Comm::world();
  Folder const folder(comm);
  folder.make("checkpoint-000001-step-000000001.h5", [](auto const& p) { test::write_bytes(p, "no HDF5"); });
  CheckpointStore store(comm, folder / ".");

  EXPECT_FALSE(store.newest());

  ASSERT_EQ(store.skipped().size(), 1U);
  EXPECT_NE(store.skipped()[0].reason.find("signature"), std::string::npos);
}

TEST(CheckpointStore, finds_every_flipped_bit_that_matters) {
  auto const comm = Comm::world();
  auto random = seeded(comm);
  Folder const folder(comm);
  CheckpointStore store(comm, folder / "run");
  auto const path = write_sample(store, comm, 1);
  auto const good = test::read_bytes(path);
  comm.barrier();
  int num_found = 0;
  int const num_trials = comm.num_ranks() < 3 ? 60 : 15;
  for (int trial = 0; trial < num_trials; ++trial) {
    auto const bit = random() % (good.size() * 8);
    folder.make("done", [&](auto const&) { flip_bit(path, bit); });
    SCOPED_TRACE("bit " + std::to_string(bit));
    // Bytes that mean nothing may change: then nothing else does.
    if (auto const found = store.newest())
      expect_sample(*found, comm, 1);
    else
      ++num_found;
    folder.make("done", [&](auto const&) { test::write_bytes(path, good); });
  }
  EXPECT_GT(num_found, 1);
}

TEST(CheckpointStore, finds_every_truncation) {
  auto const comm = Comm::world();
  Folder const folder(comm);
  CheckpointStore store(comm, folder / "run");
  auto const path = write_sample(store, comm, 1);
  auto const good = test::read_bytes(path);
  comm.barrier();
  for (std::size_t eighth = 0; eighth < 8; ++eighth) {
    folder.make("done", [&](auto const&) { test::write_bytes(path, good.substr(0, good.size() * eighth / 8)); });
    EXPECT_FALSE(store.newest()) << eighth;
  }
}

TEST(CheckpointWriter, leaves_nothing_without_commit) {
  auto const comm = Comm::world();
  Folder const folder(comm);
  CheckpointStore store(comm, folder / "run");
  write_sample(store, comm, 1);
  try {
    auto writer = store.begin(2);
    writer.add_value("x", Index(3));
    throw std::runtime_error("on all ranks");
  } catch (std::runtime_error const&) {
  }
  comm.barrier();

  EXPECT_EQ(names_in(folder / "run"), std::vector<std::string>{"checkpoint-000001-step-000000001.h5"});
}

TEST(CheckpointWriter, takes_device_fields_in_order_of_their_queue) {
  if (test::gpu_is_wanted()) GTEST_SKIP() << "this is about the guarded device";
  auto const comm = Comm::world();
  Folder const folder(comm);
  Layout const layout({comm.num_ranks(), 1}, {11, 6});
  auto const owned = layout.owned(comm.rank());
  auto const count = owned.num_cells();
  auto const bytes = std::size_t(count) * sizeof(double);
  auto& device = test::GuardedDevice::instance();
  test::Scheduled const scheduled(test::Schedule::late);
  CheckpointStore store(comm, folder / "run");
  for (int const number : {0, 1}) {
    auto const queue = device.make_queue(number);
    DeviceQueueScope const scope(queue);
    auto* const cells = static_cast<double*>(device.allocate(bytes, number));
    auto view = field_view(cells, owned.extents(), 2);
    view.space = MemorySpace::device;
    auto const fill = [&](double first) {
      device.launch(queue, [=] {
        for (Index i = 0; i < count; ++i) cells[i] = first + double(i);
      });
    };

    fill(100);
    auto writer = store.begin(number);
    writer.add("z", layout, view);
    (void)writer.commit();
    fill(500);
    store.newest().value().read("z", layout, view);

    std::vector<double> found(static_cast<std::size_t>(count));
    device.copy(queue, found.data(), cells, bytes);
    device.fence(queue);
    for (Index i = 0; i < count; ++i) EXPECT_EQ(found[std::size_t(i)], 100 + double(i));
    device.release(cells);
  }
}

TEST(CheckpointWriter, refuses_wrong_arguments_by_name_on_all_ranks) {
  auto const comm = Comm::world();
  Folder const folder(comm);
  bool const last = comm.rank() == comm.num_ranks() - 1;
  Layout const layout({comm.num_ranks(), 1}, {comm.num_ranks() * 2, 3});
  std::vector<double> cells(6, 1.0);
  auto const view = field_view(cells.data(), {2, 3}, 2);
  auto const whole = field_view(cells.data(), {6}, 0);
  CheckpointStore store(comm, folder / "run");
  EXPECT_EQ(test::rule_of([&] { (void)store.begin(-1); }),
            (test::ErrorWith{"BadOption", "step must be at least 0, got -1"}));
  EXPECT_EQ(test::rule_of([&] { CheckpointStore(comm, "x", {.keep = 0}); }), "BadOption");
  EXPECT_EQ(test::rule_of([&] { CheckpointStore(comm, "x", {.name = "a/b"}); }), "BadOption");
  auto writer = store.begin(1);
  auto const rule = [&](auto&&... arguments) { return test::rule_of([&] { writer.add(arguments...); }); };
  using Options = CheckpointFieldOptions;
  writer.add("z", layout, view);

  EXPECT_EQ(rule("z", layout, view), (test::ErrorWith{"BadName", "there is already"}));
  EXPECT_EQ(rule("z/sub", layout, view), (test::ErrorWith{"BadName", "there is already"}));
  EXPECT_EQ(rule("", layout, view), (test::ErrorWith{"BadName", "cannot be a name"}));
  EXPECT_EQ(rule("a//b", layout, view), (test::ErrorWith{"BadName", "cannot be a name"}));
  EXPECT_EQ(rule("../z", layout, view), (test::ErrorWith{"BadName", "cannot be a name"}));
  EXPECT_EQ(rule("w", layout, last ? field_view(cells.data(), {1, 3}, 2) : view), "FieldMismatch");
  EXPECT_EQ(rule("w", layout, whole), "FieldMismatch");
  EXPECT_EQ(rule("w", view), "FieldMismatch");
  EXPECT_EQ(rule("w", layout, view, Options{.local = Box({0, 0}, {1, 3})}), "FieldMismatch");
  EXPECT_EQ(rule("w", Layout({comm.num_ranks() + 1, 1}, {20, 3}), view), "BadProcessGrid");
  EXPECT_EQ(rule("w", layout, view, Options{.attributes = {Attribute::of_text("graticule_x", "")}}),
            (test::ErrorWith{"BadName", "attribute"}));
  EXPECT_EQ(test::rule_of([&] { writer.add_value("", Index(1)); }), (test::ErrorWith{"BadName", "cannot be a name"}));
  if (comm.num_ranks() > 1) {
    EXPECT_EQ(rule(last ? "v" : "w", layout, view), "ArgumentDisagreement");
    EXPECT_EQ(test::rule_of([&] { writer.add_value("n", Index(last)); }), "ArgumentDisagreement");
  }
  writer.add("w", layout, view);
  writer.add_value("n", Index(1));
  EXPECT_EQ(test::rule_of([&] { writer.add_value("n", Index(1)); }), (test::ErrorWith{"BadName", "there is already"}));
  auto const path = writer.commit();
  EXPECT_EQ(rule("y", layout, view), (test::ErrorWith{"WrongState", "is complete"}));

  Checkpoint const found(comm, path);
  EXPECT_EQ(test::rule_of([&] { found.read("y", layout, view); }), "MissingVariable");
  auto const floats = field_view(reinterpret_cast<float*>(cells.data()), {2, 3}, 2);
  EXPECT_EQ(test::rule_of([&] { found.read("z", layout, floats); }), "WrongType");
  EXPECT_EQ(test::rule_of([&] {
              found.read("z", last ? Box({0, 0}, {2, 4}) : Box({0, 0}, {2, 3}), view);
            }),
            "FieldMismatch");
  EXPECT_EQ(test::rule_of([&] { found.read("z", Layout({1, comm.num_ranks()}, {9, 9}), view); }), "FieldMismatch");
  EXPECT_EQ(test::rule_of([&] { Checkpoint(comm, folder / "none.h5"); }), "NoSuchFile");
}

TEST(CheckpointWriter, refuses_replicas_that_differ) {
  auto const comm = Comm::world();
  if (comm.num_ranks() == 1) GTEST_SKIP() << "one rank has no replicas";
  Folder const folder(comm);
  CheckpointStore store(comm, folder / "run");
  auto writer = store.begin(1);
  std::vector<float> const weights{1, comm.rank() == 1 ? -0.0F : 0.0F};

  EXPECT_EQ(test::rule_of([&] { writer.add("weights", field_view(weights.data(), {2}, 0)); }), "ReplicaMismatch");
  EXPECT_EQ(test::rule_of([&] { writer.commit(); }), "WrongState");
}

}  // namespace
}  // namespace graticule
