// The Python module bps_torch._C. The functions take and return c10d backends, so no class needs a Python binding.
#include <pybind11/chrono.h>
#include <torch/csrc/utils/pybind.h>
#include <torch/extension.h>
#include <torch/version.h>

#include "process_group.h"

namespace bps_torch {
namespace {

using BackendPtr = c10::intrusive_ptr<c10d::Backend>;

ProcessGroupBps& bpsGroup(const BackendPtr& backend) {
  auto* const group = dynamic_cast<ProcessGroupBps*>(backend.get());
  TORCH_CHECK(group != nullptr, "expected a process group of backend bps, got ", backend->getBackendName());
  return *group;
}

BackendPtr create(const c10::intrusive_ptr<c10d::Store>& store, const BackendPtr& gloo, const std::string& name,
                  std::chrono::milliseconds timeout) {
  GroupOptions options{store, name, gloo->getRank(), gloo->getSize(), timeout};
  return c10::make_intrusive<ProcessGroupBps>(std::move(options), gloo);
}

}  // namespace
}  // namespace bps_torch

PYBIND11_MODULE(TORCH_EXTENSION_NAME, module) {
  using namespace bps_torch;
  namespace py = pybind11;
  module.attr("torch_version") = TORCH_VERSION;
  module.def("create", &create, py::arg("store"), py::arg("gloo"), py::arg("name"), py::arg("timeout"));
  module.def(
      "connect", [](const BackendPtr& backend) { bpsGroup(backend).communicator().connect(); },
      py::call_guard<py::gil_scoped_release>());
  module.def(
      "describe", [](const BackendPtr& backend) { return bpsGroup(backend).communicator().facts(); },
      py::call_guard<py::gil_scoped_release>());
}
