// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/messages/detail/node_arena.hpp>
#include <graticule/messages/node_memory.hpp>

#include <new>

namespace graticule::messages {

NodeMemory::NodeMemory(std::size_t bytes) {
  if (auto const block = allocate_node_block(bytes)) {
    data_ = std::shared_ptr<std::byte>(block->data, [block](std::byte*) { free_node_block(*block); });
    shared_ = true;
    return;
  }
  constexpr std::align_val_t page{4096};
  data_ = std::shared_ptr<std::byte>(static_cast<std::byte*>(::operator new(bytes, page)),
                                     [](std::byte* data) { ::operator delete(data, page); });
}

}  // namespace graticule::messages
