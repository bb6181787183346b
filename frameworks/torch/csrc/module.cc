// The Python module bps_torch._C. The functions take and return c10d backends, so no class needs a Python binding.
#include <pybind11/chrono.h>
#include <torch/csrc/utils/pybind.h>
#include <torch/extension.h>
#include <torch/version.h>

#include "process_group.h"
#include "training/parameters.h"
#include "training/reducer.h"

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

std::shared_ptr<TorchReducer> createReducer(const BackendPtr& backend, const std::vector<at::Tensor>& parameters,
                                            const ReducerOptions& options) {
  return std::make_shared<TorchReducer>(bpsGroup(backend).communicator(), parameters, options);
}

std::shared_ptr<TorchParameters> createParameters(const BackendPtr& backend, std::vector<at::Tensor> parameters) {
  return std::make_shared<TorchParameters>(bpsGroup(backend).communicator(), std::move(parameters));
}

void defineParameters(pybind11::module_& module) {
  namespace py = pybind11;
  using Unlocked = py::call_guard<py::gil_scoped_release>;
  py::class_<TorchParameters, std::shared_ptr<TorchParameters>>(module, "Parameters")
      .def(py::init(&createParameters), Unlocked())
      .def("push_pull", &TorchParameters::pushPull, Unlocked())
      .def("pull", &TorchParameters::pull, Unlocked())
      .def("pushes", &TorchParameters::pushes)
      .def("finish", &TorchParameters::finish, Unlocked());
}

void defineReducer(pybind11::module_& module) {
  namespace py = pybind11;
  using Unlocked = py::call_guard<py::gil_scoped_release>;
  py::class_<bpsReducerBucket_t>(module, "Bucket", "What happened to one bucket; times in seconds since begin()")
      .def_readonly("bytes", &bpsReducerBucket_t::bytes)
      .def_readonly("parameters", &bpsReducerBucket_t::parameters)
      .def_readonly("communicator", &bpsReducerBucket_t::communicator)
      .def_readonly("ready", &bpsReducerBucket_t::readySeconds)
      .def_readonly("launch", &bpsReducerBucket_t::launchSeconds)
      .def_readonly("done", &bpsReducerBucket_t::doneSeconds);
  py::class_<ReducerOptions>(module, "ReducerOptions")
      .def(py::init<size_t, size_t, size_t, size_t>(), py::arg("bucket_bytes"), py::arg("first_bucket_bytes"),
           py::arg("communicators"), py::arg("urgent_bytes"));
  py::class_<TorchReducer, std::shared_ptr<TorchReducer>>(module, "Reducer")
      .def(py::init(&createReducer), Unlocked())
      .def("gradients", &TorchReducer::gradients)
      .def("begin", &TorchReducer::begin, Unlocked())
      .def("ready", &TorchReducer::ready, Unlocked())
      .def("unused", &TorchReducer::unused, Unlocked())
      .def("wait", &TorchReducer::wait, Unlocked())
      .def("finish", &TorchReducer::finish, Unlocked())
      .def("used", &TorchReducer::used)
      .def("stats", &TorchReducer::stats);
}

}  // namespace
}  // namespace bps_torch

PYBIND11_MODULE(TORCH_EXTENSION_NAME, module) {
  using namespace bps_torch;
  namespace py = pybind11;
  module.attr("torch_version") = TORCH_VERSION;
  module.def("create", &create, py::arg("store"), py::arg("gloo"), py::arg("name"), py::arg("timeout"));
  module.def(
      "connect", [](const BackendPtr& backend) { bpsGroup(backend).communicator()->connect(); },
      py::call_guard<py::gil_scoped_release>());
  module.def(
      "describe", [](const BackendPtr& backend) { return bpsGroup(backend).communicator()->facts(); },
      py::call_guard<py::gil_scoped_release>());
  module.def("shutdown_all", &Communicator::shutdownAll, py::call_guard<py::gil_scoped_release>());
  defineReducer(module);
  defineParameters(module);
}
