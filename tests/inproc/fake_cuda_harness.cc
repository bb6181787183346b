#include "tests/inproc/fake_cuda_harness.h"

#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <mutex>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>

namespace bps::test {
namespace {

[[noreturn]] void die(const char* what) {
  std::fprintf(stderr, "fake CUDA: %s\n", what);
  std::abort();
}

std::filesystem::path programDirectory() { return std::filesystem::read_symlink("/proc/self/exe").parent_path(); }

// Loads the fake driver before anything opens libcuda.so.1. Later opens then find the fake.
void* loadFakeCuda() {
  ::setenv("FAKE_CUDA_DEVICES", "5", 1);
  ::setenv("BPS_DEVICE", "host", 1);  // the C interface uses the host unless a test asks for devices
  const auto path = programDirectory() / "fake_cuda/libcuda.so.1";
  void* library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_GLOBAL);
  if (library == nullptr) die(::dlerror());
  return library;
}
void* const kLibrary = loadFakeCuda();

void checkCuda(int error, const char* what) {
  if (error != cuda::kSuccess) die(what);
}

template <class F>
F loadFunction(const char* name) {
  return reinterpret_cast<F>(driverFunction(name));
}

}  // namespace

void* driverFunction(const char* name) {
  void* found = ::dlsym(kLibrary, name);
  if (found == nullptr) die(name);
  return found;
}

const FakeCudaApi& fakeCuda() {
  static const FakeCudaApi instance{loadFunction<decltype(&fakeCudaCalls)>("fakeCudaCalls"),
                                    loadFunction<decltype(&fakeCudaFail)>("fakeCudaFail"),
                                    loadFunction<decltype(&fakeCudaCopyRate)>("fakeCudaCopyRate"),
                                    loadFunction<decltype(&fakeCudaAlias)>("fakeCudaAlias"),
                                    loadFunction<decltype(&fakeCudaLaunch)>("fakeCudaLaunch"),
                                    loadFunction<decltype(&fakeCudaFirstLaunch)>("fakeCudaFirstLaunch")};
  return instance;
}

const cuda::Api& api() {
  static const cuda::Api* found = [] {
    Result<const cuda::Api*> driver = cuda::driver();
    if (!driver.ok()) die(driver.error().message());
    return std::move(driver).value();
  }();
  return *found;
}

cuda::Device& device(int ordinal) {
  static std::once_flag once;  // runs before other threads read the environment
  if (ordinal == 2)
    std::call_once(once, [] {
      ::setenv("FAKE_CUDA_MEM_OPS", "0", 1);
      static_cast<void>(cuda::Device::open(api(), 2).ok());
      ::unsetenv("FAKE_CUDA_MEM_OPS");
    });
  Result<cuda::Device*> opened = cuda::Device::open(api(), ordinal);
  if (!opened.ok()) die(opened.error().message());
  return *std::move(opened).value();
}

Buffer::Buffer(Memory kind, size_t bytes) : kind_(kind), size_(bytes) {
  const size_t room = bytes == 0 ? 1 : bytes;
  const auto managed = [&] {
    return loadFunction<int (*)(void**, size_t, unsigned)>("cuMemAllocManaged")(&pointer_, room, 1);
  };
  cuda::Address address = 0;
  switch (kind) {
    case Memory::kDevice:
      checkCuda(api().memAlloc(&address, room), "cuMemAlloc");
      pointer_ = reinterpret_cast<void*>(address);
      break;
    case Memory::kManaged:
      checkCuda(managed(), "cuMemAllocManaged");
      break;
    case Memory::kPinned:
      checkCuda(loadFunction<int (*)(void**, size_t, unsigned)>("cuMemHostAlloc")(&pointer_, room, 0),
                "cuMemHostAlloc");
      break;
    case Memory::kRegistered:
    case Memory::kPageable:
      pointer_ = std::malloc(room);
      if (kind == Memory::kRegistered) checkCuda(api().memHostRegister(pointer_, room, 0), "cuMemHostRegister");
  }
  std::memset(this->bytes(), 0xee, size_);
}

