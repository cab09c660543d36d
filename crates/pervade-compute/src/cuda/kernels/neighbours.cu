// Exact nearest neighbours by comparing every node with every other.
//
// A thread has one node and goes through all others in increasing order, one tile at a time; the tile is in shared
// memory, where all threads of a warp read the same element at the same time. Sums run over the columns in increasing
// order without fused multiply-adds, as on the host: bit-identical distances.

#define NODES 64       // nodes per block, one per thread
#define CANDIDATES 32  // candidates per tile
#define TILE_GROUPS 8  // columns per tile, in groups of four

// Copies the nodes' latents, padded with zeros to groups of four columns.
extern "C" __global__ void node_latents(const float *latents, const u32 *rows, float *nodes, u64 n, u32 j, u32 padded) {
    u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n * padded) return;
    u64 node = i / padded;
    u32 k = (u32)(i % padded);
    nodes[i] = k < j ? latents[(u64)rows[node] * j + k] : 0.0f;
}

__device__ __forceinline__ float add_square(float sum, float a, float b) {
    float difference = __fsub_rn(a, b);
    return __fadd_rn(sum, __fmul_rn(difference, difference));
}

// A list of the nearest so far, nearest first; entry i is at i * stride.
struct Nearby {
    float *squares;
    u32 *candidates;
    u32 stride, len, capacity;
    float farthest;  // squared distance of the last entry; infinite until the list is full

    // Candidates come in increasing order, so that a later one at an equal distance never displaces an earlier one.
    __device__ void insert(float square, u32 candidate) {
        u32 i = len < capacity ? len++ : capacity - 1;
        for (; i > 0 && squares[(u64)(i - 1) * stride] > square; i--) {
            squares[(u64)i * stride] = squares[(u64)(i - 1) * stride];
            candidates[(u64)i * stride] = candidates[(u64)(i - 1) * stride];
        }
        squares[(u64)i * stride] = square;
        candidates[(u64)i * stride] = candidate;
        if (len == capacity) farthest = squares[(u64)(capacity - 1) * stride];
    }
};

// Neighbours of the m nodes from `first` on: [m, k]. The lists are in shared memory or, if too long for it, in `lists`
// [2, k, m].
extern "C" __global__ void __launch_bounds__(NODES)
    neighbours(const float4 *nodes, u32 *out, u32 *lists, u32 n, u32 groups, u32 k, u32 first, u32 m) {
    extern __shared__ float4 tile_and_lists[];
    float4(*tile)[TILE_GROUPS] = (float4(*)[TILE_GROUPS])tile_and_lists;
    float *memory = (float *)(tile_and_lists + CANDIDATES * TILE_GROUPS);
    float *tile_squares = memory + threadIdx.x;  // [CANDIDATES, NODES]
    u32 query = blockIdx.x * NODES + threadIdx.x, own = first + min(query, m - 1);
    Nearby nearby;
    nearby.stride = lists ? m : NODES;
    nearby.squares = lists ? (float *)lists + min(query, m - 1) : memory + CANDIDATES * NODES + threadIdx.x;
    nearby.candidates = (u32 *)nearby.squares + (u64)k * nearby.stride;
    nearby.len = 0;
    nearby.capacity = k;
    // Threads beyond the last query accept no candidate.
    nearby.farthest = query < m ? -NEG_INFINITY : NEG_INFINITY;
    for (u32 base = 0; base < n; base += CANDIDATES) {
        float squares[CANDIDATES] = {};
        for (u32 from = 0; from < groups; from += TILE_GROUPS) {
            u32 width = min(TILE_GROUPS, groups - from);
            __syncthreads();
            for (u32 i = threadIdx.x; i < CANDIDATES * width; i += NODES) {
                u32 candidate = min(base + i / width, n - 1);
                tile[i / width][i % width] = nodes[(u64)candidate * groups + from + i % width];
            }
            __syncthreads();
            for (u32 group = 0; group < width; group++) {
                float4 z = nodes[(u64)own * groups + from + group];
#pragma unroll
                for (u32 t = 0; t < CANDIDATES; t++) {
                    float4 other = tile[t][group];
                    float sum = add_square(squares[t], z.x, other.x);
                    sum = add_square(sum, z.y, other.y);
                    sum = add_square(sum, z.z, other.z);
                    squares[t] = add_square(sum, z.w, other.w);
                }
            }
        }
        float least = squares[0];
#pragma unroll
        for (u32 t = 1; t < CANDIDATES; t++) least = fminf(least, squares[t]);
        if (least < nearby.farthest) {
            u32 closer = 0;
#pragma unroll
            for (u32 t = 0; t < CANDIDATES; t++) {
                tile_squares[t * NODES] = squares[t];
                closer |= (u32)(squares[t] < nearby.farthest) << t;
            }
            for (; closer; closer &= closer - 1) {
                u32 t = __ffs(closer) - 1, candidate = base + t;
                float square = tile_squares[t * NODES];
                if (square < nearby.farthest && candidate != own && candidate < n) nearby.insert(square, candidate);
            }
        }
        __syncwarp();
    }
    for (u32 i = 0; query < m && i < k; i++) out[(u64)query * k + i] = nearby.candidates[(u64)i * nearby.stride];
}
