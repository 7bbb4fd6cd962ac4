// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/app/bytes.hpp>

#include "expect_error.hpp"
#include "options.hpp"

#include <gtest/gtest.h>

namespace graticule::archive {
namespace {

using test::rule_of;

TEST(Options, read_bytes_with_units) {
  EXPECT_EQ(app::parse_bytes("--memory", "65536"), 65536);
  EXPECT_EQ(app::parse_bytes("--memory", "2GiB"), Index(2) << 30);
  EXPECT_EQ(app::parse_bytes("--memory", "1.5kB"), 1500);
  EXPECT_EQ(app::parse_bytes("--memory", "500MB"), 500000000);
  EXPECT_EQ(app::parse_bytes("--memory", "3MiB"), 3 << 20);
  EXPECT_EQ(app::parse_bytes("--memory", "1TiB"), Index(1) << 40);
  EXPECT_EQ(app::parse_bytes("--memory", "1KB"), 1000);
  for (auto const* text : {"2k", "2K", "2KiB"}) EXPECT_EQ(app::parse_bytes("--memory", text), 2048) << text;
  for (auto const* text : {"", "GiB", "-1GiB", "0", "0.1", "2 GiB", "2GiBB", "nan", "inf", "1e30GiB"})
    EXPECT_EQ(rule_of([&] { return app::parse_bytes("--memory", text); }), "BadOption") << text;
}

TEST(Options, read_chunks_by_dimension) {
  EXPECT_EQ(parse_chunk({}).kind, ChunkWish::Kind::as_input);
  EXPECT_EQ(parse_chunk({"same"}).kind, ChunkWish::Kind::as_input);
  EXPECT_EQ(parse_chunk({"none"}).kind, ChunkWish::Kind::none);

  auto const wish = parse_chunk({"latitude=32", "month=all"});
  EXPECT_EQ(wish.kind, ChunkWish::Kind::given);
  EXPECT_EQ(wish.extents.at("latitude"), 32);
  EXPECT_EQ(wish.extents.at("month"), ChunkWish::whole);

  for (auto const* text : {"latitude", "latitude=", "latitude=0", "latitude=-3", "latitude=3x", "=3", "latitude=1.5"})
    EXPECT_EQ(rule_of([&] { return parse_chunk({text}); }), "BadOption") << text;
  for (std::string const word : {"none", "same"})
    EXPECT_EQ(test::thrown_by([&] {
                return parse_chunk({"latitude=3", word});
              }).text,
              "--chunk " + word + " stands alone, without extents of dimensions");
  EXPECT_EQ(rule_of([] { return parse_chunk({"latitude=2", "latitude=3"}); }), "BadOption");
}

TEST(Options, read_types_and_compression) {
  EXPECT_EQ(parse_type("i16-packed"), TypeWish::i16_packed);
  EXPECT_EQ(rule_of([] { return parse_type("i16"); }), "BadOption");
  EXPECT_FALSE(parse_deflate("same").has_value());
  EXPECT_EQ(parse_deflate("9"), 9);
  for (auto const* text : {"10", "-1", "fast", ""})
    EXPECT_EQ(rule_of([&] { return parse_deflate(text); }), "BadOption") << text;
}

}  // namespace
}  // namespace graticule::archive
