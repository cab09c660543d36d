// Hopper's asynchronous instructions: the copy engine (tensor memory accelerator), barriers in shared memory that track
// it (mbarrier), clusters of blocks, and overlapping kernels. On other devices they are empty and unused.

#ifdef __CUDA_ARCH_FEAT_SM90_ALL
#define HOPPER 1
#else
#define HOPPER 0
#endif

// The descriptor of a matrix in shared memory: lines of 128 bytes, eight of which form an atom; chunk c (16 bytes) of line
// l is at position c ^ l % 8.
__device__ __forceinline__ u64 describe(u32 at) {
    return (u64)((at & 0x3ffff) >> 4) | (u64)1 << 16 | (u64)(1024 >> 4) << 32 | (u64)1 << 62;
}

// The block's barrier, callable from different branches.
__device__ __forceinline__ void sync_block() { asm volatile("bar.sync 0;" ::: "memory"); }

// The copy engine's description of a matrix [R, rows, columns], created by the driver.
struct alignas(64) Map {
    u64 words[16];
};

// Has the engine load a tile, with zeros beyond the matrix's edges. The barrier `done` counts its bytes.
__device__ __forceinline__ void load_tile(u32 to, const Map &map, u32 column, u32 row, u32 restart, u32 done) {
#if HOPPER
    asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
                 "[%0], [%1, {%2, %3, %4}], [%5];" ::"r"(to),
                 "l"(&map), "r"(column), "r"(row), "r"(restart), "r"(done)
                 : "memory");
#endif
}

// The same for contiguous memory: at most a few thousand elements, a multiple of four.
__device__ __forceinline__ void load_bulk(u32 to, const float *from, u32 n_bytes, u32 done) {
#if HOPPER
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(to),
                 "l"(from), "r"(n_bytes), "r"(done)
                 : "memory");
#endif
}

// Prefetches a map for the engine.
__device__ __forceinline__ void prefetch_map(const Map &map) {
#if HOPPER
    asm volatile("prefetch.tensormap [%0];" ::"l"(&map) : "memory");
#endif
}

// Initialises a barrier for n arrivals.
__device__ __forceinline__ void init_barrier(u32 at, u32 n) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(at), "r"(n) : "memory");
}

// Arrives once, and adds bytes that the barrier must wait for.
__device__ __forceinline__ void expect_bytes(u32 at, u32 n_bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(at), "r"(n_bytes) : "memory");
}

__device__ __forceinline__ void arrive(u32 done) {
#if HOPPER
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(done) : "memory");
#endif
}

// Waits until a barrier has completed its phase of this parity.
__device__ __forceinline__ void wait_for(u32 done, u32 parity) {
#if HOPPER
    asm volatile("{\n.reg .pred complete;\nagain:\n"
                 "mbarrier.try_wait.parity.shared::cta.b64 complete, [%0], %1;\n@!complete bra again;\n}" ::"r"(done),
                 "r"(parity)
                 : "memory");
#endif
}

// Waits until stage s has completed, in a ring of barriers.
__device__ __forceinline__ void wait_stage(u32 barriers, u32 s, u32 n_barriers) {
    wait_for(barriers + s % n_barriers * 8, s / n_barriers % 2);
}

// Makes this thread's writes to shared memory visible to the copy engine and the tensor cores.
__device__ __forceinline__ void fence_async_proxy() {
#if HOPPER
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
#endif
}

// Has the engine store a tile; nothing is written beyond the matrix's edges.
__device__ __forceinline__ void store_tile(const Map &map, u32 from, u32 column, u32 row, u32 restart) {
#if HOPPER
    asm volatile("cp.async.bulk.tensor.3d.global.shared::cta.tile.bulk_group [%0, {%1, %2, %3}], [%4];" ::"l"(&map),
                 "r"(column), "r"(row), "r"(restart), "r"(from)
                 : "memory");
#endif
}

// The same for contiguous memory.
__device__ __forceinline__ void store_bulk(float *to, u32 from, u32 n_bytes) {
#if HOPPER
    asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(to), "r"(from), "r"(n_bytes)
                 : "memory");
#endif
}

// Waits until the engine has read the sources of this thread's stores: the buffers can be reused.
__device__ __forceinline__ void wait_stores_read() {
#if HOPPER
    asm volatile("cp.async.bulk.commit_group;\ncp.async.bulk.wait_group.read 0;" ::: "memory");
#endif
}

// The block's rank within its cluster.
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

// The cluster's barrier, which does not order writes.
__device__ __forceinline__ void sync_cluster_relaxed() {
#if HOPPER
    asm volatile("barrier.cluster.arrive.relaxed.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::: "memory");
#endif
}

// The cluster's barrier with ordered writes: one thread issues the fence for its block.
__device__ __forceinline__ void sync_cluster() {
#if HOPPER
    sync_block();
    if (threadIdx.x == 0) asm volatile("fence.acq_rel.cluster;" ::: "memory");
    __syncwarp();
    sync_cluster_relaxed();
#endif
}

// Waits for the previous kernel, after which its writes are visible: this kernel may have started before it ended. Then
// allows the next kernel to start; not earlier, or chains of waiting kernels would occupy the resources of concurrent ones.
__device__ __forceinline__ void after_previous() {
#if HOPPER
    asm volatile("griddepcontrol.wait;\ngriddepcontrol.launch_dependents;" ::: "memory");
#endif
}

// Loads four elements of another block's shared memory.
__device__ __forceinline__ float4 load_from(u32 at, u32 rank) {
    float4 x = {};
#if HOPPER
    u32 mapped;
    asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(mapped) : "r"(at), "r"(rank));
    asm volatile("ld.shared::cluster.v4.f32 {%0,%1,%2,%3}, [%4];"
                 : "=f"(x.x), "=f"(x.y), "=f"(x.z), "=f"(x.w)
                 : "r"(mapped));
#endif
    return x;
}

// Loads four elements of this block's shared memory.
__device__ __forceinline__ float4 load_own(u32 at) {
    float4 x;
    asm volatile("ld.shared.v4.f32 {%0,%1,%2,%3}, [%4];" : "=f"(x.x), "=f"(x.y), "=f"(x.z), "=f"(x.w) : "r"(at));
    return x;
}