Buffer::Buffer(Memory kind, const Bytes& content) : Buffer(kind, content.size()) {
  if (size_ > 0) std::memcpy(bytes(), content.data(), size_);
}

Buffer::~Buffer() {
  if (kind_ == Memory::kDevice || kind_ == Memory::kManaged) api().memFree(reinterpret_cast<cuda::Address>(pointer_));
  if (kind_ == Memory::kPinned) loadFunction<int (*)(void*)>("cuMemFreeHost")(pointer_);
  if (kind_ == Memory::kRegistered) api().memHostUnregister(pointer_);
  if (kind_ == Memory::kRegistered || kind_ == Memory::kPageable) std::free(pointer_);
}

AppStream::AppStream() { checkCuda(api().streamCreateWithPriority(&stream_, 0, 0), "cuStreamCreateWithPriority"); }
AppStream::~AppStream() { api().streamDestroy(stream_); }

void AppStream::run(std::function<void()> body) const {
  const auto call = [](void* argument) {
    const std::unique_ptr<std::function<void()>> owner(static_cast<std::function<void()>*>(argument));
    (*owner)();
  };
  checkCuda(fakeCuda().launch(stream_, call, new std::function<void()>(std::move(body))), "a kernel");
}

std::function<void()> AppStream::hold() const {
  auto promise = std::make_shared<std::promise<void>>();
  run([promise] { promise->get_future().wait(); });
  return [promise] { promise->set_value(); };
}

bool AppStream::idle() const { return api().streamQuery(stream_) == cuda::kSuccess; }
void AppStream::synchronize() const { checkCuda(api().streamSynchronize(stream_), "cuStreamSynchronize"); }

std::string siblingPath(const char* name) { return programDirectory() / name; }

Env cudaEnv() {
  Env env = testEnv();
  env.device = "cuda";
  return env;
}

AllReduceCall callOn(cuda::Stream stream, const void* send, void* recv, size_t count, DataType type) {
  AllReduceCall call;
  call.send = send;
  call.recv = recv;
  call.count = count;
  call.type = type;
  call.handle = stream;
  if (stream == nullptr) call.stream = HostStream::find(nullptr);
  return call;
}

Status compare(const Buffer& buffer, const Bytes& want, const char* what) {
  if (buffer.content() == want) return {};
  return {Code::kInternal, std::string("wrong bytes in ") + what};
}

// Issues one call on this rank and its stream, and compares the result with the expected result.
Status callAndCheck(Communicator& comm, const AppStream& stream, const Inputs& inputs,
                    const BufferPlacement& placement) {
  const Bytes& mine = inputs.of[comm.rank()];
  const Buffer send(placement.send, mine), other(placement.recv, mine.size());
  const Buffer& recv = placement.inPlace ? send : other;
  AllReduceCall call = callOn(stream.get(), send.get(), recv.get(), inputs.count, inputs.type);
  call.op = inputs.op;
  call.scalar = inputs.scalars[comm.rank()];
  BPS_TRY(comm.allReduce(call));
  while (!stream.idle() && comm.failure().ok()) std::this_thread::sleep_for(std::chrono::microseconds(50));
  if (!stream.idle()) comm.releaseFailedStreams();  // the stream stands at a failed call
  stream.synchronize();
  BPS_TRY(comm.failure());
  BPS_TRY(compare(recv, inputs.want, "recvbuff"));
  if (!placement.inPlace) BPS_TRY(compare(send, mine, "sendbuff"));
  return {};
}

GpuLinks gpuLinksOf(const std::string& described) {
  GpuLinks links;
  const auto machine = nlohmann::json::parse(described);
  for (const auto& link : machine["links"]) {
    const std::string name = link["link"];
    if (!name.starts_with("GPU")) continue;
    for (const char* way : {"up", "down"})
      for (const auto& [kind, bytes] : link[way].items())
        links[name.substr(0, 5)][kind + " " + way] += bytes.get<uint64_t>();
  }
  return links;
}

}  // namespace bps::test
