#pragma once
// The device seam: all that the execution engine asks of a device, as one table of plain C functions.
// Two backends fill it: `reference` (host, compiled in) and `cuda` (a module opened at run time).
//
// * Every function returns a Status; on anything but `ok`, last_error() holds a sentence about it (of the
//   calling thread, until its next call). Nothing throws, nothing exits.
// * Work given a Stream runs in the order given, perhaps after the call returned: arguments structs and the
//   host arrays they point to (GemmGroup) are read before the call returns; device memory (indices, weights,
//   rows) must stay as it is until the stream has passed. The reference backend runs everything at once.
// * Matrices are row-major and dense. Rows and offsets are int32, sums are float32 in the order stated, so
//   results do not depend on the backend's parallelism beyond the rounding of GEMMs.
// * One thread calls a device's functions; which one is the caller's affair.
#include <cstddef>
#include <cstdint>

namespace relibra::kernels {

inline constexpr std::int32_t kBackendVersion = 2;

enum class Status : std::int32_t { ok = 0, failed = 1, out_of_memory = 2, unsupported = 3 };
enum class Type : std::int32_t { float32 = 0, bfloat16 = 1 };

constexpr std::size_t size_of(Type type) {
  return type == Type::float32 ? 4 : 2;
}

struct Device;   ///< an opened device
struct Stream;   ///< a queue of work on a device
struct Event;    ///< a point in a stream, with its time
struct Gemm;     ///< a grouped GEMM prepared before the step
struct Network;  ///< a communicator of device-to-device transfers

struct DeviceInfo {
  char name[128] = {};
  char bus[32] = {};  ///< where it is in this machine; two openings of one device have the same. Empty: host
  std::uint64_t total_bytes = 0;
  std::uint64_t free_bytes = 0;
};

enum class Memory : std::int32_t {
  device = 0,
  host = 1,  ///< page-locked, so that copies to and from the device run beside other work
};

/// out[i] = in[index[i]] for i in [0, rows); rows of `width` elements.
struct GatherRows {
  Type type;
  std::int64_t rows, width;
  const std::int32_t* index;  ///< (rows)
  const void* in;             ///< (any, width)
  void* out;                  ///< (rows, width)
};

/// out[r] = base[r] + sum over j in [offset[r], offset[r+1]) of weight[index[j]] * in[index[j]].
/// The sum starts at base (or 0), adds in float32 in the order of j, and is rounded once to `type`.
/// `out` may be `base`. Example, width 1: in = 10 20 30, offset = 0 2 2, index = 2 0, weight = 1 1 .5,
/// no base: out = .5*30 + 1*10, 0 = 25 0.
struct CombineRows {
  Type type;
  std::int64_t rows, width;
  const std::int32_t* offset;  ///< (rows+1)
  const std::int32_t* index;   ///< (offset[rows]) rows of `in`
  const float* weight;         ///< by row of `in`; null: all 1
  const void* base;            ///< (rows, width); null: 0
  const void* in;              ///< (any, width)
  void* out;                   ///< (rows, width)
};

/// hidden[r] = silu(gate[r]) * up[r], silu(x) = x / (1 + exp(-x)); a row of gate_up is gate then up.
struct SwigluForward {
  Type type;
  std::int64_t rows, width;
  const void* gate_up;  ///< (rows, 2 * width)
  void* hidden;         ///< (rows, width)
};

/// Backward of y = w * W2 * hidden through w and SwiGLU, with d = W2^T * dy given (before the factor w):
///   grad_weight[r]     = sum over c of d[r][c] * hidden[r][c]            (float32)
///   weighted_hidden[r] = w[r] * hidden[r]                                (the right factor of W2's gradient)
///   grad_gate_up[r]    = w[r] * d[r] through SwiGLU: d gate = w d up silu'(gate), d up = w d silu(gate)
/// hidden is computed anew from gate_up. grad_gate_up may be gate_up, weighted_hidden may be grad_hidden.
struct SwigluBackward {
  Type type;
  std::int64_t rows, width;
  const void* gate_up;      ///< (rows, 2 * width)
  const void* grad_hidden;  ///< (rows, width), d above
  const float* weight;      ///< (rows), w above
  void* grad_gate_up;       ///< (rows, 2 * width)
  void* weighted_hidden;    ///< (rows, width)
  float* grad_weight;       ///< (rows)
};

enum class GemmKind : std::int32_t {
  forward = 0,          ///< out (rows, n) = a (rows, k) * b (n, k)^T           b: weights
  data_gradient = 1,    ///< out (rows, k) = a (rows, n) * b (n, k)             b: weights
  weight_gradient = 2,  ///< out (n, k) [+]= a (rows, n)^T * b (rows, k)        out: float32 always
};

/// One group, that is one expert's share of a grouped GEMM. Groups of one GEMM never write the same memory.
struct GemmGroup {
  std::int64_t rows = 0;  ///< at least 1
  const void* a = nullptr;
  const void* b = nullptr;
  void* out = nullptr;
  bool accumulate = false;  ///< weight_gradient only: add to `out` instead of overwriting it
};

struct GemmSpec {
  GemmKind kind = GemmKind::forward;
  Type type = Type::float32;  ///< of a and b, and of out unless weight_gradient
  std::int64_t n = 0, k = 0;
  const GemmGroup* groups = nullptr;
  std::int32_t count = 0;  ///< may be 0
};

/// What makes a set of processes one Network; made by one of them, carried to the others by the caller.
struct NetworkId {
  char bytes[128] = {};
};

/// `peer` counts within the Network. Messages of a pair are matched in the order of the calls and within a
/// call in the order of the lists; sizes must agree.
struct NetworkSend {
  std::int32_t peer = 0;
  const void* data = nullptr;
  std::uint64_t bytes = 0;
};
struct NetworkReceive {
  std::int32_t peer = 0;
  void* data = nullptr;
  std::uint64_t bytes = 0;
};

struct Backend {
  std::int32_t version;  ///< kBackendVersion of the header it was built with
  const char* name;      ///< "reference" or "cuda"
  const char* (*last_error)();

