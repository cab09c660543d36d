// Hopper's own instructions for what goes on beside a warp: the copy engine, counters in shared memory that say
// how far it is, blocks that start together, kernels that overlap. On other devices they are empty, and nothing calls
// them.

#ifdef __CUDA_ARCH_FEAT_SM90_ALL
#define HOPPER 1
#else
#define HOPPER 0
#endif

// Lines of 128 bytes, eight of which make an atom: the hardware looks for chunk c (16 bytes) of line l at place
// c ^ l % 8.
__device__ __forceinline__ u64 describe(u32 at) {
    return (u64)((at & 0x3ffff) >> 4) | (u64)1 << 16 | (u64)(1024 >> 4) << 32 | (u64)1 << 62;
}

// The warps' meeting point, from whichever branch they come.
__device__ __forceinline__ void meet() { asm volatile("bar.sync 0;" ::: "memory"); }

// What the copy engine has to know of a matrix [R, rows, columns]: made by the driver.
struct alignas(64) Map {
    u64 words[16];
};

// Asks the engine for a tile; zeros beyond the matrix' edges. `done` counts its bytes.
__device__ __forceinline__ void copy_tile(u32 to, const Map &map, u32 column, u32 row, u32 restart, u32 done) {
#if HOPPER
    asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
                 "[%0], [%1, {%2, %3, %4}], [%5];" ::"r"(to),
                 "l"(&map), "r"(column), "r"(row), "r"(restart), "r"(done)
                 : "memory");
#endif
}

// The same for a run of memory: no more than a few thousand numbers, a multiple of four of them.
__device__ __forceinline__ void copy_run(u32 to, const float *from, u32 n_bytes, u32 done) {
#if HOPPER
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(to),
                 "l"(from), "r"(n_bytes), "r"(done)
                 : "memory");
#endif
}

// The engine will need this soon.
__device__ __forceinline__ void expect_map(const Map &map) {
#if HOPPER
    asm volatile("prefetch.tensormap [%0];" ::"l"(&map) : "memory");
#endif
}

// A counter of n arrivals (or of bytes).
__device__ __forceinline__ void start_counter(u32 at, u32 n) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(at), "r"(n) : "memory");
}

// One arrival, and bytes that will come.
__device__ __forceinline__ void expect(u32 at, u32 n_bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(at), "r"(n_bytes) : "memory");
}

__device__ __forceinline__ void arrive(u32 done) {
#if HOPPER
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(done) : "memory");
#endif
}

// Waits until a counter has gone through its phase of this parity.
__device__ __forceinline__ void wait_for(u32 done, u32 parity) {
#if HOPPER
    asm volatile("{\n.reg .pred there;\nagain:\n"
                 "mbarrier.try_wait.parity.shared::cta.b64 there, [%0], %1;\n@!there bra again;\n}" ::"r"(done),
                 "r"(parity)
                 : "memory");
#endif
}

// Waits for a ring of counters to have counted stage s.
__device__ __forceinline__ void wait_stage(u32 counters, u32 s, u32 n_counters) {
    wait_for(counters + s % n_counters * 8, s / n_counters % 2);
}

// What this thread wrote to shared memory can be read by the copy engine and the tensor cores.
__device__ __forceinline__ void show_engine() {
#if HOPPER
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
#endif
}

// Hands the engine a tile that goes back to memory; nothing goes beyond the matrix' edges.
__device__ __forceinline__ void send_tile(const Map &map, u32 from, u32 column, u32 row, u32 restart) {
#if HOPPER
    asm volatile("cp.async.bulk.tensor.3d.global.shared::cta.tile.bulk_group [%0, {%1, %2, %3}], [%4];" ::"l"(&map),
                 "r"(column), "r"(row), "r"(restart), "r"(from)
                 : "memory");
#endif
}

// The same for a run.
__device__ __forceinline__ void send_run(float *to, u32 from, u32 n_bytes) {
#if HOPPER
    asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(to), "r"(from), "r"(n_bytes)
                 : "memory");
#endif
}

// Waits until the engine has read all that this thread sent: its place can be used again.
__device__ __forceinline__ void wait_until_read() {
#if HOPPER
    asm volatile("cp.async.bulk.commit_group;\ncp.async.bulk.wait_group.read 0;" ::: "memory");
#endif
}

// The blocks of a cluster share out k, and each finishes some of the rows.
__device__ __forceinline__ u32 cluster_rank() {
    u32 rank = 0;
#if HOPPER
    asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
#endif
    return rank;
}

__device__ __forceinline__ u32 cluster_size() {
    u32 size = 1;
#if HOPPER
    asm("mov.u32 %0, %%cluster_nctarank;" : "=r"(size));
#endif
    return size;
}

// The blocks of a cluster wait for each other; what they wrote need not be there.
__device__ __forceinline__ void meet_cluster() {
#if HOPPER
    asm volatile("barrier.cluster.arrive.relaxed.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::: "memory");
#endif
}

// The same, and what they wrote is there: one thread sees to it for its block.
__device__ __forceinline__ void show_cluster() {
#if HOPPER
    meet();
    if (threadIdx.x == 0) asm volatile("fence.acq_rel.cluster;" ::: "memory");
    __syncwarp();
    meet_cluster();
#endif
}

// A kernel may start before the one that makes its rows has ended. What that one wrote is there when this returns, and
// the next kernel may start in turn: not before, or whole chains of waiting kernels would take the room of those beside.
__device__ __forceinline__ void after_previous() {
#if HOPPER
    asm volatile("griddepcontrol.wait;\ngriddepcontrol.launch_dependents;" ::: "memory");
#endif
}

// Four numbers of another block's shared memory.
__device__ __forceinline__ float4 load_from(u32 at, u32 rank) {
    float4 x = {};
#if HOPPER
    u32 there;
    asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(at), "r"(rank));
    asm volatile("ld.shared::cluster.v4.f32 {%0,%1,%2,%3}, [%4];"
                 : "=f"(x.x), "=f"(x.y), "=f"(x.z), "=f"(x.w)
                 : "r"(there));
#endif
    return x;
}

// Four numbers of this block's.
__device__ __forceinline__ float4 load_own(u32 at) {
    float4 x;
    asm volatile("ld.shared.v4.f32 {%0,%1,%2,%3}, [%4];" : "=f"(x.x), "=f"(x.y), "=f"(x.z), "=f"(x.w) : "r"(at));
    return x;
}
