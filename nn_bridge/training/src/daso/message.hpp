// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/training/daso/averaging.hpp>

#include "data_parallel/pending_mean.hpp"

#include <torch/torch.h>

#include <array>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace graticule::training::detail {

/// A world divided into nodes, and crosswise into groups.
struct NodeGroups {
  Comm node;
  int num_groups = 1;                            ///< ranks of the largest node
  std::vector<std::optional<NodeGroup>> groups;  ///< of which this rank is a member

  /// The node's rank that is a member of `group`.
  [[nodiscard]] int member(int group) const noexcept { return group % node.num_ranks(); }
};

/// Collective over `world`. @throws `BadProcessGrid`, `BadOption` for a negative node on any rank
[[nodiscard]] NodeGroups node_groups(Comm const& world, std::optional<int> node, UnequalNodes unequal);

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
