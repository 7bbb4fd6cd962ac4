// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/training/daso/averaging.hpp>

#include "data_parallel/pending_mean.hpp"
#include "node_groups.hpp"

#include <torch/torch.h>

#include <array>
#include <exception>
#include <memory>
#include <string>
#include <vector>

namespace graticule::training::detail {

/// A tensor that is sent: a parameter or buffer, or a moment of the parameter.
struct SentItem {
  std::string name;
  torch::Tensor tensor;
  int moment = -1;
};

/// Tensors that are sent together: of one real type; a complex tensor counts as its real and imaginary parts.
struct SentLane {
  torch::ScalarType type = torch::kFloat;
  std::vector<SentItem> items;
  torch::Tensor reference;  ///< flat values that all ranks last had in common; undefined if no message is narrow
};

/// Number of running means that an optimizer keeps of a parameter's gradients: it depends on its type and options.
/// @throws `Unsupported` unless it is SGD, Adam, AdamW, RMSprop or Adagrad
[[nodiscard]] int num_moments(torch::optim::Optimizer& optimizer, torch::Tensor const& parameter);
/// Copy of all tensors, one after the other, on the device of the first; zeros for undefined ones.
[[nodiscard]] torch::Tensor flatten(torch::optim::Optimizer& optimizer, SentLane const& lane);
/// Gives the tensors values from `flat`.
void unflatten(torch::optim::Optimizer& optimizer, SentLane const& lane, torch::Tensor const& flat);

/// The type in which `lane` is sent.
[[nodiscard]] torch::ScalarType wire_type(Wire wire, torch::ScalarType lane);

struct DasoMessageOptions {
  Wire wire = Wire::own;
  Index chunk = 0;
  DasoCheck check = DasoCheck::nan;
};

/// The exchange of parameters between the ranks of a group.
class DasoMessage {
 public:
  /// Posts. @param failure of this rank: its peers get it in `wait`
  DasoMessage(NodeGroup const& group, torch::optim::Optimizer& optimizer, std::vector<SentLane> const& lanes,
              DasoMessageOptions const& options, std::exception_ptr failure);
  DasoMessage(DasoMessage const&) = delete;
  DasoMessage& operator=(DasoMessage const&) = delete;
  ~DasoMessage();

  /// Does not block. @return true when all means are complete
  bool progress();
  /// Means of each lane, in the lane's type. Blocks. @throws the failure of any rank, on all ranks of the group
  [[nodiscard]] std::vector<torch::Tensor> wait();

  [[nodiscard]] Index bytes_sent() const noexcept;
  [[nodiscard]] Index num_pieces() const noexcept;

 private:
  struct Lane {
    std::unique_ptr<PendingMean> mean;
    torch::ScalarType type = torch::kFloat;
    torch::Tensor reference;
    double scale = 1;
  };
  void check(torch::optim::Optimizer& optimizer, SentLane const& lane, torch::Tensor const& flat, DasoCheck kind);
  void post(SentLane const& lane, torch::Tensor flat, DasoMessageOptions const& options);

  NodeGroup group_;
  std::exception_ptr failure_;
  std::unique_ptr<Index> any_failure_;
  MPI_Request header_ = MPI_REQUEST_NULL;
  std::vector<Lane> lanes_;
};

}  // namespace graticule::training::detail
