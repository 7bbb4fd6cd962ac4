// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/training/sharded/optimizer.hpp>

#include "cut_fields.hpp"
#include "state/stored_tensors.hpp"

#include <map>

namespace graticule::training {

namespace {

/// Those of which this rank holds rows.
class CutTensors : public detail::OptimizerTensors {
 public:
  CutTensors(detail::ShardEngine& engine, Comm const& comm) : fields_(engine, comm) {
    for (auto const* parameter : engine.parameters()) {
      named_.emplace_back(parameter->name, parameter->shard);
      parameters_.emplace(parameter->name, parameter);
    }
  }

  [[nodiscard]] nn::NamedTensors parameters() const override { return named_; }
  void save(CheckpointWriter& writer, std::string const& field, std::string const& name,
            torch::Tensor const& value) const override {
    fields_.save(writer, field, *parameters_.at(name), value);
  }
  /// The whole parameter has its shape without its memory, and the rows the dtype of the file.
  [[nodiscard]] detail::StoredTensor like(std::string const& name) const override {
    auto const& parameter = *parameters_.at(name);
    return {name, parameter.shard.scalar_type(), parameter.full.sizes()};
  }
  void load(Checkpoint const& checkpoint, std::string const& field, std::string const& name,
            torch::Tensor const& value) const override {
    fields_.load(checkpoint, field, *parameters_.at(name), value);
  }

 private:
  detail::CutFields fields_;
  nn::NamedTensors named_;
  std::map<std::string, detail::ShardedParameter const*> parameters_;
};

}  // namespace

void save_optimizer(CheckpointWriter& writer, torch::optim::Optimizer const& optimizer,
                    ShardedParameters const& sharded, Comm const& comm, std::string const& prefix) {
  detail::save_optimizer(writer, optimizer, CutTensors(sharded.engine(), comm), prefix);
}

std::vector<std::string> load_optimizer(Comm const& comm, Checkpoint const& checkpoint,
                                        torch::optim::Optimizer& optimizer, ShardedParameters const& sharded,
                                        std::string const& prefix) {
  CutTensors const tensors(sharded.engine(), comm);
  return detail::load_optimizer(comm, checkpoint, optimizer, tensors, prefix);
}

}  // namespace graticule::training
