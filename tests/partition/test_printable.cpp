// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/partition/detail/printable.hpp>
#include <graticule/partition/error.hpp>

#include <gtest/gtest.h>

#include <string>

namespace graticule {
namespace {

TEST(Printable, keeps_text_of_any_language) {
  for (std::string const text : {"", "plain", "two\nlines\tand a tab", "Größe 温度 °C 😀"})
    EXPECT_EQ(printable(text), text);
}

TEST(Printable, writes_what_commands_a_terminal_as_bytes) {
  using namespace std::string_literals;
  EXPECT_EQ(printable("\x1b[2J"), "\\x1b[2J");
  EXPECT_EQ(printable("a\rb\x08\x7f"), "a\\x0db\\x08\\x7f");
  EXPECT_EQ(printable("a\0b"s), "a\\x00b");
  EXPECT_EQ(printable("\xc2\x9b"
                      "31m"),
            "\\xc2\\x9b31m");
}

TEST(Printable, writes_what_is_no_utf8_as_bytes) {
  EXPECT_EQ(printable("temp\xe9rature"), "temp\\xe9rature");
  EXPECT_EQ(printable("\x9b"
                      "31m"),
            "\\x9b31m");
  EXPECT_EQ(printable("\xc3"), "\\xc3");
  EXPECT_EQ(printable("\xc0\xaf"), "\\xc0\\xaf");
  EXPECT_EQ(printable("\xed\xa0\x80"), "\\xed\\xa0\\x80");
  EXPECT_EQ(printable("\xf4\x90\x80\x80"), "\\xf4\\x90\\x80\\x80");
  EXPECT_EQ(printable("\xe2\x82"), "\\xe2\\x82");
}

TEST(Printable, is_what_errors_say) {
  Error const error(Fault::input, "BadInput", "units '\x1b]0;x\x07'");

  EXPECT_EQ(error.text(), "units '\\x1b]0;x\\x07'");
  EXPECT_STREQ(error.what(), "BadInput: units '\\x1b]0;x\\x07'");
}

}  // namespace
}  // namespace graticule
