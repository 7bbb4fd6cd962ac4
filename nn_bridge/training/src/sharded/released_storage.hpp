// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <torch/torch.h>

#include <optional>
#include <string>

namespace graticule::training::detail {

/// Makes reads of the storage an error with this text; without it where LibTorch cannot.
template <class Storage>
void refuse_access(Storage& storage, std::string const& text) {
  if constexpr (requires { storage.clear_data_ptr_access_error_msg_(); })
    storage.release_data_and_set_meta_custom_data_ptr_error_msg_(std::optional<std::string>(text));
}
template <class Storage>
void allow_access(Storage& storage) {
  if constexpr (requires { storage.clear_data_ptr_access_error_msg_(); }) storage.clear_data_ptr_access_error_msg_();
}

/// Gives the memory of a whole tensor back. Whatever shares its storage loses its values with it, and finds the new
/// ones after `refill_storage`: views, and tensors that the graph has saved.
inline void release_storage(torch::Tensor const& tensor, std::string const& why) {
  c10::DeviceGuard const guard(tensor.device());
  auto& storage = *tensor.storage().unsafeGetStorageImpl();
  storage.set_data_ptr_noswap(storage.allocator()->allocate(0));
  storage.set_nbytes(0);
  refuse_access(storage, why);
}

[[nodiscard]] inline bool is_released(torch::Tensor const& tensor) {
  return !tensor.is_meta() && tensor.numel() > 0 && tensor.storage().nbytes() == 0;
}

/// The memory of a tensor, which loses it.
inline c10::DataPtr take_storage(torch::Tensor const& tensor) {
  auto& storage = *tensor.storage().unsafeGetStorageImpl();
  return storage.set_data_ptr(storage.allocator()->allocate(0));
}

/// Takes new memory, uninitialised.
inline void refill_storage(torch::Tensor const& tensor) {
  c10::DeviceGuard const guard(tensor.device());
  auto& storage = *tensor.storage().unsafeGetStorageImpl();
  auto const bytes = std::size_t(tensor.numel()) * tensor.element_size();
  allow_access(storage);
  storage.set_data_ptr_noswap(storage.allocator()->allocate(bytes));
  storage.set_nbytes(bytes);
}

}  // namespace graticule::training::detail