  // Devices. device_count succeeds with 0 where no device answers; last_error() then says why.
  Status (*device_count)(std::int32_t* count);
  Status (*device_open)(std::int32_t index, Device** device);
  Status (*device_info)(Device* device, DeviceInfo* info);
  Status (*device_close)(Device* device);  ///< all that belongs to it has been freed before

  // Memory, aligned to 256 bytes, content undefined. Null may be freed.
  Status (*allocate)(Device* device, Memory memory, std::uint64_t bytes, void** data);
  Status (*free)(Device* device, Memory memory, void* data);
  /// Host or device memory on either side; in the order of the stream.
  Status (*copy)(Stream* stream, void* to, const void* from, std::uint64_t bytes);

  // Streams and events.
  Status (*stream_create)(Device* device, Stream** stream);
  Status (*stream_destroy)(Stream* stream);
  Status (*stream_synchronize)(Stream* stream);  ///< blocks until all work given so far is done
  Status (*event_create)(Device* device, Event** event);
  Status (*event_destroy)(Event* event);
  Status (*event_record)(Event* event, Stream* stream);  ///< the point after all work given so far
  Status (*event_query)(Event* event, bool* passed);  ///< does not block; an event never recorded has passed
  Status (*stream_wait)(Stream* stream, Event* event);  ///< work given to `stream` after this runs after it
  /// Seconds between two passed events of one device, on any of its streams.
  Status (*event_elapsed)(Event* from, Event* to, double* seconds);

  // Kernels.
  Status (*gather_rows)(Stream* stream, const GatherRows* args);
  Status (*combine_rows)(Stream* stream, const CombineRows* args);
  Status (*swiglu_forward)(Stream* stream, const SwigluForward* args);
  Status (*swiglu_backward)(Stream* stream, const SwigluBackward* args);
  Status (*accumulate)(Stream* stream, float* out, const float* in, std::int64_t count);  ///< out += in
  Status (*convert)(Stream* stream, void* out, Type out_type, const void* in, Type in_type,
                    std::int64_t count);
  Status (*fill)(Stream* stream, void* out, Type type, float value, std::int64_t count);

  // Grouped GEMM. All shapes are known before a step, so each is prepared once and run many times.
  Status (*gemm_create)(Device* device, const GemmSpec* spec, Gemm** gemm);
  Status (*gemm_run)(Stream* stream, Gemm* gemm);
  Status (*gemm_destroy)(Gemm* gemm);
  /// Device memory that gemm_create takes for such a GEMM beyond its arguments (one scratch, shared by the
  /// GEMMs of a device, as large as the largest asks).
  Status (*gemm_scratch)(const GemmSpec* spec, std::uint64_t* bytes);
  /// A backend that computes on the calling thread calls poll(context) between tiles, which take some
  /// milliseconds, so that host communication can advance; others ignore it. Null: none.
  Status (*set_poll)(Device* device, void (*poll)(void* context), void* context);

  // Device-to-device transfers; null in a backend without them (reference).
  Status (*network_id)(NetworkId* id);
  /// Collective over the `size` processes; returns once all joined, or fails after `timeout_seconds`.
  Status (*network_create)(Device* device, const NetworkId* id, std::int32_t size, std::int32_t rank,
                           double timeout_seconds, Network** network);
  /// One group of transfers, in the order of the stream.
  Status (*network_exchange)(Network* network, Stream* stream, const NetworkSend* sends,
                             std::int32_t send_count, const NetworkReceive* receives,
                             std::int32_t receive_count);
  Status (*network_poll)(Network* network);     ///< fails where an asynchronous error has shown
  Status (*network_abort)(Network* network);    ///< ends work in flight and frees it; does not wait for peers
  Status (*network_destroy)(Network* network);  ///< after its streams were synchronised
};

/// The one symbol of a backend module. Null where `version` is not the one it was built with.
using OpenBackend = const Backend* (*)(std::int32_t version);
inline constexpr const char* kOpenBackendSymbol = "relibra_open_backend";

}  // namespace relibra::kernels
